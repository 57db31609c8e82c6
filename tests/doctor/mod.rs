//! `doctor` in front of emulated clusters: a healthy one of which nothing is found, and one for each misconfiguration.

mod captured;

use crate::cluster::support::client;
use ksqldb_sidecar::app::install_crypto;
use ksqldb_sidecar::cli::doctor::{
    CODES, CannotAsk, Facts, Finding, Severity, examine, findings, write_json, write_text,
};
use ksqldb_sidecar::config::{Config, LoadOptions};
use ksqldb_sidecar::control::HttpFetch;
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Fault, Version, write_on};
use std::sync::Arc;
use std::time::Duration;

/// Longest time in which reports are watched: more than two of the slowest cluster below.
const WATCH: Duration = Duration::from_secs(12);

/// A cluster that reports often, so that a few reports come soon; its servers are killed for good.
fn quick() -> ClusterConfig {
    ClusterConfig {
        lag_report_interval: Duration::from_millis(250),
        session_timeout: Duration::from_secs(3600),
        tables: vec!["TL".into(), "T".into()],
        ..ClusterConfig::default()
    }
}

/// `quick` with settings of the servers.
fn with(settings: &[(&str, &str)]) -> ClusterConfig {
    let mut config = quick();
    settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
    config
}

async fn ask(urls: &[String]) -> Result<Facts, CannotAsk> {
    install_crypto();
    let config = Config::load(LoadOptions::default()).unwrap();
    examine(&HttpFetch::new(&config).unwrap(), &config, urls, WATCH).await
}

/// What is found in a cluster to which a fault happened.
async fn examined(config: ClusterConfig, faults: &[Fault]) -> (Facts, Vec<Finding>) {
    let keys = config.keys;
    let cluster = Arc::new(Cluster::start(config).await.unwrap());
    let writer = write_on(Arc::clone(&cluster), 200, keys);
    let asked = cluster.servers()[0].url.clone();
    for fault in faults {
        cluster.inject(fault.clone());
        shows(&asked, fault).await;
    }
    let facts = ask(&[asked]).await.unwrap();
    writer.abort();
    cluster.end();
    let found = findings(&facts);
    (facts, found)
}

