//! Draining a server: nobody asks it any more, and it is said when it may be stopped.

use crate::cluster::support::{Rig, client};
use ksqldb_sidecar::emulator::{ClusterConfig, Fault};
use ksqldb_sidecar::view::HostState;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

async fn ask(rig: &Rig, server: usize, method: reqwest::Method, path: &str) -> (u16, Value) {
    let url = format!("http://{}{path}", rig.sidecars[server].admin_addr());
    let response = client().request(method, url).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Who answers a statement.
async fn served_by(address: SocketAddr, statement: &str) -> String {
    let path = if statement.starts_with("SELECT") { "query" } else { "ksql" };
    let body = serde_json::json!({"ksql": statement, "streamsProperties": {}}).to_string();
    let response = client().post(format!("http://{address}/{path}")).body(body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{statement}");
    response.headers()["x-ksqldb-sidecar-served-by"].to_str().unwrap().to_owned()
}

async fn rig() -> Rig {
    let config = ClusterConfig {
        tables: vec!["TL".into()],
        lag_report_interval: Duration::from_millis(300),
        ..ClusterConfig::default()
    };
    Rig::start(config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_server_is_asked_by_no_sidecar_until_the_drain_is_taken_back() {
    let rig = rig().await;
    let (status, answer) = ask(&rig, 1, reqwest::Method::POST, "/drain").await;
    assert_eq!((status, &answer["drained"]), (200, &Value::from(true)), "{answer}");
    let name = rig.sidecars[1].published().load().local().unwrap().1.name.to_string();
    for sidecar in &rig.sidecars {
        for statement in (0..20).map(|key| format!("SELECT * FROM TL WHERE K='k{key}';")).chain(["LIST TABLES;".into()])
        {
            let served_by = served_by(sidecar.client_addr(), &statement).await;
            assert_ne!(served_by, name, "{statement}");
        }
    }

    // another one must not be restarted meanwhile
    let (status, answer) = ask(&rig, 0, reqwest::Method::GET, "/drain/ready").await;
    assert_eq!(status, 503, "{answer}");
    assert_eq!(answer["otherServersNotLive"].as_array().map(Vec::len), Some(1), "{answer}");

    assert_eq!(ask(&rig, 1, reqwest::Method::DELETE, "/drain").await.0, 200);
    for sidecar in &rig.sidecars {
        rig.until(sidecar, "it is live again", |view| view.hosts.iter().all(|host| host.state == HostState::Live))
            .await;
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_partitions_have_no_other_current_replica_is_not_called_safe() {
    let rig = rig().await;
    rig.until(&rig.sidecars[0], "standbys are current", |view| view.drained(view.made).lacking.is_empty()).await;
    assert_eq!(ask(&rig, 0, reqwest::Method::GET, "/drain/ready").await.0, 200);
    rig.cluster.inject(Fault::Crash(2));
    rig.until(&rig.sidecars[0], "its death is seen", |view| {
        view.hosts.iter().any(|host| host.state == HostState::Dead)
    })
    .await;
    let (status, answer) = ask(&rig, 0, reqwest::Method::POST, "/drain?wait=50ms").await;
    assert_eq!(status, 503, "{answer}");
    assert!(!answer["withoutCurrentStandby"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(ask(&rig, 0, reqwest::Method::POST, "/drain?wait=soon").await.0, 400);
    rig.stop().await;
}
