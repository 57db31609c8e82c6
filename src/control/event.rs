//! What the loops tell the keeper.

use crate::view::{Catalogue, ClockExchange, HostName, HostSpec, Interval, Moment, Probe, Processed, ServerVersion};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a loop found.
#[derive(Debug)]
pub(super) enum Event {
    /// The servers to know.
    Hosts(Vec<HostSpec>),
    /// One probe.
    Probed { host: HostName, probe: Probe, version: Option<ServerVersion>, sent: Moment, now: Moment },
    /// One answer to `/clusterStatus`.
    Observed { asked: HostName, body: Bytes, made: Interval, age: ReportAge },
    /// The own server's `/clusterStatus` exists, or is switched off.
    Heartbeats(bool),
    /// What `/ksql` told of tables.
    Catalogue(Arc<Catalogue>),
    /// Whether standbys answer and how often actives commit, by the server's properties.
    Properties { standby_reads: Option<bool>, commit_interval: Option<Duration> },
    /// Up to when a query has processed its input.
    Processed(String, Processed),
    /// An exchange of clocks with the sidecar of that incarnation.
    Clock(u64, ClockExchange),
    /// The cluster that the local server belongs to.
    ClusterId(String),
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
