//! Sidecars in front of an emulated cluster, over real sockets, while its servers fail: every read is checked.

mod promises;
pub mod support;

use self::support::{Rig, Wrong, query};
use ksqldb_sidecar::emulator::{ClusterConfig, Fault, Phases, Version};
use ksqldb_sidecar::view::Role;
use std::time::Duration;

/// Real phases scaled down, so that a whole roll fits into a few seconds.
fn hasty(version: Version) -> ClusterConfig {
    ClusterConfig {
        version,
        session_timeout: Duration::from_secs(2),
        phases: Phases::default().scaled(0.15),
        tables: vec!["TL".into(), "TI".into(), "TW".into(), "TM".into()],
        ..ClusterConfig::default()
    }
}

async fn survives(version: Version, faults: &[(u64, Fault)], seconds: u64) {
    let rig = Rig::start(hasty(version)).await;
    let found = rig.read_through(faults, Duration::from_secs(seconds)).await;
    assert!(found.reads > 30, "{found:?}");
    assert_eq!(found.wrong, Vec::<Wrong>::new(), "{version:?}: {} reads, slowest {:?}", found.reads, found.slowest);
    assert!(found.slowest < Duration::from_secs(5), "{:?}", found.slowest);
    rig.stop().await;
}

const EVERY: [Version; 4] = [Version::V0_29, Version::V7_4, Version::V8_0_1, Version::Old];

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_not_noticed() {
    for version in EVERY {
        survives(version, &[(500, Fault::Crash(0)), (4000, Fault::Start(0))], 8).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_not_noticed() {
    for version in EVERY {
        survives(version, &[(500, Fault::Pause(1)), (3500, Fault::Resume(1))], 5).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_server_is_not_noticed() {
    for version in EVERY {
        survives(version, &[(500, Fault::Close(2)), (3000, Fault::Start(2))], 8).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_slow_stale_and_confusing_servers_are_not_noticed() {
    for fault in [
        Fault::Truncate { server: 0, on: true },
        Fault::Stall { server: 1, on: true },
        Fault::Slow { server: 2, ms: 300 },
        Fault::FreezeLagReports(0),
        Fault::DelayReplication { server: 1, ms: 1500 },
        Fault::ClockSkew { server: 2, ms: 3_600_000 },
        Fault::GhostHost("ghost:8088".into()),
        Fault::CutOff { from: 0, to: 1 },
    ] {
        println!("{fault:?}");
        survives(Version::V0_29, &[(300, fault), (2500, Fault::Heal)], 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_keys_are_absent_whatever_their_type() {
    for version in EVERY {
        let rig = Rig::start(hasty(version)).await;
        for (statement, rows) in [
            ("SELECT * FROM TL WHERE K='k1';", 1),
            ("SELECT * FROM TL WHERE K='nobody';", 0),
            ("SELECT * FROM TL WHERE K='zzzz';", 0),
            ("SELECT * FROM TI WHERE ID=424242;", 0),
            ("SELECT * FROM TM WHERE A='nobody' AND B=7;", 0),
            ("SELECT * FROM TW WHERE K='k1' AND WINDOWSTART < 5;", 0),
            ("SELECT * FROM TW WHERE K='nobody';", 0),
        ] {
            for sidecar in &rig.sidecars {
                let answer = query(sidecar.client_addr(), statement).await;
                assert_eq!(answer.status, 200, "{version:?} {statement} {}", answer.body);
                assert_eq!(answer.rows.len(), rows, "{version:?} {statement} {}", answer.body);
            }
        }
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_standby_does_not_have_yet_is_never_called_absent() {
    let config = ClusterConfig { session_timeout: Duration::from_secs(60), ..hasty(Version::V0_29) };
    let rig = Rig::start(config).await;
    for server in 0..3 {
        rig.cluster.inject(Fault::DelayReplication { server, ms: 60_000 });
    }
    rig.cluster.write("S", &"fresh".into(), None).unwrap();
    let partition = rig.partition_of("fresh");
    let statement = "SELECT K, V FROM TL WHERE K='fresh';";
    for sidecar in &rig.sidecars {
        while query(sidecar.client_addr(), statement).await.rows.is_empty() {} // until it has been processed
        rig.until(sidecar, "the standby reports that it does not keep up", |view| {
            let slot = view.slot(&view.tables["TL"], partition);
            let standby = slot.replicas.iter().find(|replica| replica.role == Role::Standby);
            standby.is_some_and(|replica| replica.position.is_some() && !replica.keeps_up)
        })
        .await;
    }
    rig.cluster.inject(Fault::Crash(rig.cluster.holders("TL", partition).unwrap().0));
    for sidecar in &rig.sidecars {
        let answer = query(sidecar.client_addr(), statement).await;
        assert!(answer.status == 503 && answer.body.contains("behind"), "{} {}", answer.status, answer.body);
        let old = query(sidecar.client_addr(), "SELECT K, V FROM TL WHERE K='k1';").await;
        assert_eq!((old.status, old.rows.len()), (200, 1), "stale rows are still rows: {}", old.body);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_changelog_that_was_made_anew_is_refused() {
    let config = ClusterConfig { lag_report_interval: Duration::from_millis(200), ..hasty(Version::V0_29) };
    let rig = Rig::start(config).await;
    let url = format!("http://{}/query", rig.sidecars[0].client_addr());
    let read = async |token: &str| {
        let body = r#"{"ksql":"SELECT K, V FROM TL WHERE K='k1';","streamsProperties":{}}"#;
        let request = support::client().post(&url).header("x-ksqldb-sidecar-token", token).body(body);
        let response = request.send().await.unwrap();
        let token = response.headers().get("x-ksqldb-sidecar-token").map(|token| token.to_str().unwrap().to_owned());
        (response.status().as_u16(), token, response.text().await.unwrap())
    };
    let partition = rig.partition_of("k1");
    // so long that it will not have grown as long again by the next report
    let grown = |view: &ksqldb_sidecar::view::ClusterView| {
        view.slot(&view.tables["TL"], partition).end.is_some_and(|end| end > 60)
    };
    for sidecar in &rig.sidecars {
        rig.until(sidecar, "the changelog has grown", grown).await;
    }
    let (status, token, body) = read("").await;
    assert_eq!(status, 200, "{body}");
    let token = token.unwrap();
    rig.cluster.inject(Fault::RecreateTopic("TL".into()));
    for sidecar in &rig.sidecars {
        let known = |view: &ksqldb_sidecar::view::ClusterView| view.slot(&view.tables["TL"], partition).epoch.is_some();
        rig.until(sidecar, "the new changelog is recognised", known).await;
    }
    let (status, _, body) = read(&token).await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("x-ksqldb-sidecar-token: the token is of a changelog that has been created anew"), "{body}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_agrees_with_sound_replicas_and_finds_one_that_lost_records() {
    let config = ClusterConfig {
        commit_interval: Duration::from_millis(50),
        lag_report_interval: Duration::from_millis(200),
        ..hasty(Version::V0_29)
    };
    let rig = Rig::with(config, &[("FRESHNESS__AUDIT", "1.0")]).await;
    rig.quieten();
    let (sidecar, partition) = (&rig.sidecars[0], rig.partition_of("k1"));
    let audited = async |result: &'static str| {
        let audits = &sidecar.metrics().audits;
        let before = audits.with([result]).get();
        let found = async {
            while audits.with([result]).get() == before {
                assert_eq!(query(sidecar.client_addr(), "SELECT K, V FROM TL WHERE K='k1';").await.status, 200);
            }
        };
        tokio::time::timeout(Duration::from_secs(40), found).await.unwrap_or_else(|_| panic!("an audit {result}"));
    };
    audited("agreed").await;
    assert_eq!(sidecar.metrics().audits.with(["violated"]).get(), 0);
    let standby = rig.cluster.holders("TL", partition).unwrap().1[0];
    rig.cluster.inject(Fault::Skip { server: standby, on: true });
    rig.cluster.write("S", &"k1".into(), None).unwrap();
    audited("violated").await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_requests_under_way_are_counted() {
    let rig = Rig::start(hasty(Version::V0_29)).await;
    let sidecar = &rig.sidecars[0];
    let body = r#"{"sql":"SELECT K FROM S EMIT CHANGES;","properties":{}}"#;
    let url = format!("http://{}/query-stream", sidecar.client_addr());
    let mut response = support::client().post(url).body(body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    let text = sidecar.metrics().encode().unwrap();
    for line in [
        "client_connections 1",
        "requests_in_flight{class=\"push\"} 1",
        "requests_in_flight{class=\"none\"} 0",
        "upstream_connections{protocol=\"http1\"} 1",
    ] {
        assert!(text.contains(&format!("ksqldb_sidecar_{line}\n")), "{line} in {text}");
    }
    drop(response);
    let gone = async {
        while sidecar.metrics().client_connections.get() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the connection is no longer counted");
    assert!(sidecar.metrics().encode().unwrap().contains("requests_in_flight{class=\"push\"} 0"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_default_settings_are_served_too() {
    let config = ClusterConfig { tables: vec!["TL".into()], ..ClusterConfig::server_defaults() };
    let rig = Rig::start(config).await;
    let found = rig.read_through(&[], Duration::from_secs(3)).await;
    assert_eq!(found.wrong, Vec::<Wrong>::new());
    let absent = query(rig.sidecars[0].client_addr(), "SELECT * FROM TL WHERE K='nobody';").await;
    assert_eq!((absent.status, absent.rows.len()), (200, 0), "{}", absent.body);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_else_goes_to_another_server_while_the_local_one_is_down() {
    let rig = Rig::start(hasty(Version::V0_29)).await;
    rig.cluster.inject(Fault::Crash(0));
    let sidecar = rig.sidecars[0].client_addr();
    let client = support::client();
    for (path, body) in [("/info", None), ("/ksql", Some(r#"{"ksql":"LIST TABLES;"}"#)), ("/clusterStatus", None)] {
        let url = format!("http://{sidecar}{path}");
        let request = match body {
            Some(body) => client.post(url).body(body),
            None => client.get(url),
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
    }
    let scan = query(sidecar, "SELECT * FROM TL WHERE K IN ('k1', 'k2');").await;
    assert!(scan.status == 200 || scan.status == 400, "native routing decides about several keys: {}", scan.body);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_are_tunnelled_to_a_server_that_lives() {
    let rig = Rig::start(hasty(Version::V0_29)).await;
    for crash in [false, true] {
        if crash {
            rig.cluster.inject(Fault::Crash(0));
        }
        let frames = support::websocket(rig.sidecars[0].client_addr(), "SELECT K FROM TL WHERE K='k1';").await;
        assert_eq!(frames.len(), 3, "{frames:?}");
        assert_eq!((frames[1].as_str(), frames[2].as_str()), (r#"{"row":{"columns":["k1"]}}"#, r#"{"error":"done"}"#));
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_query_ends_upstream_when_its_client_leaves() {
    let rig = Rig::start(hasty(Version::V0_29)).await;
    let body = r#"{"sql":"SELECT K FROM S EMIT CHANGES;","properties":{}}"#;
    let url = format!("http://{}/query-stream", rig.sidecars[1].client_addr());
    let mut response = support::client().post(url).body(body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    assert_eq!(rig.cluster.push_queries(), 1);
    drop(response);
    let gone = async {
        while rig.cluster.push_queries() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the query ends on the server");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_its_token_no_session_reads_anything_older_than_it_has_read() {
    for faults in [
        [(500, Fault::Crash(0)), (4000, Fault::Start(0))],
        [(500, Fault::Pause(1)), (3500, Fault::Resume(1))],
        [(500, Fault::Close(2)), (3000, Fault::Start(2))],
        [(300, Fault::DelayReplication { server: 0, ms: 1500 }), (1500, Fault::Crash(1))],
    ] {
        let rig = Rig::start(hasty(Version::V0_29)).await;
        let (answered, refused, wrong) = rig.read_in_sessions(&faults, Duration::from_secs(8)).await;
        assert_eq!(wrong, Vec::<Wrong>::new(), "{faults:?}: {answered} answered, {refused} refused");
        assert!(answered > 30, "{faults:?}: {answered} answered, {refused} refused");
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_inserted_is_read_with_the_token_of_the_insert_through_any_sidecar() {
    let config = ClusterConfig { commit_interval: Duration::from_millis(200), ..hasty(Version::V0_29) };
    let rig = Rig::start(config).await;
    let client = support::client();
    for (number, sidecar) in rig.sidecars.iter().enumerate() {
        let insert = format!("INSERT INTO S (K, V) VALUES ('own', {});", 1_000_000 + number);
        let body = serde_json::json!({"ksql": insert, "streamsProperties": {}}).to_string();
        let url = format!("http://{}/ksql", sidecar.client_addr());
        let inserted = client.post(url).body(body).send().await.unwrap();
        let token = inserted.headers()["x-ksqldb-sidecar-token"].clone();
        let reader = &rig.sidecars[(number + 1) % 3];
        let read = serde_json::json!({"ksql": "SELECT V FROM TL WHERE K='own';", "streamsProperties": {}}).to_string();
        let request = client.post(format!("http://{}/query", reader.client_addr())).body(read);
        let request = request.header("X-Ksqldb-Sidecar-Token", token).header("X-Ksqldb-Sidecar-Wait", "9s");
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status == 200 && text.contains(&(1_000_000 + number).to_string()), "{status} {text}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_losing_a_host_would_hurt_is_shown() {
    let rig = Rig::start(hasty(Version::V0_29)).await;
    let sidecar = &rig.sidecars[0];
    let shown = |ready: u8| {
        let lines: Vec<String> =
            (0..6).map(|p| format!("failover_ready{{partition=\"{p}\",table=\"TL\"}} {ready}\n")).collect();
        move |text: &str| lines.iter().all(|line| text.contains(line.as_str()))
    };
    let until = async |what: &str, holds: &dyn Fn(&str) -> bool| {
        rig.until(sidecar, what, |_| holds(&sidecar.metrics().encode().unwrap())).await;
    };
    until("each partition has an active and a current standby", &shown(1)).await;
    for server in 0..3 {
        rig.cluster.inject(Fault::DelayReplication { server, ms: 60_000 });
    }
    until("the standbys are behind", &shown(0)).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_given_when_a_table_is_made_lasts_in_the_cluster() {
    let config = ClusterConfig { session_timeout: Duration::from_secs(60), ..hasty(Version::V0_29) };
    let rig = Rig::start(config).await;
    let sidecar = &rig.sidecars[0];
    let make = "CREATE OR REPLACE TABLE TL WITH (ACCEPTABLE_OFFSET_LAG=0, PARTITIONS=6) AS SELECT K, COUNT(*) C FROM S GROUP BY K;";
    let url = format!("http://{}/ksql", sidecar.client_addr());
    let post = async |text: &str| {
        let body = serde_json::json!({"ksql": text, "streamsProperties": {}}).to_string();
        let response = support::client().post(&url).body(body).send().await.unwrap();
        (response.status().as_u16(), response.json::<serde_json::Value>().await.unwrap())
    };
    let (status, answer) = post(make).await;
    assert_eq!((status, answer.as_array().map(Vec::len)), (200, Some(1)), "the extra entities are taken out: {answer}");
    let statement = answer[0]["statementText"].as_str().unwrap();
    assert!(statement.contains("WITH (PARTITIONS=6) AS"), "{statement}");
    let bounded = |view: &ksqldb_sidecar::view::ClusterView| {
        view.tables.get("TL").is_some_and(|table| table.max_offset_lag == Some(0))
    };
    rig.until(sidecar, "the bound is read back", bounded).await;
    let tables = async || {
        let url = format!("http://{}/tables", sidecar.admin_addr());
        support::client().get(url).send().await.unwrap().json::<serde_json::Value>().await.unwrap()
    };
    let shown = tables().await["tables"]["TL"]["bounds"].clone();
    assert_eq!(shown["maxOffsetLag"], serde_json::json!({"records": 0, "from": "ACCEPTABLE_OFFSET_LAG"}));
    let servers: Vec<String> = rig.cluster.servers().iter().map(|server| server.url.clone()).collect();
    for sidecar in support::sidecars(&servers, &[]).await {
        rig.until(&sidecar, "a sidecar that starts later reads it too", bounded).await;
        sidecar.shutdown().await;
    }
    assert_eq!(post(&make.replace("ACCEPTABLE_OFFSET_LAG=0, ", "")).await.0, 200);
    rig.until(sidecar, "it is taken back", |view| !bounded(view)).await;
    assert_eq!(tables().await["tables"]["TL"]["bounds"]["maxOffsetLag"], serde_json::Value::Null);
    assert_eq!(post(make).await.0, 200);
    rig.until(sidecar, "it is given again", bounded).await;
    let (status, answer) = post(&make.replace("=0", "=lots")).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("ACCEPTABLE_OFFSET_LAG of table TL: lots"), "{answer}");

    for server in 0..3 {
        rig.cluster.inject(Fault::DelayReplication { server, ms: 60_000 });
    }
    let partition = rig.partition_of("k1");
    rig.until(sidecar, "the standby is seen to be behind", |view| {
        let slot = view.slot(&view.tables["TL"], partition);
        let standby = slot.replicas.iter().find(|replica| replica.role == Role::Standby);
        standby.and_then(|replica| replica.lag(slot.end)).is_some_and(|lag| lag > 0)
    })
    .await;
    rig.cluster.inject(Fault::Crash(rig.cluster.holders("TL", partition).unwrap().0));
    let read = "SELECT K, V FROM TL WHERE K='k1';";
    let mut answer = query(sidecar.client_addr(), read).await;
    if answer.status == 200 {
        answer = query(sidecar.client_addr(), read).await; // the first may still have met the active
    }
    assert!(answer.status == 503 && answer.body.contains("within 0 records"), "{} {}", answer.status, answer.body);
    rig.stop().await;
}
