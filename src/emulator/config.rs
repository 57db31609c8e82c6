//! What an emulated cluster is like: size, version, settings, and how long its phases take.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// The versions whose behaviour is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum Version {
    /// Standalone 0.29.0: a store that cannot be read gives a clean empty answer.
    #[default]
    #[serde(rename = "0.29.0")]
    V0_29,
    /// 7.4.0: a store that cannot be read gives an error row; answers carry no Content-Type.
    #[serde(rename = "7.4.0")]
    V7_4,
    /// 8.0.1: a missing replica is a 503; a closing server gives clean partial answers.
    #[serde(rename = "8.0.1")]
    V8_0_1,
    /// Like 7.1: application-id lag keys, a wrong pin is a clean empty answer, opaque errors on `/query-stream`.
    #[serde(rename = "7.1.0")]
    Old,
}

impl FromStr for Version {
    type Err = String;

    /// Takes the versions as `/info` shows them.
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Version::V0_29, Version::V7_4, Version::V8_0_1, Version::Old];
        let known = || all.map(Version::as_str).join(", ");
        all.into_iter()
            .find(|v| v.as_str() == text)
            .ok_or_else(|| format!("unknown version {text}, known are {}", known()))
    }
}

impl Version {
    /// The text in `/info`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V0_29 => "0.29.0",
            Version::V7_4 => "7.4.0",
            Version::V8_0_1 => "8.0.1",
            Version::Old => "7.1.0",
        }
    }

    /// Whether answers of queries carry a Content-Type.
    pub fn names_content_type(self) -> bool {
        matches!(self, Version::V0_29 | Version::V8_0_1)
    }

    /// Whether an answer without rows may hide a failure.
    pub fn hides_failures(self) -> bool {
        matches!(self, Version::V0_29 | Version::V8_0_1)
    }
}

/// How long the phases of a server's life take; the defaults are those of `observed.md`.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// From the start of the process to the open port.
    pub boot: Duration,
    /// From the open port to the first answer other than 503.
    pub starting: Duration,
    /// From the first answer to the rebalance that gives it partitions.
    pub joining: Duration,
    /// From SIGTERM to the end of answering queries.
    pub draining: Duration,
    /// How long it then says `PENDING_SHUTDOWN`.
    pub pending_shutdown: Duration,
    /// How long it then says that no table is queryable.
    pub not_queryable: Duration,
    /// How long it then says `Worker executor closed`, before its port closes.
    pub workers_closed: Duration,
    /// From a session timeout to the moved partitions.
    pub rebalance: Duration,
    /// From a rebalance to the first lag entry of a new replica.
    pub creating: Duration,
    /// From there to a restored one.
    pub restoring: Duration,
}

impl Default for Phases {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Phases {
            boot: ms(6400),
            starting: ms(7300),
            joining: ms(2600),
            draining: ms(2100),
            pending_shutdown: ms(280),
            not_queryable: ms(4860),
            workers_closed: ms(60),
            rebalance: ms(2000),
            creating: ms(1000),
            restoring: ms(1000),
        }
    }
}

impl Phases {
    /// The same phases, `factor` times as long; for tests and demonstrations in less time.
    pub fn scaled(self, factor: f64) -> Self {
        let by = |d: Duration| d.mul_f64(factor);
        Phases {
            boot: by(self.boot),
            starting: by(self.starting),
            joining: by(self.joining),
            draining: by(self.draining),
            pending_shutdown: by(self.pending_shutdown),
            not_queryable: by(self.not_queryable),
            workers_closed: by(self.workers_closed),
            rebalance: by(self.rebalance),
            creating: by(self.creating),
            restoring: by(self.restoring),
        }
    }
}

