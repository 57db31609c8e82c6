//! Pinned requests: their forms, their refusals, and the proofs of absence that rest on them.

use super::client::{Got, pin, query, send};
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig};
use serde_json::{Value, json};

const SKIP: &str = "request.ksql.query.pull.skip.forwarding";
const PARTITION: &str = "request.ksql.query.pull.partition";

async fn cluster() -> Cluster {
    Cluster::start(ClusterConfig::default()).await.unwrap()
}

fn rows(got: &Got) -> Vec<Value> {
    let all: Value = serde_json::from_str(&got.body).unwrap_or_else(|e| panic!("{e}: {got:?}"));
    all.as_array().unwrap().iter().skip(1).map(|r| r["row"]["columns"].clone()).collect()
}

async fn stream(url: &str, request: Value) -> Got {
    let body = json!({"sql": "SELECT K FROM TL WHERE K='k1';", "properties": {}, "requestProperties": request});
    send("POST", &format!("{url}/query-stream"), &[], body.to_string().into_bytes()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_endpoint_takes_its_own_forms() {
    let cluster = cluster().await;
    let url = &cluster.servers()[0].url;
    let sql = "SELECT K FROM TL WHERE K='k1';";
    for partition in [json!("5"), json!("5,0"), json!(5), json!(["5", "0"])] {
        let got = query(url, sql, json!({SKIP: "true", PARTITION: partition})).await.unwrap();
        assert_eq!(rows(&got), [json!(["k1"])], "{partition}");
    }
    assert_eq!(query(url, sql, json!({SKIP: 1, PARTITION: "5"})).await.unwrap().status, 500);
    assert_eq!(query(url, sql, json!({"request.ksql.nope": 1, "x": 1})).await.unwrap().status, 500);
    assert_eq!(stream(url, json!({SKIP: true, PARTITION: ["5", "0"]})).await.status, 200);
    for bad in [json!({SKIP: "true"}), json!({SKIP: true, PARTITION: "5"}), json!({SKIP: true, PARTITION: [5]})] {
        let got = stream(url, bad).await;
        assert!(got.status == 400 && got.body.contains("cannot be cast to class"), "{got:?}");
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pins_of_all_partitions_give_the_native_answer_and_nothing_twice() {
    let cluster = cluster().await;
    for sql in
        ["SELECT K FROM TL;", "SELECT K FROM TL WHERE K>='k4';", "SELECT K FROM TL WHERE K IN ('k1','k2','k3','nope');"]
    {
        let native = rows(&query(&cluster.servers()[1].url, sql, json!({})).await.unwrap());
        let mut pinned = Vec::new();
        for partition in 0..6 {
            let (active, standbys) = cluster.holders("TL", partition).unwrap();
            let at_active = rows(&query(&cluster.servers()[active].url, sql, pin(partition)).await.unwrap());
            let at_standby = rows(&query(&cluster.servers()[standbys[0]].url, sql, pin(partition)).await.unwrap());
            assert_eq!(at_active, at_standby);
            pinned.extend(at_active);
        }
        let text = |rows: Vec<Value>| {
            let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
            rows.sort();
            rows
        };
        assert_eq!(text(pinned), text(native), "{sql}");
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn absence_is_proven_by_a_range_and_by_canaries() {
    let cluster = cluster().await;
    let url = &cluster.servers()[0].url;
    // k1 is in partition 5, and so are k16, k22, k26 and others; `k15zz` would be there too if it existed.
    let range = |key: &str| format!("SELECT K FROM TL WHERE K >= '{key}' LIMIT 1;");
    assert_eq!(rows(&query(url, &range("k16"), pin(5)).await.unwrap()), [json!(["k16"])]);
    assert_eq!(rows(&query(url, &range("k15zz"), pin(5)).await.unwrap()), [json!(["k16"])]);
    assert_eq!(rows(&query(url, &range("zzz"), pin(5)).await.unwrap()), Vec::<Value>::new());
    let canaries = "SELECT K FROM TL WHERE K IN ('absent','k1','k16');";
    assert_eq!(rows(&query(url, canaries, pin(5)).await.unwrap()).len(), 2);
    // Not for other types: the range of an INT key is a scan in the order of its bytes.
    let found =
        rows(&query(&cluster.servers()[0].url, "SELECT ID FROM TI WHERE ID >= -1 LIMIT 1;", json!({})).await.unwrap());
    assert_ne!(found, [json!([-1])]);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_writer_takes_its_time_for_an_empty_answer() {
    let cluster = cluster().await;
    let body = json!({
        "ksql": "SELECT K FROM TL WHERE K='absent';",
        "streamsProperties": {"ksql.endpoint.migrate.query": false}
    });
    let began = std::time::Instant::now();
    let url = format!("{}/query", cluster.servers()[0].url);
    let got = send("POST", &url, &[], body.to_string().into_bytes()).await.unwrap();
    assert!(rows(&got).is_empty() && began.elapsed().as_millis() >= 1000);
    assert_eq!(got.headers["content-type"], "application/json");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn struct_windowed_join_and_several_column_keys_are_found() {
    let cluster = cluster().await;
    let url = &cluster.servers()[2].url;
    for (sql, expected) in [
        ("SELECT C FROM TST WHERE ID=STRUCT(A:=1,B:='b1');", json!([1])),
        ("SELECT C FROM TM WHERE A='a1' AND B=1;", json!([1])),
        ("SELECT C FROM TM WHERE (A='a1' AND B=1) OR (A='nope' AND B=2);", json!([1])),
        ("SELECT C FROM TM2 WHERE A='a-1' AND B=-1;", json!([1])),
        ("SELECT C FROM TW WHERE K='k1' AND WINDOWSTART > 1000;", json!([1])),
        ("SELECT K, C, V FROM JT WHERE K='k2';", json!(["k2", 1, 2])),
        ("SELECT V FROM SSRC WHERE K='k2';", json!([2])),
        ("SELECT C FROM TD WHERE ID=3;", json!([1])),
        ("SELECT C FROM TB WHERE ID=-5;", json!([1])),
    ] {
        let got = query(url, sql, json!({})).await.unwrap();
        assert_eq!(rows(&got), [expected], "{sql}");
    }
    cluster.shutdown().await;
}
