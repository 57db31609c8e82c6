//! The background loops, and the only writers of the view.
//!
//! Each loop asks one thing on an interval and sends what it finds to the keeper, which owns the evidence and publishes
//! snapshots: probes of every server (`prober`), what every server says of the cluster (`reporter`), heartbeats between
//! sidecars (`peers`), which servers there are (`membership`), and which tables (`catalogue`). A loop that fails counts,
//! says so once for each change, and leaves the last good view in place with its age.

mod catalogue;
mod fetch;
mod keeper;
mod ksql;
mod membership;
mod peers;
mod prober;
mod process;
mod processed;
mod reporter;
mod survey;
mod topology;
mod wall;

pub use catalogue::{NOT_MATERIALISED, OWN_DELIMITER, SCHEMA_REGISTRY};
pub use fetch::{Fetch, FetchError, Fetched, HttpFetch};
pub use ksql::KsqlError;
pub use survey::{Surveyed, hosts_of_queries, survey, tables};

use self::catalogue::CatalogueLoop;
use self::keeper::{Event, Keeper, Named, Sign};
use self::membership::{Member, Members, Membership};
use self::peers::Beat;
use self::prober::Prober;
use self::process::{Find, ProcessWatch};
use self::processed::ProcessedLoop;
use self::reporter::Reporter;
use crate::clock::Clock;
use crate::config::Config;
use crate::telemetry::{LoopHealth, Metrics};
use crate::view::{Ask, HostName, LivenessSettings, Published, Settings};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Events and asks that may wait; a loop that finds the queue full waits its turn.
const QUEUED: usize = 1024;

/// Everything the loops share.
pub struct Control<F> {
    config: Arc<Config>,
    fetch: Arc<F>,
    clock: Clock,
    metrics: Arc<Metrics>,
    published: Arc<Published>,
    incarnation: Arc<str>,
}

impl<F: Fetch> Control<F> {
    /// `incarnation` tells one life of this sidecar from the next.
    pub fn new(
        config: &Config,
        fetch: F,
        clock: Clock,
        metrics: Arc<Metrics>,
        published: Arc<Published>,
        incarnation: &str,
    ) -> Self {
        Control {
            config: Arc::new(config.clone()),
            fetch: Arc::new(fetch),
            clock,
            metrics,
            published,
            incarnation: incarnation.into(),
        }
    }

    /// Starts the loops; they end when `stop` is cancelled. Requests and peers ask through the sender.
    pub fn spawn(self, stop: CancellationToken) -> (mpsc::Sender<Ask>, JoinHandle<()>) {
        let (asks, asked) = mpsc::channel(QUEUED);
        let handle = tokio::spawn({
            let asks = asks.clone();
            async move {
                stop.run_until_cancelled(self.run(asks, asked)).await;
            }
        });
        (asks, handle)
    }

