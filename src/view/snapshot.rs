//! The immutable snapshot that requests are planned on.

use super::epochs::Begun;
use super::placement::Placement;
use super::report::Reports;
use super::{HostIndex, HostState, HostView, Moment, PeerClocks, TableInfo};
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
    pub tables: Arc<HashMap<String, Arc<TableInfo>>>,
    /// Sources that exist and are passed through, with the reason.
    pub passed_through: Arc<HashMap<String, &'static str>>,
    /// The topic of each stream, by the metastore's spelling.
    pub topics: Arc<HashMap<String, String>>,
    /// Whether `/ksql` has been read at all.
    pub catalogue_known: bool,
    /// Whether lags are reported; without them the active is asked first.
    pub lag_reporting: bool,
    /// Whether standbys answer pull queries; `None` until the server's properties were read.
    pub standby_reads: Option<bool>,
    /// Longest age at which a lag report is believed.
    pub max_report_age: Duration,
    /// How often actives log what they have changed, by the local server's properties.
    pub commit_interval: Duration,
    /// Which cluster the local server belongs to, by `GET /info`.
    pub cluster_id: Option<Arc<str>>,
    /// Up to when queries have processed their input, where a request asked; by query id.
    pub processed: Arc<HashMap<String, Processed>>,
    /// What the local server allows itself of pull queries.
    pub pull_limits: PullLimits,
    /// Since when the own server is drained: it is about to be stopped.
    pub draining: Option<Moment>,
    /// The clocks of the other sidecars.
    pub clocks: Arc<PeerClocks>,
    /// What [`slot`](Self::slot) is read from.
    pub told: Told,
}

/// The limits of a server's own configuration; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullLimits {
    /// `ksql.query.pull.max.qps`.
    pub queries_per_second: Option<u64>,
    /// `ksql.query.pull.max.concurrent.requests`.
    pub concurrent: Option<u64>,
}

/// All input of a query that was there at `asked` had been processed, and its changes logged, by `done`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processed {
    /// When the ends of the input were asked for.
    pub asked: Moment,
    /// When the committed positions were found to have reached them.
    pub done: Moment,
}

/// What the servers told, shared with the evidence and read slot by slot: a snapshot costs the same for any number of
/// partitions.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// By [`HostIndex`].
    pub(super) reports: Vec<Arc<Reports>>,
    /// The placements that live servers told, newest first.
    pub(super) placements: Vec<Arc<Placement>>,
    pub(super) epochs: Arc<Begun>,
}

impl ClusterView {
    /// The server beside this sidecar.
    pub fn local(&self) -> Option<(HostIndex, &HostView)> {
        self.hosts.iter().position(|host| host.local).map(|index| (index as HostIndex, &self.hosts[index]))
    }

    /// Whether the tables are known, every known server is alive, and some table can be routed.
    pub fn is_complete(&self) -> bool {
        let live = self.hosts.iter().all(|host| host.state == HostState::Live);
        self.catalogue_known && live && !self.hosts.is_empty() && !self.tables.is_empty()
    }

    /// What the servers' settings keep this sidecar from doing: for the log, and the detail of `/readyz`.
    pub fn advice(&self) -> Vec<&'static str> {
        let mut advice = Vec::new();
        let heard = self.hosts.iter().any(|host| host.state == HostState::Live);
        let ever_reported = self.told.reports.iter().any(|reports| reports.newest().is_some());
        if !self.lag_reporting && heard && !ever_reported {
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
