//! Folds what arrives into what is believed.

mod known;

use self::known::Host;
use super::epochs::Epochs;
use super::placement::Placement;
use super::{
    Catalogue, ClockExchange, ClusterStatus, ClusterView, HostName, HostState, Interval, LivenessSettings, Moment,
    PeerClocks, PeerWord, Probe, Processed, PullLimits, Role, ServerVersion, TableInfo, Told,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A server that this sidecar is to know.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    /// Its name in `/clusterStatus`.
    pub name: HostName,
    /// Where it is dialled.
    pub url: Arc<str>,
    /// Whether this sidecar runs beside it.
    pub local: bool,
}

/// What the fold needs of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When a server is dead.
    pub liveness: LivenessSettings,
    /// Longest age at which a lag report is believed.
    pub max_report_age: Duration,
}

/// One server's answer to `/clusterStatus`.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// The name of the server that answered.
    pub asked: &'a str,
    /// What it said.
    pub status: &'a ClusterStatus<'a>,
    /// When it answered, on this sidecar's clock.
    pub made: Interval,
    /// Age at `made.to` of the asked server's own lag report, by the clock of its machine; `None` if nobody who shares
    /// that clock told it.
    pub own_report_age: Option<Duration>,
}

/// ksqlDB's default of `ksql.streams.commit.interval.ms`.
const COMMIT_INTERVAL: Duration = Duration::from_secs(2);

/// How long before it is told by `/clusterStatus` a host's role may have changed, with room.
const ROLE_TOLD: Duration = Duration::from_secs(1);

/// Everything this sidecar knows, in the form in which it arrives.
#[derive(Clone, Debug)]
pub struct Evidence {
    settings: Settings,
    catalogue: Option<Arc<Catalogue>>,
    tables: Arc<HashMap<String, Arc<TableInfo>>>,
    passed_through: Arc<HashMap<String, &'static str>>,
    topics: Arc<HashMap<String, String>>,
    standby_reads: Option<bool>,
    hosts: Vec<Host>,
    epochs: Epochs,
    /// Since when the own server is drained.
    draining: Option<Moment>,
    unroutable: BTreeSet<String>,
    commit_interval: Duration,
    pull_limits: PullLimits,
    cluster_id: Option<Arc<str>>,
    processed: Arc<HashMap<String, Processed>>,
    clocks: Arc<PeerClocks>,
}

impl Evidence {
    /// Nothing known yet.
    pub fn new(settings: Settings) -> Self {
        Evidence {
            settings,
            catalogue: None,
            tables: Arc::default(),
            passed_through: Arc::default(),
            topics: Arc::default(),
            standby_reads: None,
            hosts: Vec::new(),
            epochs: Epochs::default(),
            draining: None,
            unroutable: BTreeSet::new(),
            commit_interval: COMMIT_INTERVAL,
            pull_limits: PullLimits::default(),
            cluster_id: None,
            processed: Arc::default(),
            clocks: Arc::default(),
        }
    }

    /// Sets the servers to know; those already known keep what is known of them.
    pub fn set_hosts(&mut self, specs: &[HostSpec], now: Moment) {
        let mut before = std::mem::take(&mut self.hosts);
        for spec in specs {
            let host = match before.iter().position(|host| host.spec.name == spec.name) {
                Some(index) => Host { spec: spec.clone(), ..before.swap_remove(index) },
                None => Host::new(spec.clone(), now),
            };
            self.unroutable.remove(&*spec.name);
            self.hosts.push(host);
        }
    }

    /// Sets what `/ksql` told.
    pub fn set_catalogue(&mut self, catalogue: Arc<Catalogue>) {
        let tables = catalogue.tables.iter().map(|table| (table.name.clone(), Arc::clone(table)));
        self.tables = Arc::new(tables.collect());
        self.passed_through = Arc::new(catalogue.passed_through.iter().cloned().collect());
        self.topics = Arc::new(catalogue.topics.iter().cloned().collect());
        self.epochs.retain(|query| catalogue.tables.iter().any(|table| table.query_id == *query));
        self.catalogue = Some(catalogue);
    }

    /// Sets whether standbys answer pull queries.
    pub fn set_standby_reads(&mut self, standby_reads: Option<bool>) {
        self.standby_reads = standby_reads;
    }

    /// Sets how often actives log what they have changed; `None`: as ksqlDB does by default.
    pub fn set_commit_interval(&mut self, interval: Option<Duration>) {
        self.commit_interval = interval.unwrap_or(COMMIT_INTERVAL);
    }

    /// Sets what the local server allows itself of pull queries.
    pub fn set_pull_limits(&mut self, limits: PullLimits) {
        self.pull_limits = limits;
    }

    /// Sets which cluster this is.
    pub fn set_cluster_id(&mut self, id: &str) {
        if self.cluster_id.as_deref() != Some(id) {
            self.cluster_id = Some(id.into());
        }
    }

