//! Each fault, as a client sees it.

use super::client::{pin, query, send, until};
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Fault, Phases, Version};
use serde_json::{Value, json};
use std::time::Duration;

/// Phases a tenth as long as real ones.
fn quick() -> ClusterConfig {
    ClusterConfig {
        phases: Phases::default().scaled(0.1),
        session_timeout: Duration::from_secs(1),
        lag_report_interval: Duration::from_millis(100),
        commit_interval: Duration::from_millis(50),
        forwarding_timeout: Duration::from_secs(3),
        ..ClusterConfig::default()
    }
}

async fn row(url: &str, key: &str, properties: Value) -> Option<i64> {
    let got = query(url, &format!("SELECT V FROM TL WHERE K='{key}';"), properties).await.ok()?;
    let rows: Value = serde_json::from_str(&got.body).ok()?;
    rows[1]["row"]["columns"][0].as_i64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_seen_at_the_active_at_once_and_at_the_standby_after_a_commit() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let position = cluster.write("S", &json!("k1"), None).unwrap();
    let (active, standbys) = cluster.holders("TL", position.partition).unwrap();
    for holder in [active, standbys[0]] {
        let url = &cluster.servers()[holder].url;
        until("the write is seen", || async { row(url, "k1", pin(position.partition)).await == position.value }).await;
    }
    let truth = cluster.truth("TL", &json!("k1"));
    assert_eq!(truth.last().unwrap().v, position.value);
    assert_eq!(truth.last().unwrap().c, 2);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_server_refuses_and_the_others_read_its_standbys() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let (active, _) = cluster.holders("TL", 5).unwrap();
    cluster.inject(Fault::Crash(active));
    let dead = &cluster.servers()[active].url;
    until("the port refuses", || async { send("GET", &format!("{dead}/info"), &[], Vec::new()).await.is_err() }).await;
    let other = &cluster.servers()[(active + 1) % 3].url;
    assert_eq!(row(other, "k1", json!({})).await, Some(1));
    let moved = || async { cluster.holders("TL", 5).unwrap().0 != active };
    until("the partition has moved", moved).await;
    cluster.inject(Fault::Start(active));
    until("it is active again", || async { row(dead, "k1", pin(5)).await == Some(1) }).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_accepts_and_says_nothing() {
    let cluster = Cluster::start(quick()).await.unwrap();
    cluster.inject(Fault::Pause(1));
    let url = format!("{}/info", cluster.servers()[1].url);
    let asked = tokio::spawn(async move { send("GET", &url, &[], Vec::new()).await });
    tokio::net::TcpStream::connect(cluster.servers()[1].address).await.unwrap();
    let status = format!("{}/clusterStatus", cluster.servers()[0].url);
    let name = cluster.servers()[1].name.clone();
    until("the others know", || async {
        let got = send("GET", &status, &[], Vec::new()).await.unwrap();
        let status: Value = serde_json::from_str(&got.body).unwrap();
        status["clusterStatus"][&name]["hostAlive"] == false
    })
    .await;
    assert!(!asked.is_finished());
    cluster.inject(Fault::Resume(1));
    assert_eq!(asked.await.unwrap().unwrap().status, 200);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_server_goes_through_its_phases_and_comes_back_on_its_port() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let url = cluster.servers()[2].url.clone();
    cluster.inject(Fault::Close(2));
    let says = |text: &'static str| {
        let url = url.clone();
        move || {
            let url = url.clone();
            async move {
                query(&url, "SELECT V FROM TL WHERE K='k1';", json!({})).await.is_ok_and(|got| got.body.contains(text))
            }
        }
    };
    until("its queries are gone", says("isn't queryable")).await;
    until("it refuses", || async { send("GET", &format!("{url}/info"), &[], Vec::new()).await.is_err() }).await;
    cluster.inject(Fault::Start(2));
    until("it says 503", says("50302")).await;
    until("it serves", || async { row(&url, "k1", json!({})).await == Some(1) }).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_makes_forwarded_reads_hang_and_healing_ends_them() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let (active, standbys) = cluster.holders("TL", 5).unwrap();
    let third = (0..3).find(|i| *i != active && !standbys.contains(i)).unwrap();
    cluster.inject(Fault::CutOff { from: third, to: active });
    let url = cluster.servers()[third].url.clone();
    let asked = tokio::spawn(async move { row(&url, "k1", json!({})).await });
    let name = cluster.servers()[third].name.clone();
    let status = format!("{}/clusterStatus", cluster.servers()[active].url);
    until("the active misses the heartbeats of the cut-off one", || async {
        let got = send("GET", &status, &[], Vec::new()).await.unwrap();
        serde_json::from_str::<Value>(&got.body).unwrap()["clusterStatus"][&name]["hostAlive"] == false
    })
    .await;
    assert!(!asked.is_finished());
    cluster.inject(Fault::Heal);
    assert_eq!(asked.await.unwrap(), Some(1));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_is_late_and_a_truncating_one_breaks_off_and_a_stalling_one_says_nothing() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let url = cluster.servers()[0].url.clone();
    cluster.inject(Fault::Slow { server: 0, ms: 300 });
    let began = std::time::Instant::now();
    assert_eq!(row(&url, "k1", json!({})).await, Some(1));
    assert!(began.elapsed() >= Duration::from_millis(300));
    cluster.inject(Fault::Heal);
    cluster.inject(Fault::Truncate { server: 0, on: true });
    let broken = query(&url, "SELECT V FROM TL WHERE K='k1';", json!({})).await;
    assert!(broken.is_err(), "{broken:?}");
    cluster.inject(Fault::Heal);
    cluster.inject(Fault::Stall { server: 0, on: true });
    let stalled = tokio::time::timeout(Duration::from_millis(200), row(&url, "k1", json!({}))).await;
    assert!(stalled.is_err());
    cluster.inject(Fault::Heal);
    assert_eq!(row(&url, "k1", json!({})).await, Some(1));
    cluster.shutdown().await;
}