/// An emulated cluster's settings.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// How many servers; three if not said.
    pub servers: usize,
    /// The version of all of them.
    pub version: Version,
    /// Partitions of every topic; 6.
    pub partitions: u32,
    /// Standby replicas of every task; 1.
    pub standbys: usize,
    /// How often an active writes its changes to the changelog; 500 ms.
    pub commit_interval: Duration,
    /// How long a silent member keeps its partitions; 10 s.
    pub session_timeout: Duration,
    /// How often a server reports its positions; 1 s.
    pub lag_report_interval: Duration,
    /// Longest time from a report's positions to its ends; 60 ms.
    pub sampling: Duration,
    /// How long a standby needs for a changelog record; 30 ms.
    pub replication_delay: Duration,
    /// How long an active needs for an input record; 5 ms.
    pub processing_delay: Duration,
    /// How long a server waits for another that it forwarded to; 20 s.
    pub forwarding_timeout: Duration,
    /// Heartbeats and `/clusterStatus`; on, unlike the servers' default.
    pub heartbeats: bool,
    /// Lag reports; on, unlike the servers' default.
    pub lag_reports: bool,
    /// Reads from standbys; on, unlike the servers' default.
    pub standby_reads: bool,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The servers' ports; empty for any free ones.
    pub ports: Vec<u16>,
    /// The servers' names in `/clusterStatus`, as their advertised listeners give them; where one is missing, its address.
    pub advertised: Vec<String>,
    /// Servers that tell another version in `/info`, by index, as in the middle of an upgrade; they answer like the others.
    pub other_versions: BTreeMap<usize, Version>,
    /// Tables that are listed with another key format.
    pub key_formats: BTreeMap<String, String>,
    /// Further settings, as `LIST PROPERTIES` shows them. `ksql.pull.queries.enable` is obeyed, the others are only shown.
    pub settings: BTreeMap<String, String>,
    /// The durations of the phases.
    pub phases: Phases,
    /// The tables to have, with what they read; empty for all.
    pub tables: Vec<String>,
    /// The keys `k0`, `k1`, ... of stream `S` at the start; 60.
    pub keys: usize,
    /// Epoch milliseconds of the cluster's start; set by [`Cluster::start`](super::Cluster::start) if zero.
    pub epoch_ms: i64,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            servers: 3,
            version: Version::default(),
            partitions: 6,
            standbys: 1,
            commit_interval: Duration::from_millis(500),
            session_timeout: Duration::from_secs(10),
            lag_report_interval: Duration::from_secs(1),
            sampling: Duration::from_millis(60),
            replication_delay: Duration::from_millis(30),
            processing_delay: Duration::from_millis(5),
            forwarding_timeout: Duration::from_secs(20),
            heartbeats: true,
            lag_reports: true,
            standby_reads: true,
            seed: 0,
            ports: Vec::new(),
            advertised: Vec::new(),
            other_versions: BTreeMap::new(),
            key_formats: BTreeMap::new(),
            settings: BTreeMap::new(),
            phases: Phases::default(),
            tables: Vec::new(),
            keys: 60,
            epoch_ms: 0,
        }
    }
}

impl ClusterConfig {
    /// The servers' own defaults: no heartbeats, no lag reports, no reads from standbys.
    pub fn server_defaults() -> Self {
        ClusterConfig { heartbeats: false, lag_reports: false, standby_reads: false, ..ClusterConfig::default() }
    }

    /// Sets what the servers' own setting of that name sets; one that has no effect here is only shown in `LIST PROPERTIES`.
    ///
    /// # Errors
    /// A value that the setting does not take.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ksql.heartbeat.enable" => self.heartbeats = read(name, value)?,
            "ksql.lag.reporting.enable" => self.lag_reports = read(name, value)?,
            "ksql.lag.reporting.send.interval.ms" => self.lag_report_interval = read_ms(name, value)?,
            "ksql.query.pull.enable.standby.reads" => self.standby_reads = read(name, value)?,
            "ksql.query.pull.forwarding.timeout.ms" => self.forwarding_timeout = read_ms(name, value)?,
            "ksql.streams.num.standby.replicas" => self.standbys = read(name, value)?,
            "ksql.streams.commit.interval.ms" => self.commit_interval = read_ms(name, value)?,
            _ => _ = self.settings.insert(name.to_owned(), value.to_owned()),
        }
        Ok(())
    }

    /// The version that a server tells.
    pub fn version_of(&self, server: usize) -> Version {
        self.other_versions.get(&server).copied().unwrap_or(self.version)
    }

    /// Whether pull queries are answered.
    pub fn pulls(&self) -> bool {
        self.settings.get("ksql.pull.queries.enable").is_none_or(|value| value != "false")
    }
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} does not take {value:?}"))
}

/// A time of at least a millisecond: the model steps by it.
fn read_ms(name: &str, value: &str) -> Result<Duration, String> {
    read(name, value).map(|ms: u64| Duration::from_millis(ms.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_obeyed_or_shown_and_wrong_values_are_refused() {
        let mut config = ClusterConfig::default();
        for (name, value) in [
            ("ksql.lag.reporting.enable", "false"),
            ("ksql.streams.num.standby.replicas", "2"),
            ("ksql.lag.reporting.send.interval.ms", "5000"),
            ("ksql.query.pull.max.qps", "7"),
            ("ksql.pull.queries.enable", "false"),
        ] {
            config.set(name, value).unwrap();
        }
        assert!(!config.lag_reports && !config.pulls());
        assert_eq!((config.standbys, config.lag_report_interval), (2, Duration::from_secs(5)));
        assert_eq!(config.settings.get("ksql.query.pull.max.qps").map(String::as_str), Some("7"));
        let refused = config.set("ksql.heartbeat.enable", "yes");
        assert_eq!(refused, Err("ksql.heartbeat.enable does not take \"yes\"".to_owned()));
    }
}