    /// Takes in up to when a query has processed its input.
    pub fn set_processed(&mut self, query_id: &str, processed: Processed) {
        Arc::make_mut(&mut self.processed).insert(query_id.to_owned(), processed);
    }

    /// Takes in an exchange with another sidecar.
    pub fn note_clock(&mut self, incarnation: u64, exchange: ClockExchange) {
        Arc::make_mut(&mut self.clocks).note(incarnation, exchange);
    }

    /// Sets a server's version.
    pub fn set_version(&mut self, host: &str, version: ServerVersion) {
        if let Some(host) = self.host_mut(host) {
            host.version = Some(version);
        }
    }

    /// Takes in a probe; returns the state before and after if it changed.
    pub fn probe(&mut self, host: &str, probe: Probe, sent: Moment, now: Moment) -> Option<(HostState, HostState)> {
        let settings = self.settings.liveness;
        let host = self.host_mut(host)?;
        let before = host.liveness.probe(probe, sent, now, &settings)?;
        let after = host.liveness.state();
        if after == HostState::Live && before != HostState::Unknown {
            Arc::make_mut(&mut host.reports).revive(now);
            host.interrupt();
            host.closing = None;
            if host.spec.local {
                self.draining = None; // it has been restarted, which was the point
            }
        }
        Some((before, after))
    }

    /// Takes in a sign that a server stands still or has ended; returns whether that is news.
    pub fn suspect(&mut self, host: &str, now: Moment) -> bool {
        self.host_mut(host).is_some_and(|host| host.liveness.suspect(now))
    }

    /// Takes in what the sidecar beside a server said; returns whether it says other than before.
    pub fn hear(&mut self, host: &str, word: PeerWord) -> bool {
        let Some(host) = self.host_mut(host).filter(|host| !host.spec.local) else { return false };
        let before = host.peer.replace(word);
        before.is_none_or(|before| PeerWord { at: word.at, ..before } != word)
    }

    /// Begins or ends the draining of the own server: while it lasts, the own server counts as closing.
    pub fn drain(&mut self, on: bool, now: Moment) {
        self.draining = on.then(|| self.draining.unwrap_or(now));
    }

    /// When `host` was last heard from by a probe.
    pub fn last_heard(&self, host: &str) -> Option<Moment> {
        self.hosts.iter().find(|h| *h.spec.name == *host)?.liveness.last_heard()
    }

    /// Names in the own server's `/clusterStatus` that are no known server: ghosts, or servers not yet discovered.
    pub fn unroutable(&self) -> &BTreeSet<String> {
        &self.unroutable
    }

    /// Takes in one answer to `/clusterStatus`.
    pub fn observe(&mut self, observation: &Observation<'_>) {
        let catalogue = self.catalogue.clone().unwrap_or_default();
        let mut placement =
            Placement { asked: observation.asked.into(), at: observation.made.to, by_query: HashMap::new() };
        let own = self.hosts.iter().any(|host| host.spec.local && *host.spec.name == *observation.asked);
        if own {
            self.unroutable.clear();
        }
        for (name, status) in &observation.status.hosts.0 {
            let name: &str = name;
            let Some(host) = self.hosts.iter_mut().find(|host| *host.spec.name == *name) else {
                if own {
                    self.unroutable.insert(name.to_owned());
                }
                continue;
            };
            if name == observation.asked {
                host.recognise(status.last_status_update_ms, observation.made.from);
            }
            for (query_id, of_query) in &status.active_standby_per_query.0 {
                if let Some(table) = catalogue.tables.iter().find(|table| table.query_id == **query_id) {
                    placement.enter(&host.spec.name, table, of_query);
                }
            }
            if status.host_alive {
                let age = observation.own_report_age.filter(|_| name == observation.asked);
                let made_after = age.map(|age| observation.made.from.back(age));
                let seen = observation.made.to.back(age.unwrap_or_default());
                let reports = Arc::make_mut(&mut host.reports);
                let told_by_itself = (name == observation.asked).then_some(observation.made.from);
                let new = reports.accept(&status.host_store_lags, &catalogue.tables, made_after, seen, told_by_itself);
                if let Some(newest) = reports.newest().filter(|_| new) {
                    self.epochs.note(newest, reports.previous());
                }
            }
        }
        self.replace_placement(observation.asked, placement);
    }

    /// Replaces the asked server's view, distrusts slots whose role flipped, and recognises a closing server.
    fn replace_placement(&mut self, asked: &str, placement: Placement) {
        let horizon = placement.at.back(self.settings.max_report_age);
        let placed_elsewhere = self.hosts.iter().any(|host| {
            let view = host.placement.as_ref().filter(|view| view.at >= horizon);
            *host.spec.name != *asked
                && host.liveness.state() == HostState::Live
                && view.is_some_and(|view| view.places(asked))
        });
        if let Some(before) = self.host_mut(asked).and_then(|host| host.placement.take()) {
            self.distrust_promoted(&before, &placement);
            self.distrust_demoted(asked, &before, &placement);
        }
        if let Some(host) = self.host_mut(asked) {
            let closing = placement.by_query.is_empty() && placed_elsewhere;
            host.closing = closing.then_some(host.closing.unwrap_or(placement.at));
            host.placement = Some(Arc::new(placement));
        }
    }

