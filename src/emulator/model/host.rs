//! One server of the model: its life, its replicas, and what it believes of the others.

use super::replica::Replica;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A query's index and a partition.
pub type SlotId = (usize, u32);

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No process.
    Down,
    /// A process, no open port.
    Booting,
    /// Open, 503.
    Starting,
    /// Answers, knows no partitions yet.
    Joining,
    /// Serves.
    Ready,
    /// Got SIGTERM, still serves.
    Draining,
    /// Its streams are stopping.
    PendingShutdown,
    /// Its queries are gone.
    NotQueryable,
    /// Its workers are gone; the port closes in a moment.
    WorkersClosed,
}

impl State {
    /// Whether the port is open.
    pub fn open(self) -> bool {
        !matches!(self, State::Down | State::Booting)
    }

    /// Whether its agents send heartbeats and reports.
    pub fn answers(self) -> bool {
        self.open() && self != State::Starting
    }

    /// Whether its tasks process records.
    pub fn processes(self) -> bool {
        matches!(self, State::Ready | State::Draining)
    }
}

/// The positions that a host reported, per query and partition: current and end offset.
#[derive(Debug, Default)]
pub struct Report {
    /// The host's clock in epoch milliseconds.
    pub at_ms: i64,
    /// Per query and partition.
    pub lags: BTreeMap<SlotId, (u64, u64)>,
}

/// Who holds a partition, as indexes of servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The active.
    pub active: usize,
    /// The standbys.
    pub standbys: Vec<usize>,
}

/// Per query the assignment of every partition.
pub type Placement = Vec<Vec<Assignment>>;

/// A server.
#[derive(Debug)]
pub struct Host {
    /// `host:port`, its name in `/clusterStatus`.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Changes with every crash, start, pause and resume: events of an earlier life are void.
    pub epoch: u64,
    /// Whether it is stopped.
    pub paused: bool,
    /// When SIGTERM came.
    pub closing_since: Duration,
    /// When the group gives up a server that has fallen silent.
    pub expires: Duration,
    /// Epoch milliseconds at which the process became ready.
    pub incarnation_ms: i64,
    /// Its replicas.
    pub replicas: HashMap<SlotId, Replica>,
    /// What its state directory holds: changelog records applied per slot.
    pub disk: HashMap<SlotId, usize>,
    /// The last report it got from each server.
    pub reports: Vec<Arc<Report>>,
    /// The placement it knows; `None` until its streams run.
    pub placement: Option<Arc<Placement>>,
    /// Whether it knows the other servers.
    pub discovered: bool,
    /// How wrong its clock is.
    pub skew_ms: i64,
    /// How much longer its answers take.
    pub slow: Duration,
    /// How much later its standbys get records.
    pub replication_extra: Duration,
    /// Sends no reports.
    pub frozen: bool,
    /// Its standbys pass over records.
    pub skips: bool,
    /// Breaks answers off.
    pub truncate: bool,
    /// Sends heads without bodies.
    pub stall: bool,
}

impl Host {
    /// A server that is down and empty.
    pub fn new(name: String, servers: usize) -> Self {
        Host {
            name,
            state: State::Down,
            epoch: 0,
            paused: false,
            closing_since: Duration::ZERO,
            expires: Duration::ZERO,
            incarnation_ms: 0,
            replicas: HashMap::new(),
            disk: HashMap::new(),
            reports: vec![Arc::default(); servers],
            placement: None,
            discovered: false,
            skew_ms: 0,
            slow: Duration::ZERO,
            replication_extra: Duration::ZERO,
            frozen: false,
            skips: false,
            truncate: false,
            stall: false,
        }
    }

    /// Whether it is running, not paused, and past its start.
    pub fn talks(&self) -> bool {
        self.state.answers() && !self.paused
    }
}

/// Whether heartbeats go from one server to another, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// They go now.
    pub up: bool,
    /// Since when that is so.
    pub since: Duration,
    /// Whether the sender counted as alive then.
    pub was_alive: bool,
}

/// Missed heartbeats until a server counts as dead, and heard ones until it counts as alive (`observed.md`: 0.5 s).
const DETECTION: Duration = Duration::from_millis(450);

impl Link {
    /// Whether the sender counts as alive.
    pub fn alive(&self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.since) >= DETECTION;
        if passed { self.up } else { self.was_alive }
    }

    /// Takes a change at `now`.
    pub fn set(&mut self, up: bool, now: Duration) {
        if up != self.up {
            *self = Link { up, since: now, was_alive: self.alive(now) };
        }
    }
}
