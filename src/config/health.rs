//! `[health]`, `[lag]` and `[catalogue]`: the pace of the control loops.

use super::ByteSize;
use serde::Deserialize;
use std::time::Duration;

/// Who is alive, after KLIP-12.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Time between two heartbeats or probes of a peer.
    #[serde(with = "humantime_serde")]
    pub interval: Duration,
    /// Longest wait for the answer to one; it then counts as missed.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Span within which `received_threshold` answers must lie.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// Consecutive misses after which a peer is dead.
    pub missed_threshold: u32,
    /// Answers within the window after which a dead peer is alive again.
    pub received_threshold: u32,
}

/// The lag reports that freshness is judged by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// Time between two polls of the local server's reports.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// Longest wait for one poll.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Longest age at which a report is believed.
    #[serde(with = "humantime_serde")]
    pub max_report_age: Duration,
    /// Largest `/clusterStatus` that is read.
    pub max_body: ByteSize,
}

/// What the sidecar knows of tables and queries.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Time between two refreshes.
    #[serde(with = "humantime_serde")]
    pub refresh_interval: Duration,
    /// Least time between two refreshes, also those asked for.
    #[serde(with = "humantime_serde")]
    pub min_refresh_interval: Duration,
    /// Longest wait for each statement of a refresh.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Whether `CREATE TABLE ... WITH (ACCEPTABLE_OFFSET_LAG=n)` keeps the bound in the metastore.
    pub table_settings: bool,
}