    /// A standby that became active starts anew: it has yet to read the rest of the changelog.
    ///
    /// Not so an active that the view has merely found out about: a server that has just started does not know the others.
    fn distrust_promoted(&mut self, before: &Placement, after: &Placement) {
        for (query_id, slots) in &after.by_query {
            for (partition, claims) in slots.iter().enumerate() {
                let (Some(active), Some(old)) = (&claims.active, before.claims(query_id, partition)) else { continue };
                let took_over = match &old.active {
                    Some(former) => former != active,
                    None => old.standbys.contains(active),
                };
                if took_over {
                    let heir = old.standbys.contains(active) && self.kept_up(active, query_id, partition, before.at);
                    if let Some(host) = self.host_mut(active) {
                        Arc::make_mut(&mut host.reports).unsettle(query_id, partition as u32, heir, after.at);
                    }
                }
            }
        }
    }

    /// Whether a standby certainly kept up with a slot when it was last known to be one, by the rule for absent keys: its
    /// report of then, still young, holds all that was logged by the one before, and lacks no more of the largest end than
    /// two report intervals of writes.
    fn kept_up(&self, host: &str, query_id: &str, partition: usize, standby_at: Moment) -> bool {
        let by = standby_at.back(ROLE_TOLD);
        let position = |report: &super::report::Report| report.position(query_id, partition);
        let Some(host) = self.hosts.iter().find(|known| *known.spec.name == *host) else { return false };
        let settled = host.reports.is_settled(query_id, partition as u32)
            && host.reports.is_renewed(query_id, partition as u32)
            && host.liveness.state() == HostState::Live;
        if host.reports.is_heir(query_id, partition as u32) {
            return true; // another server has told of the same change
        }
        let Some((newest, earlier)) = host.reports.two_by(by).filter(|_| settled) else { return false };
        let (Some(now), Some(then)) = (position(newest), position(earlier)) else { return false };
        let ends = self.hosts.iter().filter_map(|known| {
            let (newest, earlier) = known.reports.newest().zip(known.reports.previous())?;
            let (end, before) = (position(newest)?.end, position(earlier)?.end);
            Some((end, end.saturating_sub(before)))
        });
        let (end, writes) = ends.fold((now.end, 0), |(end, most), (other, wrote)| (end.max(other), most.max(wrote)));
        let young = standby_at.since(newest.seen) <= self.settings.max_report_age;
        young && now.current >= then.end && end.saturating_sub(now.current) <= writes.saturating_mul(2)
    }

    /// An active that finds itself a standby reported itself current while it was one, whatever it held.
    fn distrust_demoted(&mut self, asked: &str, before: &Placement, after: &Placement) {
        let Some(host) = self.host_mut(asked) else { return };
        for (query_id, slots) in &after.by_query {
            for (partition, claims) in slots.iter().enumerate() {
                let was = before.claims(query_id, partition).and_then(|old| old.role(asked));
                if was == Some(Role::Active) && claims.role(asked) == Some(Role::Standby) {
                    Arc::make_mut(&mut host.reports).demote(query_id, partition as u32, after.at);
                }
            }
        }
    }

    /// Makes the snapshot of now.
    pub fn view(&self, now: Moment) -> ClusterView {
        let horizon = now.back(self.settings.max_report_age);
        let live = || self.hosts.iter().filter(|host| host.liveness.state() == HostState::Live);
        let mut placements: Vec<_> = live().filter_map(|h| h.placement.clone()).filter(|p| p.at >= horizon).collect();
        placements.sort_by_key(|placement| std::cmp::Reverse(placement.at));
        let young = |host: &Host| host.reports.newest().is_some_and(|report| report.seen >= horizon);
        ClusterView {
            made: now,
            hosts: self.hosts.iter().map(|host| host.view(self.draining, self.settings.liveness.window, now)).collect(),
            draining: self.draining,
            pull_limits: self.pull_limits,
            tables: Arc::clone(&self.tables),
            passed_through: Arc::clone(&self.passed_through),
            topics: Arc::clone(&self.topics),
            catalogue_known: self.catalogue.is_some(),
            lag_reporting: live().any(young),
            standby_reads: self.standby_reads,
            max_report_age: self.settings.max_report_age,
            commit_interval: self.commit_interval,
            cluster_id: self.cluster_id.clone(),
            processed: Arc::clone(&self.processed),
            clocks: Arc::clone(&self.clocks),
            told: Told {
                reports: self.hosts.iter().map(|host| Arc::clone(&host.reports)).collect(),
                placements,
                epochs: self.epochs.begun(),
            },
        }
    }

    fn host_mut(&mut self, name: &str) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| *host.spec.name == *name)
    }
}

#[cfg(test)]
mod tests;
