//! The one owner of the evidence: folds what the loops find, publishes snapshots, and says what changed.

mod gauges;

use super::wall::WallClock;
use crate::clock::Clock;
use crate::config::Freshness;
use crate::telemetry::{HostMetrics, Metrics, OnChange, SlotMetrics};
use crate::view::{
    Catalogue, ClockExchange, ClusterStatus, ClusterView, Evidence, HostName, HostSpec, HostState, Interval, Moment,
    Observation, OwnObservation, PeerWord, Probe, Processed, Published, PullLimits, ServerVersion, Settings,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What a loop found.
#[derive(Debug)]
pub(super) enum Event {
    /// The servers to know.
    Hosts(Vec<HostSpec>),
    /// One probe.
    Probed { host: HostName, probe: Probe, version: Option<ServerVersion>, sent: Moment, now: Moment },
    /// A sign that a server stands still or has ended, which is no proof.
    Suspected { host: HostName, sign: Sign, now: Moment },
    /// What the sidecar beside a server said.
    Heard { host: HostName, word: PeerWord },
    /// The own server is to be drained, or no longer.
    Drain(bool),
    /// One answer to `/clusterStatus`.
    Observed { asked: HostName, body: Bytes, made: Interval, age: ReportAge },
    /// The own server's `/clusterStatus` exists, or is switched off.
    Heartbeats(bool),
    /// What `/ksql` told of tables.
    Catalogue(Arc<Catalogue>),
    /// Whether standbys answer and how often actives commit, by the server's properties.
    Properties { standby_reads: Option<bool>, commit_interval: Option<Duration>, pull_limits: PullLimits },
    /// Up to when a query has processed its input.
    Processed(String, Processed),
    /// An exchange of clocks with the sidecar of that incarnation.
    Clock(u64, ClockExchange),
    /// The cluster that the local server belongs to.
    ClusterId(String),
}

/// What makes a server suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// A probe takes longer than they do.
    Overdue,
    /// Its process is stopped.
    Process,
    /// The sidecar beside it says so, or that it is dead.
    Peer,
}

impl Sign {
    fn as_str(self) -> &'static str {
        match self {
            Sign::Overdue => "overdue",
            Sign::Process => "process",
            Sign::Peer => "peer",
        }
    }
}

/// How the own server knows the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Named {
    /// Every name in its `/clusterStatus`.
    pub names: BTreeSet<String>,
    /// Whether it has none, because heartbeats are off.
    pub without_heartbeats: bool,
}

/// How old the answering server's own report is.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReportAge {
    /// The server shares this machine's clock, which stood so (epoch milliseconds) when the answer arrived.
    SharedClock(i64),
    /// What a sidecar beside the server says of it.
    Told(Option<Duration>),
}

/// How many events are folded before a snapshot is made, at most.
const FOLDED: usize = 256;

/// How often a snapshot is made without news: reports age, and may become too old to be believed.
const AGEING: Duration = Duration::from_secs(1);

/// How long a name in `/clusterStatus` may be that of no known server before it is worth a line: at first every name is.
const FOUND_BY_THEN: Duration = Duration::from_secs(15);

/// Folds events and publishes.
pub(super) struct Keeper {
    clock: Clock,
    evidence: Evidence,
    published: Arc<Published>,
    metrics: Arc<Metrics>,
    /// The bounds of requests that set none.
    freshness: Freshness,
    named: watch::Sender<Named>,
    hosts: BTreeMap<HostName, HostMetrics>,
    slots: BTreeMap<String, Vec<SlotMetrics>>,
    heartbeats: Option<bool>,
    wall: WallClock,
    advice: OnChange<Vec<&'static str>>,
    /// Names that are no known server, and since when, until that is said.
    unroutable: (BTreeSet<String>, Option<Moment>),
    shared_names: OnChange<Vec<String>>,
}

impl Keeper {
    /// `named` is told how the own server knows the cluster.
    pub fn new(
        settings: Settings,
        clock: Clock,
        published: Arc<Published>,
        metrics: Arc<Metrics>,
        freshness: Freshness,
        named: watch::Sender<Named>,
    ) -> Self {
        Keeper {
            clock,
            evidence: Evidence::new(settings),
            published,
            metrics,
            freshness,
            named,
            hosts: BTreeMap::new(),
            slots: BTreeMap::new(),
            heartbeats: None,
            wall: WallClock::default(),
            advice: OnChange::default(),
            unroutable: (BTreeSet::new(), None),
            shared_names: OnChange::default(),
        }
    }