/// Waits until a server's `/clusterStatus` shows a fault that needs time to show.
async fn shows(url: &str, fault: &Fault) {
    let mark = match fault {
        Fault::Crash(_) | Fault::ClockSkew { .. } => |status: &str| status.contains(r#""hostAlive":false"#),
        Fault::DelayReplication { .. } => |status: &str| status.replace(r#""offsetLag":0}"#, "").contains("offsetLag"),
        _ => return,
    };
    let client = client();
    let status = || async { client.get(format!("{url}/clusterStatus")).send().await?.text().await };
    let waiting = async {
        while !mark(&status().await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("{fault:?} does not show"));
}

fn codes(found: &[Finding], least: Severity) -> Vec<&'static str> {
    let all = found.iter().filter(|finding| finding.severity >= least);
    let mut codes: Vec<_> = all.map(|finding| finding.code.name).collect();
    codes.dedup();
    codes
}

async fn finds(code: &str, config: ClusterConfig, faults: &[Fault]) {
    let (facts, found) = examined(config, faults).await;
    assert_eq!(codes(&found, Severity::Warning), [code], "{found:#?}\n{facts:#?}");
}

macro_rules! misconfigurations {
    ($($name:ident: $code:literal, $config:expr, $faults:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                finds($code, $config, &$faults).await;
            }
        )*

        /// The codes that the emulated cluster shows.
        const PLANTED: &[&str] = &[$($code),*];
    };
}

misconfigurations! {
    heartbeats_are_off: "heartbeats-off",
        with(&[("ksql.heartbeat.enable", "false"), ("ksql.lag.reporting.enable", "false")]), [];
    lag_reports_are_off: "lag-reports-off", with(&[("ksql.lag.reporting.enable", "false")]), [];
    lag_reports_are_rare: "lag-interval-long", with(&[("ksql.lag.reporting.send.interval.ms", "3500")]), [];
    a_server_sends_no_more_reports: "lag-reports-frozen", quick(), [Fault::FreezeLagReports(1)];
    standbys_refuse_reads: "standby-reads-off", with(&[("ksql.query.pull.enable.standby.reads", "false")]), [];
    there_are_no_standbys: "standby-replicas-none", with(&[("ksql.streams.num.standby.replicas", "0")]), [];
    there_are_fewer_servers_than_replicas: "standby-replicas-unplaced",
        ClusterConfig { servers: 2, standbys: 2, ..quick() }, [];
    a_standby_falls_behind: "standby-behind", quick(), [Fault::DelayReplication { server: 1, ms: 60_000 }];
    commits_are_rare: "commit-interval-long", with(&[("ksql.streams.commit.interval.ms", "30000")]), [];
    there_is_one_server: "single-server", ClusterConfig { servers: 1, ..quick() }, [];
    a_server_is_down: "server-down", quick(), [Fault::Crash(1)];
    a_host_is_in_the_map_that_nobody_runs: "ghost-host", quick(), [Fault::GhostHost("127.0.0.1:1".into())];
    an_advertised_name_cannot_be_dialled: "name-not-routable",
        ClusterConfig { advertised: vec!["127.0.0.1:2".into(), "127.0.0.1:1".into()], servers: 2, ..quick() }, [];
    a_clock_is_wrong: "clock-skew", quick(), [Fault::ClockSkew { server: 1, ms: 3_600_000 }];
    the_clock_of_the_server_that_is_asked_is_wrong: "clock-skew", quick(), [Fault::ClockSkew { server: 0, ms: 60_000 }];
    versions_differ: "versions-mixed",
        ClusterConfig { other_versions: [(2, Version::V7_4)].into(), ..quick() }, [];
    a_version_does_not_check_pins: "pins-unchecked", ClusterConfig { version: Version::Old, ..quick() }, [];
    pull_queries_are_disabled: "pull-queries-disabled", with(&[("ksql.pull.queries.enable", "false")]), [];
    pull_queries_are_limited: "pull-rate-limited", with(&[("ksql.query.pull.max.qps", "100")]), [];
    few_pull_queries_run_at_once: "pull-concurrency-limited", with(&[("ksql.query.pull.max.concurrent.requests", "8")]), [];
    a_pool_is_small: "pull-threads-few", with(&[("ksql.query.pull.router.thread.pool.size", "2")]), [];
    a_key_is_in_a_registry_format: "key-format-unroutable",
        ClusterConfig { key_formats: [("TL".into(), "AVRO".into())].into(), ..quick() }, [];
    the_stores_are_in_a_temporary_directory: "state-directory-temporary",
        with(&[("ksql.streams.state.dir", "/tmp/kafka-streams")]), [];
}

#[test]
fn at_least_fifteen_kinds_are_planted_and_each_is_documented() {
    let mut planted = PLANTED.to_vec();
    planted.dedup();
    assert!(planted.len() >= 15, "{planted:?}");
    assert!(planted.iter().all(|code| CODES.iter().any(|known| known.name == *code)));
}

/// The healthy cluster of each version that is not too old, with every table there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_in_a_healthy_cluster() {
    for version in [Version::V0_29, Version::V7_4, Version::V8_0_1] {
        let (facts, found) = examined(ClusterConfig { version, tables: Vec::new(), ..quick() }, &[]).await;
        assert_eq!(codes(&found, Severity::Warning), Vec::<&str>::new(), "{found:#?}");
        assert_eq!(
            codes(&found, Severity::Note),
            ["state-directory-unset", "table-not-materialised", "key-type-unroutable"],
            "{found:#?}"
        );
        assert_eq!(facts.servers.len(), 3);
        let tried = |name: &str| facts.routed().find(|(table, _)| *table == name).unwrap().1.probes.len();
        for table in ["TL", "TI", "TB", "TD", "TJ", "TJI", "TDL", "TBY", "TM", "TM2", "TW", "JT", "SSRC", "QSRC"] {
            assert_eq!(tried(table), 2, "{table}: the active and its standby");
        }
        let floor = facts.time_floor_ms().unwrap();
        assert!((500..3000).contains(&floor), "{floor}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_ask_says_whom_and_what_to_do() {
    let closed = "http://127.0.0.1:1".to_owned();
    let error = ask(std::slice::from_ref(&closed)).await.unwrap_err().to_string();
    assert!(error.contains(&closed) && error.contains("connection refused") && error.contains("--server"), "{error}");
    let cluster = Cluster::start(quick()).await.unwrap();
    let facts = ask(&[closed, cluster.servers()[1].url.clone()]).await.unwrap();
    assert_eq!(facts.servers[0].name, cluster.servers()[1].name, "the first that answers is asked for the others");
    assert_eq!(facts.servers.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_forms_of_the_report_tell_servers_tables_and_findings() {
    let (facts, found) = examined(with(&[("ksql.query.pull.max.qps", "100")]), &[]).await;
    let (mut text, mut json) = (Vec::new(), Vec::new());
    write_text(&facts, &found, &mut text).unwrap();
    write_json(&facts, &found, &mut json).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in [
        "0.29.0",
        "pull queries/s    100",
        "TL ",
        "routed by K STRING (KAFKA)",
        "pin accepted by 2",
        "warning pull-rate-limited",
        "change: raise",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["healthy"], false);
    assert_eq!(json["findings"][0]["code"], "pull-rate-limited");
    assert_eq!(json["findings"][0]["severity"], "warning");
    assert_eq!(json["facts"]["servers"][0]["version"], "0.29.0");
}

/// Runs the command.
async fn command(arguments: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ksqldb-sidecar"));
    command.arg("doctor").args(arguments).env_remove("KSQLDB_SIDECAR_CONFIG");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_is_0_without_findings_1_with_them_and_2_if_nobody_answers() {
    let healthy = Cluster::start(quick()).await.unwrap();
    let ill = Cluster::start(with(&[("ksql.query.pull.enable.standby.reads", "false")])).await.unwrap();
    let fine = command(&["--server", &healthy.servers()[2].url]).await;
    assert_eq!(fine.status.code(), Some(0), "{fine:?}");
    assert!(fine.stderr.is_empty() && String::from_utf8(fine.stdout).unwrap().contains("0 errors, 0 warnings"));
    let bad = command(&["--format", "json", "--server", &ill.servers()[0].url]).await;
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let report: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(report["findings"][0]["code"], "standby-reads-off");
    let probes = report["facts"]["tables"][0]["lookups"]["routed"]["probes"].as_array().unwrap();
    assert_eq!(probes.iter().map(|probe| &probe["active"]).collect::<Vec<_>>(), [true], "standbys are not asked");
    for unusable in [&["--server", "http://127.0.0.1:1"][..], &["--server", "ksql-1"], &["--format", "yaml"]] {
        let output = command(unusable).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output:?}");
    }
}

/// Names of another network: what the one server tells is reported all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_laptop_one_server_tells_of_the_cluster() {
    // longer than a name may be, so that nobody is asked for it
    let name = |number: u32| format!("{}-{number}:8088", "k".repeat(70));
    let config = ClusterConfig { advertised: (0..3).map(name).collect(), ..quick() };
    let (facts, found) = examined(config, &[]).await;
    assert_eq!(codes(&found, Severity::Warning), ["name-not-routable"], "{found:#?}");
    assert_eq!(found.iter().filter(|finding| finding.code.name == "name-not-routable").count(), 2);
    assert!(found[0].seen.contains("no connection"), "{}", found[0].seen);
    let (_, table) = facts.routed().next().unwrap();
    assert!(table.placement.iter().all(|held| held.standbys.len() == 1));
    assert_eq!((facts.servers.len(), facts.answering().count(), table.probes.len()), (3, 1, 1));
}