    /// Dropping the future ends every loop: they live in its `JoinSet`s.
    async fn run(self, asks: mpsc::Sender<Ask>, mut asked: mpsc::Receiver<Ask>) {
        let (events, received) = mpsc::channel(QUEUED);
        let (naming, named) = watch::channel(Named::default());
        let (members, mut known) = watch::channel(Members::default());
        let refresh = Arc::new(Notify::new());
        let (fetch, published) = (&self.fetch, &self.published);
        let keeper = Keeper::new(
            self.settings(),
            self.clock,
            Arc::clone(published),
            Arc::clone(&self.metrics),
            self.config.freshness.clone(),
            naming,
        );
        let membership = Membership::new(
            Arc::clone(&self.config),
            Arc::clone(fetch),
            events.clone(),
            members,
            named,
            Arc::clone(published),
            &self.metrics,
        );
        let catalogue = CatalogueLoop::new(
            &self.config,
            Arc::clone(fetch),
            events.clone(),
            Arc::clone(published),
            known.clone(),
            Arc::clone(&refresh),
            &self.metrics,
        );
        let (process, to_process) = mpsc::channel(QUEUED);
        let processed = ProcessedLoop::new(
            &self.config,
            Arc::clone(fetch),
            self.clock,
            Arc::clone(published),
            events.clone(),
            to_process,
            &self.metrics,
        );
        let mut loops = JoinSet::new();
        loops.spawn(processed.run());
        loops.spawn(keeper.run(received));
        loops.spawn(membership.run());
        loops.spawn(catalogue.run());
        let mut servers: HashMap<HostName, Watched> = HashMap::new();
        let mut given_up = HashSet::new();
        loop {
            tokio::select! {
                changed = known.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let members = known.borrow_and_update().clone();
                    self.watch(&mut servers, &members, &events, &asks);
                    refresh.notify_one();
                }
                Some(ask) = asked.recv() => {
                    for event in self.answer(ask, &servers, &mut given_up, &refresh, &process) {
                        if events.send(event).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Starts loops for new servers and ends those of servers that are gone or dialled elsewhere now.
    fn watch(
        &self,
        servers: &mut HashMap<HostName, Watched>,
        members: &Members,
        events: &mpsc::Sender<Event>,
        asks: &mpsc::Sender<Ask>,
    ) {
        servers.retain(|_, watched| members.0.contains(&watched.member));
        for member in &members.0 {
            if servers.contains_key(&member.spec.name) {
                continue;
            }
            let probe_now = Arc::new(Notify::new());
            let mut loops = JoinSet::new();
            let prober = Prober::new(
                &self.config,
                Arc::clone(&self.fetch),
                self.clock,
                events.clone(),
                member,
                Arc::clone(&probe_now),
            );
            loops.spawn(prober.run());
            if let Some(find) = member.spec.local.then(|| self.process()).flatten() {
                let (clock, host, probe_now) = (self.clock, Arc::clone(&member.spec.name), Arc::clone(&probe_now));
                loops.spawn(ProcessWatch { clock, events: events.clone(), host, probe_now, find }.run());
            }
            let name = if member.spec.local { "cluster_status" } else { "peer_reports" };
            let health = LoopHealth::new(&self.metrics, name).of(&member.spec.name);
            let (clocks, published) = (events.clone(), Arc::clone(&self.published));
            let (fetch, events) = (Arc::clone(&self.fetch), events.clone());
            loops
                .spawn(Reporter::new(&self.config, fetch, self.clock, events, member.clone(), published, health).run());
            if let Some(sidecar) = member.sidecar.clone() {
                let beat = Beat {
                    fetch: Arc::clone(&self.fetch),
                    published: Arc::clone(&self.published),
                    clock: self.clock,
                    asks: asks.clone(),
                    events: clocks,
                    host: Arc::clone(&member.spec.name),
                    sidecar,
                    incarnation: Arc::clone(&self.incarnation),
                    interval: self.config.health.interval,
                    timeout: self.config.health.timeout,
                    missed_threshold: self.config.health.missed_threshold,
                };
                loops.spawn(beat.run());
            }
            let watched = Watched { member: member.clone(), probe_now, _loops: loops };
            servers.insert(Arc::clone(&member.spec.name), watched);
        }
    }

    /// Does what is asked; returns what the keeper must know of it.
    fn answer(
        &self,
        ask: Ask,
        servers: &HashMap<HostName, Watched>,
        given_up: &mut HashSet<HostName>,
        refresh: &Notify,
        processed: &mpsc::Sender<String>,
    ) -> Vec<Event> {
        match ask {
            Ask::RefreshCatalogue => refresh.notify_one(),
            Ask::Process(table) => _ = processed.try_send(table), // the request asks again
            Ask::Probe(host) => probe(servers, &host),
            Ask::Drain(on) => return vec![Event::Drain(on)],
            Ask::Heard(heard) => {
                let Some((host, _)) = servers.get_key_value(&*heard.server) else { return Vec::new() };
                let (host, now) = (Arc::clone(host), self.clock.now());
                if peers::contradicts(&heard, &self.published) {
                    probe(servers, &host);
                }
                let mut events = vec![Event::Heard { host: Arc::clone(&host), word: peers::word(&heard, now) }];
                // only the change is a sign: a sidecar that is wrong about its server must not keep it suspect
                if !peers::gives_up(&heard) {
                    given_up.remove(&host);
                } else if given_up.insert(Arc::clone(&host)) {
                    probe(servers, &host);
                    events.push(Event::Suspected { host, sign: Sign::Peer, now });
                }
                return events;
            }
        }
        Vec::new()
    }

    /// How the local server's process is found; `None` where it is not on this machine.
    fn process(&self) -> Option<Find> {
        let server = &self.config.server;
        let here = matches!(server.url.host(), "localhost" | "127.0.0.1" | "[::1]");
        let by_port = here.then(|| Find::Port(server.url.port()));
        server.pid_file.clone().map(Find::PidFile).or(by_port)
    }

    fn settings(&self) -> Settings {
        Settings {
            liveness: LivenessSettings {
                missed_threshold: self.config.health.missed_threshold,
                received_threshold: self.config.health.received_threshold,
                window: self.config.health.window,
            },
            max_report_age: self.config.lag.max_report_age,
        }
    }
}

/// The loops of one server; they end when this is dropped.
struct Watched {
    member: Member,
    probe_now: Arc<Notify>,
    _loops: JoinSet<()>,
}

fn probe(servers: &HashMap<HostName, Watched>, host: &str) {
    if let Some(server) = servers.get(host) {
        server.probe_now.notify_one();
    }
}
