//! `doctor` in front of what real servers of two versions answered (`fixtures/`).

use super::codes;
use ksqldb_sidecar::cli::doctor::{Severity, StandbyFact, examine, findings};
use ksqldb_sidecar::config::{Config, LoadOptions};
use ksqldb_sidecar::control::{Fetch, FetchError, Fetched};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

const URL: &str = "http://127.0.0.1:28089";

/// One server as it was captured; the others are out of reach.
struct Captured {
    version: &'static str,
}

impl Captured {
    fn read(&self, name: &str) -> Option<Value> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        serde_json::from_str(&fs::read_to_string(folder.join(name)).ok()?).ok()
    }

    /// The answer of a captured exchange.
    fn exchange(&self, name: &str) -> Fetched {
        let exchange = self.read(&format!("ksqldb-{}/{name}.json", self.version)).unwrap_or_default();
        let response = exchange.get("response").unwrap_or(&Value::Null);
        let status = response["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(400);
        Fetched { status, body: response["body"].as_str().unwrap_or_default().to_owned().into() }
    }

    fn ksql(&self, body: &str) -> Fetched {
        let request: Value = serde_json::from_str(body).unwrap();
        let statements = request["ksql"].as_str().unwrap();
        if let Some(rest) = statements.strip_prefix("DESCRIBE `") {
            return self.exchange(&format!("describe-extended-{}", rest.split('`').next().unwrap()));
        }
        if statements == "LIST PROPERTIES;" {
            return self.exchange("list-properties");
        }
        let listing = self.read(&format!("listing-{}.json", self.version)).unwrap();
        Fetched { status: 200, body: listing.to_string().into() }
    }
}

impl Fetch for Captured {
    async fn get(&self, url: &str, _: Duration) -> Result<Fetched, FetchError> {
        match url.strip_prefix(URL) {
            Some("/info") => Ok(self.exchange("info")),
            Some("/clusterStatus") => Ok(self.exchange("cluster-status")),
            _ => Err(FetchError::Refused),
        }
    }

    async fn post(&self, url: &str, body: String, _: Duration) -> Result<Fetched, FetchError> {
        match url.strip_prefix(URL) {
            Some("/ksql") => Ok(self.ksql(&body)),
            Some("/query") => Ok(self.exchange("query.absent")),
            _ => Err(FetchError::Refused),
        }
    }
}

#[tokio::test]
async fn what_real_servers_said_is_understood() {
    for version in ["0.29.0", "7.4.0"] {
        let config = Config::load(LoadOptions::default()).unwrap();
        let facts = examine(&Captured { version }, &config, &[URL.to_owned()], Duration::ZERO).await.unwrap();
        let found = findings(&facts);
        // the clock is that of the day of the captures
        let expected = ["clock-skew", "name-not-routable"];
        assert_eq!(codes(&found, Severity::Warning), expected, "{version}: {found:#?}");
        let first = &facts.servers[0];
        assert_eq!((first.name.as_str(), first.version.as_deref()), ("127.0.0.1:28089", Some(version)));
        assert_eq!((facts.servers.len(), facts.heartbeats(), facts.reports.any), (3, true, true));
        assert!(facts.servers.iter().all(|server| server.alive == Some(true) && server.placed), "{:#?}", facts.servers);
        assert_eq!(first.setting("ksql.streams.commit.interval.ms"), Some(500));
        let (_, table) = facts.routed().find(|(name, _)| *name == "TL").unwrap();
        assert_eq!((table.key.as_str(), table.partitions, table.placement.len()), ("K STRING (KAFKA)", 6, 6));
        let whole = |standbys: &[StandbyFact]| standbys.len() == 1 && standbys[0].lag.is_some();
        assert!(table.placement.iter().all(|held| held.active.is_some() && whole(&held.standbys)), "{table:#?}");
        assert!(table.probes.iter().all(|probe| probe.host == first.name && probe.refused.is_none()), "{table:#?}");
        assert_eq!(table.probes.len(), 1);
        assert!(facts.tables.len() >= 16, "{:#?}", facts.tables);
    }
}