    /// Runs until every sender is gone.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut ageing = tokio::time::interval(AGEING);
        let mut folded = Vec::with_capacity(FOLDED);
        loop {
            tokio::select! {
                count = events.recv_many(&mut folded, FOLDED) => {
                    if count == 0 {
                        return;
                    }
                    let news = folded.drain(..).fold(false, |news, event| self.fold(event) | news);
                    self.publish(news);
                }
                _ = ageing.tick() => {
                    self.publish(true);
                    self.measure_lags();
                }
            }
        }
    }

    /// Folds an event; tells whether it says more than that a server still is as it was.
    fn fold(&mut self, event: Event) -> bool {
        match event {
            Event::Hosts(specs) => self.evidence.set_hosts(&specs, self.clock.now()),
            Event::Probed { host, probe, version, sent, now } => {
                return self.probed(&host, probe, version, sent, now);
            }
            Event::Suspected { host, sign, now } => {
                let news = self.evidence.suspect(&host, now);
                if news {
                    self.metrics.suspicions.with([sign.as_str()]).inc();
                    tracing::debug!(%host, sign = sign.as_str(), "server seems to stand still");
                }
                return news;
            }
            Event::Heard { host, word } => return self.evidence.hear(&host, word),
            Event::Drain(on) => self.evidence.drain(on, self.clock.now()),
            Event::Observed { asked, body, made, age } => self.observed(&asked, &body, made, age),
            Event::Heartbeats(on) => {
                self.heartbeats = Some(on);
                self.named.send_if_modified(|named| std::mem::replace(&mut named.without_heartbeats, !on) == on);
            }
            Event::Catalogue(catalogue) => {
                let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
                self.metrics.tables.with(["routable"]).set(count(catalogue.tables.len()));
                self.metrics.tables.with(["passed_through"]).set(count(catalogue.passed_through.len()));
                self.evidence.set_catalogue(catalogue);
            }
            Event::Properties { standby_reads, commit_interval, pull_limits } => {
                self.evidence.set_pull_limits(pull_limits);
                self.evidence.set_standby_reads(standby_reads);
                self.evidence.set_commit_interval(commit_interval);
            }
            Event::Processed(query_id, processed) => self.evidence.set_processed(&query_id, processed),
            Event::Clock(incarnation, exchange) => {
                self.evidence.note_clock(incarnation, exchange);
                return false;
            }
            Event::ClusterId(id) => {
                self.evidence.set_cluster_id(&id);
                return false;
            }
        }
        true
    }

    fn probed(
        &mut self,
        host: &HostName,
        probe: Probe,
        version: Option<ServerVersion>,
        sent: Moment,
        now: Moment,
    ) -> bool {
        let heard = self.evidence.last_heard(host);
        if let Some(version) = version {
            self.evidence.set_version(host, version);
        }
        let Some((before, after)) = self.evidence.probe(host, probe, sent, now) else { return false };
        if let (HostState::Live, HostState::Dead, Some(heard)) = (before, after, heard) {
            self.metrics.death_detection.observe(now.since(heard).as_secs_f64());
        }
        true
    }

    fn observed(&mut self, asked: &HostName, body: &Bytes, made: Interval, age: ReportAge) {
        let status = match ClusterStatus::parse(body) {
            Ok(status) => status,
            Err(error) => {
                self.metrics.control_loop_failures.with(["cluster_status"]).inc();
                tracing::debug!(host = %asked, %error, "an answer to /clusterStatus cannot be read");
                return;
            }
        };
        let reported = status.hosts.0.iter().find(|(name, _)| **name == **asked);
        let updated = reported.map_or(0, |(_, host)| host.host_store_lags.update_time_ms);
        let own_report_age = match age {
            ReportAge::Told(age) => age,
            ReportAge::SharedClock(now_ms) => self.wall.age(now_ms, made.to, updated),
        };
        if let ReportAge::SharedClock(_) = age {
            self.publish_own(asked, body, made, own_report_age);
        }
        self.evidence.observe(&Observation { asked, status: &status, made, own_report_age });
        if let ReportAge::SharedClock(_) = age {
            let names: BTreeSet<String> = status.hosts.0.iter().map(|(name, _)| name.to_string()).collect();
            self.named.send_if_modified(|named| {
                let changed = named.names != names;
                named.names = names;
                changed
            });
        }
    }

    fn publish_own(&self, asked: &HostName, body: &Bytes, made: Interval, report_age: Option<Duration>) {
        self.published.publish_own(OwnObservation {
            server: Arc::clone(asked),
            received: made.to,
            took: made.to.since(made.from),
            report_age,
            body: body.clone(),
        });
    }

    /// Makes a snapshot; where there is `news`, measures and says what changed too.
    fn publish(&mut self, news: bool) {
        let view = self.evidence.view(self.clock.now());
        if news {
            self.measure(&view);
            self.say_states(&view);
            self.say(&view);
        }
        self.published.publish(view);
    }

    /// One line for each change of a server's state.
    fn say_states(&mut self, view: &ClusterView) {
        let before = self.published.load();
        for host in &view.hosts {
            let known = before.hosts.iter().find(|known| known.name == host.name);
            let from = known.map_or(HostState::Unknown, |known| known.state);
            if from != host.state {
                let lasted_ms = known.map(|known| view.made.since(known.since).as_millis() as u64); // half a billion years fit
                tracing::info!(host = %host.name, %from, to = %host.state, lasted_ms, "server changed state");
            }
        }
    }

    /// One line for each change of what the servers' settings keep from working, once enough is known to say it.
    fn say(&mut self, view: &ClusterView) {
        if view.is_complete() && self.heartbeats.is_some() && self.advice.update(view.advice()).is_some() {
            view.advice().iter().for_each(|advice| tracing::warn!("{advice}"));
        }
        let unroutable = self.evidence.unroutable();
        if self.unroutable.0 != *unroutable {
            self.unroutable = (unroutable.clone(), Some(view.made));
        } else if self.unroutable.1.is_some_and(|since| view.made.since(since) >= FOUND_BY_THEN) {
            self.unroutable.1 = None;
            if !unroutable.is_empty() {
                tracing::warn!(hosts = ?unroutable, "hosts in /clusterStatus under whose name no server answers");
            }
        }
        let known = view.hosts.iter().map(|host| host.name.to_string());
        let (local, others): (Vec<_>, Vec<_>) = known.partition(|name| means_every_machine(name));
        let local = if others.is_empty() { Vec::new() } else { local };
        if self.shared_names.update(local.clone()).is_some() && !local.is_empty() {
            tracing::warn!(hosts = ?local, "hosts in /clusterStatus have a name that no other machine can dial; set ksql.advertised.listener");
        }
    }
}

/// Whether a name in `/clusterStatus` means each machine itself.
fn means_every_machine(name: &str) -> bool {
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host).trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}
