//! The cluster as a pure model: stepped with `now`, left to chance only by its seed; no I/O and no clock.

mod faults;
mod group;
mod host;
mod life;
mod log;
mod replica;
mod reports;
mod writes;

pub use host::{Assignment, Host, Placement, Report, SlotId, State};
pub use log::{Key, Row, WINDOW_MS};
pub use replica::{Replica, Role};
pub use writes::{Position, Truth, WriteError, Written};

use super::catalogue::Catalogue;
use super::config::ClusterConfig;
use host::Link;
use log::Slot;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// What happens at a time of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Enter { host: usize, epoch: u64, state: u8 },
    Commit { host: usize },
    Report { host: usize },
    Ends { host: usize, epoch: u64 },
    Expire { host: usize, epoch: u64 },
    Join { host: usize, epoch: u64 },
    Discover { host: usize, epoch: u64 },
}

/// The model.
pub struct Model {
    /// The settings.
    pub config: ClusterConfig,
    /// What the metastore holds.
    pub catalogue: Arc<Catalogue>,
    /// The servers.
    pub hosts: Vec<Host>,
    /// Hosts of `/clusterStatus` that do not exist.
    pub ghosts: BTreeSet<String>,
    /// Custom types: name and SQL text of each.
    pub types: BTreeMap<String, String>,
    /// Commands in the command topic.
    pub commands: u64,
    now: Duration,
    rng: StdRng,
    dice: StdRng,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    sequence: u64,
    slots: Vec<Vec<Slot>>,
    links: Vec<Vec<Link>>,
    cuts: BTreeSet<(usize, usize)>,
    members: BTreeSet<usize>,
    placement: Arc<Placement>,
    pending: HashMap<usize, BTreeMap<SlotId, u64>>,
    truth: HashMap<(String, Vec<u8>), Vec<Truth>>,
    written: Vec<Written>,
    next_value: i64,
}

impl Model {
    /// A cluster whose servers are all ready, with the fixtures' data read, committed, replicated and reported.
    pub fn new(config: ClusterConfig, names: Vec<String>) -> Result<Self, serde_json::Error> {
        let catalogue = Arc::new(Catalogue::load(&config.tables, config.partitions)?);
        let servers = names.len();
        let up = Link { up: true, since: Duration::ZERO, was_alive: true };
        let slots = || (0..config.partitions).map(|_| Slot::default()).collect();
        let mut model = Model {
            slots: catalogue.queries.iter().map(|_| slots()).collect(),
            hosts: names.into_iter().map(|name| Host::new(name, servers)).collect(),
            links: vec![vec![up; servers]; servers],
            rng: StdRng::seed_from_u64(config.seed),
            dice: StdRng::seed_from_u64(!config.seed),
            catalogue,
            config,
            ghosts: BTreeSet::new(),
            types: BTreeMap::new(),
            commands: 0,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            sequence: 0,
            cuts: BTreeSet::new(),
            members: (0..servers).collect(),
            placement: Arc::default(),
            pending: HashMap::new(),
            truth: HashMap::new(),
            written: Vec::new(),
            next_value: 0,
        };
        model.begin();
        Ok(model)
    }

    /// The time of the last step, since the start of the cluster.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Brings the model to `now`; a time before the last one changes nothing.
    pub fn advance(&mut self, now: Duration) {
        while let Some(Reverse((at, _, _))) = self.events.peek() {
            if *at > now {
                break;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = self.now.max(now);
    }

    /// Epoch milliseconds as the clock of a host shows them.
    pub fn clock_ms(&self, host: usize) -> i64 {
        self.config.epoch_ms + self.now.as_millis() as i64 + self.hosts.get(host).map_or(0, |h| h.skew_ms)
    }

    /// Whether `observer` counts `subject` as alive.
    pub fn alive(&self, observer: usize, subject: usize) -> bool {
        let link = self.links.get(subject).and_then(|row| row.get(observer));
        observer == subject || !self.config.heartbeats || link.is_some_and(|l| l.alive(self.now))
    }

    /// Whether what `from` sends to `to` is lost.
    pub fn cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Whether `server` asks `other` for its part of a statement: what it knows of the placement has a task there.
    pub fn asks(&self, server: usize, other: usize) -> bool {
        let placement = self.hosts.get(server).and_then(|h| h.placement.as_ref());
        let mut all = placement.into_iter().flat_map(|p| p.iter().flatten());
        all.any(|a| a.active == other || a.standbys.contains(&other))
    }

    /// A number below `n` from the seed, for what a query meets; queries do not change the course of the cluster.
    pub fn chance(&mut self, n: u64) -> u64 {
        self.dice.random_range(0..n.max(1))
    }

    /// Brings a replica up to now and gives it; `None` if the host has none.
    pub fn replica(&mut self, host: usize, slot: SlotId) -> Option<&Replica> {
        let now = self.now;
        let kind = self.catalogue.queries.get(slot.0)?.kind;
        let log = self.slots.get(slot.0)?.get(slot.1 as usize)?;
        let owner = self.hosts.get_mut(host)?;
        let delay = self.config.replication_delay + owner.replication_extra;
        // A member that was given up processes nothing more, whatever it still believes.
        let works = owner.state.processes() && !owner.paused && self.members.contains(&host);
        let skips = owner.skips;
        let replica = owner.replicas.get_mut(&slot)?;
        if works && skips && replica.role == Role::Standby {
            replica.skip(log, now, delay);
        } else if works {
            replica.advance(kind, log, now, delay, self.config.processing_delay);
        }
        Some(replica)
    }

    /// The end offset of a changelog.
    pub fn end_offset(&self, slot: SlotId) -> u64 {
        self.slot(slot).map_or(0, |s| s.changelog.len() as u64)
    }

    /// Length and committed offset of an input partition.
    pub fn input_offsets(&self, slot: SlotId) -> (u64, u64) {
        self.slot(slot).map_or((0, 0), |s| (s.input.len() as u64, s.committed as u64))
    }

    /// Who holds what, as the group has it.
    pub fn group_placement(&self) -> &Placement {
        &self.placement
    }

    /// The partitions of a query that a server holds.
    pub fn tasks(&self, server: usize, query: usize) -> Vec<u32> {
        let all = self.hosts.get(server).map(|h| h.replicas.keys().filter(|(q, _)| *q == query).map(|(_, p)| *p));
        let mut all: Vec<u32> = all.map(Iterator::collect).unwrap_or_default();
        all.sort_unstable();
        all
    }

    fn slot(&self, slot: SlotId) -> Option<&Slot> {
        self.slots.get(slot.0).and_then(|q| q.get(slot.1 as usize))
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + after, self.sequence, event)));
    }

    fn jitter(&mut self, low_ms: u64, high_ms: u64) -> Duration {
        Duration::from_millis(self.rng.random_range(low_ms..=high_ms.max(low_ms)))
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Enter { host, epoch, state } if self.lives(host, epoch) => self.enter(host, state),
            Event::Commit { host } => self.commit_tick(host),
            Event::Report { host } => self.report_positions(host),
            Event::Ends { host, epoch } if self.lives(host, epoch) => self.report_ends(host),
            Event::Expire { host, epoch } if self.lives(host, epoch) => self.expire(host),
            Event::Join { host, epoch } if self.lives(host, epoch) => self.join(host),
            Event::Discover { host, epoch } if self.lives(host, epoch) => self.discover(host),
            _ => {}
        }
    }

    fn lives(&self, host: usize, epoch: u64) -> bool {
        self.hosts.get(host).is_some_and(|h| h.epoch == epoch)
    }
}
