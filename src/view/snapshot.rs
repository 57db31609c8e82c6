//! The immutable snapshot that requests are planned on.

use super::{HostIndex, HostView, Moment, Position, Role, TableInfo};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Everything believed at one moment.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// When it was made.
    pub made: Moment,
    /// The servers, in the order of their [`HostIndex`]; never empty once the sidecar runs.
    pub hosts: Vec<HostView>,
    /// The routable tables by the metastore's spelling.
    pub tables: HashMap<String, Arc<TableView>>,
    /// Sources that exist and are passed through, with the reason.
    pub passed_through: HashMap<String, &'static str>,
    /// Whether `/ksql` has been read at all.
    pub catalogue_known: bool,
    /// Whether lags are reported; without them the active is asked first.
    pub lag_reporting: bool,
    /// Whether standbys answer pull queries; `None` until the server's properties were read.
    pub standby_reads: Option<bool>,
    /// Longest age at which a lag report is believed.
    pub max_report_age: Duration,
}

impl ClusterView {
    /// The server beside this sidecar.
    pub fn local(&self) -> Option<(HostIndex, &HostView)> {
        self.hosts.iter().position(|host| host.local).map(|index| (index as HostIndex, &self.hosts[index]))
    }

    /// Whether the tables are known, every known server is alive, and some table can be routed.
    pub fn is_complete(&self) -> bool {
        let live = self.hosts.iter().all(|host| host.state == super::HostState::Live);
        self.catalogue_known && live && !self.hosts.is_empty() && !self.tables.is_empty()
    }

    /// What the servers' settings keep this sidecar from doing: for the log, and the detail of `/readyz`.
    pub fn advice(&self) -> Vec<&'static str> {
        let mut advice = Vec::new();
        if !self.lag_reporting {
            advice.push(
                "no lag reports: with ksql.heartbeat.enable=true and ksql.lag.reporting.enable=true on every server the \
                 freshest replica can be chosen; until then the active is asked first",
            );
        }
        if self.standby_reads == Some(false) {
            advice.push(
                "standbys do not answer: with ksql.query.pull.enable.standby.reads=true and \
                 ksql.streams.num.standby.replicas=1 or more, reads survive the loss of an active",
            );
        }
        advice
    }

    /// The server of that index.
    pub fn host(&self, index: HostIndex) -> Option<&HostView> {
        self.hosts.get(usize::from(index))
    }
}

/// A table and the replicas of its partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct TableView {
    /// What it is.
    pub info: Arc<TableInfo>,
    /// By partition.
    pub slots: Vec<SlotView>,
}

/// One partition of one table's store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotView {
    /// Its replicas, each host once.
    pub replicas: SmallVec<[ReplicaView; 3]>,
    /// The largest end offset that any live host reports.
    pub end: Option<i64>,
    /// Records written between two reports of one host, at most: a smaller difference of positions may be one of ages.
    pub interval_writes: i64,
}

/// One replica of one partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaView {
    /// Where it is.
    pub host: HostIndex,
    /// Its role by the newest placement.
    pub role: Role,
    /// Whether the claim to be active is believed: see the rule for actives.
    pub agreed: bool,
    /// Its newest reported position.
    pub position: Option<Position>,
    /// When that report was made, at the latest.
    pub reported: Option<Moment>,
    /// Whether it has reported twice since it started, moved, changed role or came back from a pause.
    pub settled: bool,
}

impl ReplicaView {
    /// A host that may hold the partition, where no placement is known at all: every server runs every query.
    pub(super) fn unplaced(host: HostIndex) -> Self {
        ReplicaView { host, role: Role::Unplaced, agreed: false, position: None, reported: None, settled: true }
    }

    /// How many records it lacked when it reported, against `end`, the largest end of any host.
    pub fn lag(&self, end: Option<i64>) -> Option<u64> {
        let lacking = end?.saturating_sub(self.position?.current);
        Some(u64::try_from(lacking).unwrap_or(0))
    }

    /// Age of its report.
    pub fn age(&self, now: Moment) -> Option<Duration> {
        self.reported.map(|at| now.since(at))
    }

    /// Whether its report is no older than that.
    pub fn has_young_report(&self, now: Moment, max_age: Duration) -> bool {
        self.age(now).is_some_and(|age| age <= max_age)
    }

    /// Whether it is the *caught-up active*: nobody can be ahead of it.
    pub fn is_caught_up_active(&self) -> bool {
        self.role == Role::Active && self.agreed && self.settled && self.position.is_some_and(|p| p.current >= p.end)
    }
}
