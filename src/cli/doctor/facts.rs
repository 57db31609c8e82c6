//! What was found out by asking; findings are made from nothing else.

use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The servers, the one that was asked for the cluster first.
    pub servers: Vec<ServerFacts>,
    /// The lag reports that the first server received.
    pub reports: Reports,
    /// The tables, by name.
    pub tables: Vec<TableFacts>,
    /// Why the tables are not known.
    pub tables_error: Option<String>,
    /// How often a sidecar reads lag reports (`lag.poll_interval`), milliseconds.
    pub poll_interval_ms: u64,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// Its name in `/clusterStatus`.
    pub name: String,
    /// The address under which it was asked.
    pub url: String,
    /// Whether it answered there.
    pub reach: Reach,
    /// Whether the first server counts it as alive; `None` where that server does not tell.
    pub alive: Option<bool>,
    /// Whether the first server's map gives it partitions.
    pub placed: bool,
    /// Whether it answers `/clusterStatus`; `None` if it could not be asked.
    pub heartbeats: Option<bool>,
    /// When it began to answer, by its own clock, epoch milliseconds: one life's number.
    pub started_ms: Option<i64>,
    /// The version of `/info`.
    pub version: Option<String>,
    /// Settings of `LIST PROPERTIES`: those that say something of pull queries and replicas.
    pub properties: BTreeMap<String, String>,
    /// Its clock.
    pub clock: Option<ClockFact>,
}

/// Whether a server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// Under its own name.
    #[default]
    Answered,
    /// Another server answered, whose name this is.
    AnsweredAs(String),
    /// Nobody answered, and why.
    Failed(String),
}

/// A server's clock beside that of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockFact {
    /// By how much it is ahead, milliseconds.
    pub ahead_ms: i64,
    /// How wrong that may be because of the time that the answer took, milliseconds.
    pub within_ms: u64,
}

/// Lag reports as they came while they were watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reports {
    /// Whether there is any.
    pub any: bool,
    /// The time between two of a host, by the host's own clock, milliseconds; `None` if no second one came.
    pub interval_ms: Option<u64>,
    /// How long they were watched, milliseconds.
    pub watched_ms: u64,
    /// Hosts that are alive and hold partitions, and sent none although the others sent several.
    pub silent: Vec<String>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableFacts {
    /// Its name.
    pub name: String,
    /// What becomes of lookups by its key.
    pub lookups: Lookups,
}

/// What a sidecar does with a table's lookups; other pull queries always pass through.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Lookups {
    /// They are left to the servers' own routing, and why.
    PassedThrough(PassCause),
    /// They are routed.
    Routed(RoutedTable),
}

/// Why a table's lookups pass through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PassCause {
    /// No query keeps it in a store: servers refuse pull queries on it too.
    NotMaterialised,
    /// The format of its key, by these words.
    KeyFormat(String),
    /// The bytes of its key cannot be computed.
    KeyType(String),
    /// It is not fully described, by these words.
    Undescribed(String),
}

/// A table whose lookups are routed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoutedTable {
    /// The columns of its key with their types, and the format.
    pub key: String,
    /// How many partitions its store has.
    pub partitions: u32,
    /// Whether its rows have a window.
    pub windowed: bool,
    /// Who holds them, by partition; empty without `/clusterStatus`.
    pub placement: Vec<PartitionFacts>,
    /// What pinned lookups of one absent key met, each at a replica of the key's partition.
    pub probes: Vec<ProbeFact>,
}

/// Who holds a partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionFacts {
    /// The host of the active.
    pub active: Option<String>,
    /// The standbys.
    pub standbys: Vec<StandbyFact>,
}

/// A standby.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StandbyFact {
    /// Its host.
    pub host: String,
    /// Changelog records that it lacked by its newest report, against the largest end of any host.
    pub lag: Option<u64>,
    /// Those of them that had been logged two of its reports before.
    pub overdue: Option<u64>,
}

/// A pinned lookup.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeFact {
    /// The host that was asked.
    pub host: String,
    /// Whether it holds the active.
    pub active: bool,
    /// What it said instead of an answer.
    pub refused: Option<String>,
}

impl ServerFacts {
    /// Whether it answered under its own name.
    pub fn answers(&self) -> bool {
        self.reach == Reach::Answered
    }

    /// Whether its standbys answer pull queries; off unless it is set.
    pub fn standby_reads(&self) -> bool {
        self.setting("ksql.query.pull.enable.standby.reads") == Some(true)
    }

    /// A setting as a number or truth value.
    pub fn setting<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.properties.get(name)?.parse().ok()
    }
}

impl Facts {
    /// The servers that answered under their own names.
    pub fn answering(&self) -> impl Iterator<Item = &ServerFacts> {
        self.servers.iter().filter(|server| server.answers())
    }

    /// Whether the servers send each other heartbeats, by the first one.
    pub fn heartbeats(&self) -> bool {
        self.servers.first().is_some_and(|first| first.heartbeats == Some(true))
    }

    /// The tables whose lookups are routed.
    pub fn routed(&self) -> impl Iterator<Item = (&str, &RoutedTable)> {
        self.tables.iter().filter_map(|table| match &table.lookups {
            Lookups::Routed(routed) => Some((table.name.as_str(), routed)),
            Lookups::PassedThrough(_) => None,
        })
    }

    /// The least bound in time that lag reports allow, milliseconds: one report must be made after the one whose time is
    /// known, and be read. `None` where no interval is known.
    pub fn time_floor_ms(&self) -> Option<u64> {
        self.reports.interval_ms.map(|interval| interval * 2 + self.poll_interval_ms * 3)
    }
}
