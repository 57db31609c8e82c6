//! What can be found, each with a code that stays the same.

use serde::{Serialize, Serializer};
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; the exit code stays 0.
    Note,
    /// It works, with less to choose from.
    Warning,
    /// Something is broken.
    Error,
}

impl Severity {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its stable name.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it means, as the table of `config/README.md` has it.
    pub meaning: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

macro_rules! codes {
    ($($constant:ident = $name:literal, $severity:ident, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $constant: Code = Code { name: $name, severity: Severity::$severity, meaning: $meaning };
        )*

        /// All, in the order of the documentation.
        pub const CODES: &[Code] = &[$($constant),*];
    };
}

codes! {
    SERVER_DOWN = "server-down", Error, "A server that holds partitions is dead for the others and does not answer";
    DECLARED_DEAD = "declared-dead", Error, "A server answers, but the others count it as dead";
    CLOCK_SKEW = "clock-skew", Error, "A server's clock differs by more than a second from the others'";
    NAME_SHARED = "name-shared", Error, "Two addresses answer under one advertised name";
    NAME_TAKEN = "name-taken", Error, "Under a server's advertised name another server answers";
    ADVERTISED_LOCAL = "advertised-local", Error, "A server advertises a loopback or wildcard address to other machines";
    VERSION_CANNOT_PIN = "version-cannot-pin", Error, "The version cannot pin a query to a partition";
    PULL_QUERIES_DISABLED = "pull-queries-disabled", Error, "The servers refuse every pull query";
    LAG_REPORTS_FROZEN = "lag-reports-frozen", Error, "A server sends no lag reports although the others do";
    PIN_REFUSED = "pin-refused", Error, "A server refused a pinned lookup on a partition that it holds";
    HEARTBEATS_OFF = "heartbeats-off", Warning, "There is no `/clusterStatus`: servers do not watch each other";
    LAG_REPORTS_OFF = "lag-reports-off", Warning, "No server reports how far its replicas are";
    LAG_INTERVAL_LONG = "lag-interval-long", Warning, "More than 3 s lie between two lag reports";
    STANDBY_READS_OFF = "standby-reads-off", Warning, "Standbys refuse pull queries";
    STANDBY_REPLICAS_NONE = "standby-replicas-none", Warning, "Partitions have no standby";
    STANDBY_REPLICAS_UNPLACED = "standby-replicas-unplaced", Warning, "There are not enough servers for the standbys";
    STANDBY_BEHIND = "standby-behind", Warning, "A standby lacks records that were logged two reports ago";
    COMMIT_INTERVAL_LONG = "commit-interval-long", Warning, "More than 2 s lie between two commits";
    SINGLE_SERVER = "single-server", Warning, "There is one server only, and so nothing to choose from";
    NAME_NOT_ROUTABLE = "name-not-routable", Warning, "A server cannot be reached from this machine under its advertised name";
    GHOST_HOST = "ghost-host", Warning, "The cluster's map has a dead host without partitions";
    VERSIONS_MIXED = "versions-mixed", Warning, "The servers run different versions";
    PINS_UNCHECKED = "pins-unchecked", Warning, "The version answers a wrong pin with an empty result instead of an error";
    PULL_RATE_LIMITED = "pull-rate-limited", Warning, "Fewer than 1000 pull queries a second are let through";
    PULL_CONCURRENCY_LIMITED = "pull-concurrency-limited", Warning, "Fewer than 50 pull queries are let through at once";
    PULL_THREADS_FEW = "pull-threads-few", Warning, "Fewer than 20 threads run or forward pull queries";
    TABLES_UNKNOWN = "tables-unknown", Warning, "A server did not list its tables and queries";
    KEY_FORMAT_UNROUTABLE = "key-format-unroutable", Warning, "The bytes of a table's keys depend on a registry or a delimiter of its own";
    STATE_DIRECTORY_TEMPORARY = "state-directory-temporary", Warning, "The stores lie in a temporary directory";
    STATE_DIRECTORY_UNSET = "state-directory-unset", Note, "The state directory is not set, and Kafka Streams' own default is a temporary one";
    KEY_TYPE_UNROUTABLE = "key-type-unroutable", Note, "The type of a table's key is not computed by the sidecar";
    TABLE_NOT_MATERIALISED = "table-not-materialised", Note, "No query keeps the table in a store, so nobody can pull from it";
    TABLE_UNDESCRIBED = "table-undescribed", Note, "The servers do not tell enough of a table to route its lookups";
    NO_TABLES = "no-tables", Note, "There is no table whose lookups could be routed";
    CLOCK_HERE = "clock-here", Note, "The clock of this machine differs from the servers'";
}