async fn host(cluster: &Cluster, asked: usize, name: &str) -> Value {
    let got = send("GET", &format!("{}/clusterStatus", cluster.servers()[asked].url), &[], Vec::new()).await.unwrap();
    serde_json::from_str::<Value>(&got.body).unwrap()["clusterStatus"][name].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_freeze_ghosts_appear_and_clocks_are_skewed() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let name = cluster.servers()[1].name.clone();
    cluster.inject(Fault::FreezeLagReports(1));
    let reported = || async { host(&cluster, 0, &name).await["hostStoreLags"]["updateTimeMs"].as_i64().unwrap() };
    let other = cluster.servers()[2].name.clone();
    let time = |status: Value| status["hostStoreLags"]["updateTimeMs"].as_i64().unwrap();
    let later = async || {
        let before = time(host(&cluster, 0, &other).await);
        until("the others go on reporting", || async { time(host(&cluster, 0, &other).await) > before + 200 }).await;
    };
    // A report that was on its way may still arrive, and has when the others' next ones have.
    later().await;
    let frozen = reported().await;
    later().await;
    assert_eq!(reported().await, frozen);

    cluster.inject(Fault::GhostHost("gone:8088".to_owned()));
    assert_eq!(host(&cluster, 0, "gone:8088").await["hostAlive"], false);

    cluster.inject(Fault::Heal);
    cluster.inject(Fault::ClockSkew { server: 1, ms: 5000 });
    until("a clock wrong by 5 s makes a server dead", || async {
        host(&cluster, 0, &name).await["hostAlive"] == false
    })
    .await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_standby_reads_old_rows_and_reports_its_lag() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let (active, standbys) = cluster.holders("TL", 5).unwrap();
    cluster.inject(Fault::DelayReplication { server: standbys[0], ms: 60_000 });
    let written = cluster.write("S", &json!("k1"), None).unwrap().value;
    until("the active has it", || async { row(&cluster.servers()[active].url, "k1", pin(5)).await == written }).await;
    let name = &cluster.servers()[standbys[0]].name;
    until("the standby reports its lag", || async {
        let lags = host(&cluster, 0, name).await["hostStoreLags"]["stateStoreLags"]["CTAS_TL_5#Aggregate-Aggregate-Materialize"].clone();
        lags["lagByPartition"]["5"]["offsetLag"] == 1
    })
    .await;
    let standby = &cluster.servers()[standbys[0]].url;
    assert_eq!(row(standby, "k1", pin(5)).await, Some(1));
    let bounded = json!({
        "ksql": "SELECT V FROM TL WHERE K='k1';",
        "streamsProperties": {"ksql.query.pull.max.allowed.offset.lag": 0},
        "requestProperties": {"request.ksql.debug.request": true}
    });
    let got = send("POST", &format!("{standby}/query"), &[], bounded.to_string().into_bytes()).await.unwrap();
    assert!(got.body.contains(&format!("\"sourceHost\":\"{}\"", cluster.servers()[active].name)), "{got:?}");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_server_restores_from_nothing_and_a_made_anew_topic_is_empty() {
    let cluster = Cluster::start(quick()).await.unwrap();
    let (active, _) = cluster.holders("TL", 5).unwrap();
    cluster.inject(Fault::Wipe(active));
    let url = &cluster.servers()[active].url;
    let lost = query(url, "SELECT V FROM TL WHERE K='k1';", pin(5)).await.unwrap();
    assert!(!lost.body.contains("\"row\""), "{lost:?}");
    until("it is restored", || async { row(url, "k1", pin(5)).await == Some(1) }).await;

    cluster.inject(Fault::RecreateTopic("TL".to_owned()));
    assert_eq!(row(url, "k1", pin(5)).await, None);
    let written = cluster.write("S", &json!("k1"), None).unwrap().value;
    until("it counts again", || async { row(url, "k1", pin(5)).await == written }).await;
    assert_eq!(cluster.truth("TL", &json!("k1")).len(), 1);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_standby_reads_only_the_active_answers() {
    let config = ClusterConfig {
        standby_reads: false,
        lag_reports: false,
        heartbeats: false,
        version: Version::V7_4,
        ..quick()
    };
    let cluster = Cluster::start(config).await.unwrap();
    let (active, standbys) = cluster.holders("TL", 5).unwrap();
    assert_eq!(row(&cluster.servers()[active].url, "k1", pin(5)).await, Some(1));
    let got = query(&cluster.servers()[standbys[0]].url, "SELECT V FROM TL WHERE K='k1';", pin(5)).await.unwrap();
    assert!(!got.body.contains("\"row\""), "{got:?}");
    assert_eq!(row(&cluster.servers()[standbys[0]].url, "k1", json!({})).await, Some(1), "natively it is forwarded");
    cluster.shutdown().await;
}
