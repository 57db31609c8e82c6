//! For whoever wants to qualify a cluster: sidecars in front of real servers, whose answers must equal the servers' own.
//!
//! `KSQLDB_SERVERS=http://a:8088,http://b:8088 cargo test --release real_cluster -- --ignored --nocapture`
//!
//! Makes a stream and a table with a prefix of its own, and removes them. With `KSQLDB_TABLE=NAME` an existing table with one
//! STRING key column `K` is read instead, and nothing is made. No server is stopped.

use crate::cluster::support::sidecars;
use ksqldb_sidecar::app::{Sidecar, install_crypto};
use serde_json::{Value, json};
use std::time::Duration;

const KEYS: usize = 30;
const PATIENCE: Duration = Duration::from_secs(120);

struct Cluster {
    servers: Vec<String>,
    client: reqwest::Client,
}

impl Cluster {
    async fn statement(&self, sql: &str) -> Value {
        let response = self.client.post(format!("{}/ksql", self.servers[0])).body(json!({"ksql": sql}).to_string());
        let response = response.send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{sql}: {body}");
        body
    }

    /// Asks a pull query: status and the rows, sorted, as text.
    async fn pull(&self, url: &str, endpoint: &str, accept: &str, sql: &str) -> (u16, Vec<String>) {
        let member = if endpoint == "/query" { "ksql" } else { "sql" };
        let request = self.client.post(format!("{url}{endpoint}")).header("Accept", accept);
        let response = request.body(json!({member: sql}).to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, rows(&response.text().await.unwrap()))
    }
}

/// The rows of an answer of any format.
fn rows(body: &str) -> Vec<String> {
    let elements: Vec<Value> = match serde_json::from_str::<Vec<Value>>(body) {
        Ok(elements) => elements,
        Err(_) => body.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    let row = |element: &Value| match element {
        Value::Array(_) => Some(element.to_string()),
        other => other.get("row").map(|row| row["columns"].to_string()),
    };
    let mut rows: Vec<String> = elements.iter().filter_map(row).collect();
    rows.sort();
    rows
}

/// Waits until every sidecar routes lookups on the table.
async fn routable(sidecars: &[Sidecar], table: &str) {
    for sidecar in sidecars {
        let mut changes = sidecar.published().changes();
        while !sidecar.published().load().tables.contains_key(table) {
            changes.changed().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs KSQLDB_SERVERS"]
async fn real_cluster() {
    install_crypto();
    let servers = std::env::var("KSQLDB_SERVERS").expect("KSQLDB_SERVERS=http://a:8088,http://b:8088,...");
    let servers: Vec<String> = servers.split(',').map(|url| url.trim().trim_end_matches('/').to_owned()).collect();
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
    let cluster = Cluster { servers, client };
    let existing = std::env::var("KSQLDB_TABLE").ok();
    let (stream, table) = match &existing {
        Some(table) => (String::new(), table.clone()),
        None => make(&cluster).await,
    };
    let sidecars = sidecars(&cluster.servers, &[]).await;
    tokio::time::timeout(PATIENCE, routable(&sidecars, &table)).await.expect("the table becomes routable");
    let keys = keys(&cluster, &table).await;
    let outcome = compare(&cluster, &sidecars, &table, &keys).await;
    for sidecar in sidecars {
        sidecar.shutdown().await;
    }
    if existing.is_none() {
        cluster.statement(&format!("DROP TABLE {table} DELETE TOPIC;")).await;
        cluster.statement(&format!("DROP STREAM {stream} DELETE TOPIC;")).await;
    }
    println!("real_cluster: {} comparisons, {} differences", outcome.0, outcome.1.len());
    assert_eq!(outcome.1, Vec::<String>::new());
}

async fn make(cluster: &Cluster) -> (String, String) {
    let prefix = format!("SIDECAR_TEST_{:08X}", rand::random::<u32>());
    let (stream, table) = (format!("{prefix}_S"), format!("{prefix}_T"));
    cluster
        .statement(&format!(
            "CREATE STREAM {stream} (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{stream}', PARTITIONS=6, VALUE_FORMAT='JSON');"
        ))
        .await;
    cluster
        .statement(&format!(
            "CREATE TABLE {table} AS SELECT K, LATEST_BY_OFFSET(V) V FROM {stream} GROUP BY K EMIT CHANGES;"
        ))
        .await;
    for key in 0..KEYS {
        cluster.statement(&format!("INSERT INTO {stream} (K, V) VALUES ('k{key}', {key});")).await;
    }
    (stream, table)
}

/// The keys of the table, once the servers themselves find as many as were written, or any of an existing table.
async fn keys(cluster: &Cluster, table: &str) -> Vec<String> {
    let all = async {
        loop {
            let sql = format!("SELECT K FROM {table} LIMIT {KEYS};");
            let (_, rows) = cluster.pull(&cluster.servers[0], "/query", "application/vnd.ksql.v1+json", &sql).await;
            let keys = rows.iter().filter_map(|row| serde_json::from_str::<Vec<String>>(row).ok()?.pop());
            let keys: Vec<String> = keys.collect();
            if keys.len() == KEYS {
                return keys;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("the rows appear")
}

/// Every statement in every format, through every sidecar and at its server.
async fn compare(cluster: &Cluster, sidecars: &[Sidecar], table: &str, keys: &[String]) -> (usize, Vec<String>) {
    const FORMATS: [(&str, &str); 5] = [
        ("/query", "application/vnd.ksql.v1+json"),
        ("/query", "application/vnd.ksqlapi.delimited.v1"),
        ("/query-stream", "application/vnd.ksql.v1+json"),
        ("/query-stream", "application/vnd.ksqlapi.delimited.v1"),
        ("/query-stream", "application/json"),
    ];
    let mut statements: Vec<String> =
        keys.iter().map(|key| format!("SELECT K FROM {table} WHERE K='{key}';")).collect();
    statements.extend([
        format!("SELECT K FROM {table} WHERE K='no such key';"),
        format!("SELECT K FROM {table} WHERE '{}' = K;", keys[0]),
        format!("SELECT K FROM {table} WHERE K IN ('{}', '{}');", keys[0], keys[1]),
        format!("SELECT K FROM {table} WHERE K >= '{}' AND K < '{0}a';", keys[2]),
        format!("select k from {} where k = '{}'; -- comment", table.to_lowercase(), keys[3]),
        format!("SELECT NOPE FROM {table} WHERE K='x';"),
        "SELECT * FROM NO_SUCH_TABLE WHERE K='x';".to_owned(),
    ]);
    let (mut compared, mut differences) = (0, Vec::new());
    for (server, sidecar) in cluster.servers.iter().zip(sidecars) {
        let through = format!("http://{}", sidecar.client_addr());
        for (endpoint, accept) in FORMATS {
            for sql in &statements {
                let native = cluster.pull(server, endpoint, accept, sql).await;
                let routed = cluster.pull(&through, endpoint, accept, sql).await;
                compared += 1;
                if native != routed {
                    differences.push(format!("{endpoint} {accept} {sql}: native {native:?}, through {routed:?}"));
                }
            }
        }
    }
    (compared, differences)
}
