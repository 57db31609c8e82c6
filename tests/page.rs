//! What the admin port shows to people, over real HTTP: the page, its events, decisions, and who may see them.

use crate::cluster::support::{Rig, client, query};
use ksqldb_sidecar::app::Sidecar;
use ksqldb_sidecar::emulator::ClusterConfig;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

async fn rig(more: &[(&str, &str)]) -> Rig {
    Rig::with(ClusterConfig { tables: vec!["TL".into()], ..ClusterConfig::default() }, more).await
}

fn url(sidecar: &Sidecar, path: &str) -> String {
    format!("http://{}{path}", sidecar.admin_addr())
}

async fn decisions(sidecar: &Sidecar, filter: &str) -> Vec<Value> {
    let response = client().get(url(sidecar, &format!("/decisions?{filter}"))).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let answer: Value = response.json().await.unwrap();
    answer["decisions"].as_array().unwrap().clone()
}

/// Reads a key with these headers; the answer's.
async fn read(sidecar: &Sidecar, key: &str, headers: &[(&str, &str)]) -> HeaderMap {
    let body = json!({"ksql": format!("SELECT * FROM TL WHERE K='{key}';")}).to_string();
    let request = client().post(format!("http://{}/query", sidecar.client_addr())).body(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let headers = response.headers().clone();
    response.bytes().await.unwrap(); // a decision is made when its answer has ended
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_tell_where_queries_went_and_nothing_of_what_they_asked() {
    let rig = rig(&[("LOG__DECISIONS", "5")]).await;
    let sidecar = &rig.sidecars[0];
    let secret = [("Authorization", "Basic c2VjcmV0OnNlY3JldA=="), ("X-Request-Id", "order-17")];
    let answer = read(sidecar, "k1", &secret).await;
    let served_by = answer["x-ksqldb-sidecar-served-by"].to_str().unwrap();
    query(sidecar.client_addr(), "SELECT K FROM TL WHERE K IN ('k1', 'k2');").await;
    query(sidecar.client_addr(), "SELECT K FROM NOWHERE WHERE K='k1';").await;

    let found = decisions(sidecar, "id=order-17").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let lookup = &found[0];
    let told = ["class", "table", "servedBy", "outcome", "status"].map(|member| lookup[member].clone());
    assert_eq!(told, [json!("lookup"), json!("TL"), json!(served_by), json!("ok"), json!(200)], "{lookup}");
    assert_eq!(lookup["partition"], rig.partition_of("k1"));
    let replicas = lookup["replicas"].as_array().unwrap();
    assert_eq!(replicas[0]["host"], served_by, "the first choice answered: {lookup}");
    assert_eq!(replicas[0]["reason"], lookup["reason"]);
    assert!(replicas.len() == 2 && replicas[1]["because"].as_str().unwrap().len() > 10, "{lookup}");

    let reasons = async |filter: &str| {
        let found = decisions(sidecar, filter).await;
        found.iter().map(|decision| decision["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(reasons("class=lookup-many").await, ["not_a_lookup"]);
    assert_eq!(reasons("class=lookup&limit=1").await, ["unknown_table"], "newest first");
    assert_eq!(reasons("table=TL&outcome=ok").await.len(), 1);
    assert_eq!(reasons(&format!("class=lookup&table=TL&host={served_by}")).await.len(), 1);
    assert!(reasons("outcome=exhausted").await.is_empty());
    let bad = client().get(url(sidecar, "/decisions?colour=red")).send().await.unwrap();
    assert_eq!(bad.status(), 400);

    let all = Value::from(decisions(sidecar, "").await).to_string();
    for hidden in ["k1", "c2VjcmV0", "SELECT"] {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    for number in 0..6 {
        read(sidecar, &format!("k{number}"), &[]).await;
    }
    let last = decisions(sidecar, "").await;
    assert_eq!(last.len(), 5, "as many as are configured");
    assert!(last.iter().all(|decision| decision["requestId"] != "order-17"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_and_decisions_are_for_this_machine_under_its_own_name() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let status = async |path: &str, headers: &[(&str, &str)]| {
        let request = match path {
            "/explain" | "/heartbeat" => client().post(url(sidecar, path)).body("SELECT * FROM TL WHERE K='k1';"),
            _ => client().get(url(sidecar, path)),
        };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap().status().as_u16()
    };
    for path in ["/explain", "/decisions"] {
        assert_eq!(status(path, &[]).await, 200, "{path}");
        assert_eq!(status(path, &[("Host", "localhost:8090")]).await, 200, "{path}");
        assert_eq!(status(path, &[("Host", "rebound.example:8090")]).await, 403, "{path}");
        assert_eq!(status(path, &[("Origin", "http://evil.example")]).await, 403, "{path}");
        assert_eq!(status(path, &[("Sec-Fetch-Site", "cross-site")]).await, 403, "{path}");
    }
    assert_eq!(status("/heartbeat", &[("Origin", "http://evil.example")]).await, 403);
    assert_eq!(status("/metrics", &[("Host", "ksql-1:8090")]).await, 200, "Prometheus uses any name");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_one_id_from_client_to_decision() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let answer = read(sidecar, "k1", &[("X-Request-Id", "mine!")]).await;
    assert_eq!(answer["x-request-id"], "mine!");
    let made = read(sidecar, "k1", &[("X-Request-Id", "not sane")]).await["x-request-id"].to_str().unwrap().to_owned();
    assert!(made.len() == 32 && made != read(sidecar, "k1", &[]).await["x-request-id"].to_str().unwrap(), "{made}");
    assert_eq!(decisions(sidecar, &format!("id={made}")).await.len(), 1);
    let info = client().get(format!("http://{}/info", sidecar.client_addr())).send().await.unwrap();
    assert_eq!(info.headers()["x-request-id"].len(), 32, "whatever passes through has one");
    let refused = client()
        .post(format!("http://{}/query", sidecar.client_addr()))
        .body(json!({"ksql": "SELECT * FROM TL WHERE K IN ('k1', 'k2');", "acceptable.offset.lag": 0}).to_string());
    let refused = refused.header("X-Request-Id", "refused-1").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["x-request-id"].to_str().unwrap()), (400, "refused-1"));
    assert_eq!(decisions(sidecar, "id=refused-1&outcome=bad_demand").await.len(), 1);
    rig.stop().await;
}
