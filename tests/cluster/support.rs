//! A cluster, its sidecars, and readers that know the truth.

use ksqldb_sidecar::app::Sidecar;
use ksqldb_sidecar::config::{Config, LoadOptions};
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Fault, write_on};
use ksqldb_sidecar::route::locate;
use ksqldb_sidecar::sql::classify;
use ksqldb_sidecar::view::ClusterView;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet};

pub const KEYS: usize = 60;

/// A read that broke a promise, with what came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    pub key: String,
    pub what: String,
}

#[derive(Debug, Default)]
pub struct Found {
    pub reads: usize,
    pub wrong: Vec<Wrong>,
    pub slowest: Duration,
}

pub struct Rig {
    pub cluster: Arc<Cluster>,
    pub sidecars: Vec<Sidecar>,
    writer: JoinHandle<()>,
}

pub struct Answer {
    pub status: u16,
    pub body: String,
    pub rows: Vec<Value>,
    pub error: bool,
}

pub fn client() -> reqwest::Client {
    ksqldb_sidecar::app::install_crypto();
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(15)).build().unwrap()
}

/// Asks one statement on `/query`.
pub async fn query(address: SocketAddr, statement: &str) -> Answer {
    ask(&client(), address, statement).await.unwrap()
}

async fn ask(client: &reqwest::Client, address: SocketAddr, statement: &str) -> reqwest::Result<Answer> {
    let body = serde_json::json!({"ksql": statement, "streamsProperties": {}}).to_string();
    let request = client.post(format!("http://{address}/query")).header("Accept", "application/vnd.ksql.v1+json");
    let response = request.body(body).send().await?;
    let status = response.status().as_u16();
    let body = response.text().await?;
    let elements: Vec<Value> = serde_json::from_str(&body).unwrap_or_default();
    let error = elements.is_empty() || elements.iter().any(|element| element.get("errorMessage").is_some());
    let rows = elements.iter().filter_map(|element| element.get("row")?.get("columns").cloned()).collect();
    Ok(Answer { status, body, rows, error })
}

/// A sidecar beside each server, with every other and its sidecar as peers; their ports are free ones. `more` are further settings.
pub async fn sidecars(servers: &[String], more: &[(&str, &str)]) -> Vec<Sidecar> {
    let is_servers = |admin: &SocketAddr| servers.iter().any(|server| server.ends_with(&format!(":{}", admin.port())));
    let free = std::iter::repeat_with(free_address).filter(|admin| !is_servers(admin));
    let admins: Vec<SocketAddr> = free.take(servers.len()).collect();
    let peers: Vec<String> = servers
        .iter()
        .zip(&admins)
        .map(|(server, admin)| format!("{{ server = \"{server}\", sidecar = \"http://{admin}\" }}"))
        .collect();
    let mut all = Vec::new();
    for (server, admin) in servers.iter().zip(&admins) {
        let set = [
            ("SERVER__URL", server.clone()),
            ("LISTEN__CLIENT", "127.0.0.1:0".to_owned()),
            ("LISTEN__ADMIN", admin.to_string()),
            ("PEERS__DISCOVERY", "static".to_owned()),
            ("PEERS__STATIC", format!("[{}]", peers.join(", "))),
        ];
        let more = more.iter().copied();
        let set: Vec<(&str, &str)> = set.iter().map(|(key, value)| (*key, value.as_str())).chain(more).collect();
        all.push(sidecar(&set).await);
    }
    all
}

/// A sidecar with these settings.
pub async fn sidecar(set: &[(&str, &str)]) -> Sidecar {
    let environment = set.iter().map(|(key, value)| (format!("KSQLDB_SIDECAR__{key}"), (*value).into()));
    let options = LoadOptions { environment: environment.collect(), ..LoadOptions::default() };
    Sidecar::start(Config::load(options).unwrap()).await.unwrap()
}

/// An address that will still be free in a moment: connections leave from 127.0.0.1 and take ports there meanwhile, so it is
/// another of the loopback's, where the system has more than that.
pub fn free_address() -> SocketAddr {
    let [a, b, c] = rand::random::<[u8; 3]>();
    let bound = std::net::TcpListener::bind((Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254)), 0));
    let bound = bound.or_else(|_| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    bound.unwrap().local_addr().unwrap()
}

impl Rig {
    /// Starts servers, a writer and a sidecar beside each server, and waits until all know of each other.
    pub async fn start(config: ClusterConfig) -> Rig {
        Rig::with(config, &[]).await
    }

    /// As [`start`](Self::start), with more settings of the sidecars.
    pub async fn with(config: ClusterConfig, more: &[(&str, &str)]) -> Rig {
        let cluster = Arc::new(Cluster::start(ClusterConfig { keys: KEYS, ..config }).await.unwrap());
        let writer = write_on(Arc::clone(&cluster), 100, KEYS);
        let servers: Vec<String> = cluster.servers().iter().map(|server| server.url.clone()).collect();
        let sidecars = sidecars(&servers, more).await;
        let rig = Rig { cluster, sidecars, writer };
        rig.complete().await;
        rig
    }

    /// As [`with`](Self::with), and nothing is ever written.
    pub async fn quiet(config: ClusterConfig, more: &[(&str, &str)]) -> Rig {
        let cluster = Arc::new(Cluster::start(config).await.unwrap());
        let servers: Vec<String> = cluster.servers().iter().map(|server| server.url.clone()).collect();
        let sidecars = sidecars(&servers, more).await;
        let rig = Rig { cluster, sidecars, writer: tokio::spawn(async {}) };
        rig.complete().await;
        rig
    }

    async fn complete(&self) {
        let all = self.cluster.servers().len();
        for sidecar in &self.sidecars {
            self.until(sidecar, "every server is found", |view| view.is_complete() && view.hosts.len() == all).await;
        }
    }

    /// Waits until a sidecar believes something.
    pub async fn until(&self, sidecar: &Sidecar, what: &str, believed: impl Fn(&ClusterView) -> bool) {
        until(sidecar, what, believed).await;
    }

    /// Writes nothing any more.
    pub fn quieten(&self) {
        self.writer.abort();
    }

    /// The partition of a key of `TL`.
    pub fn partition_of(&self, key: &str) -> u32 {
        let view = self.sidecars[0].published().load();
        let statement = format!("SELECT * FROM TL WHERE K='{key}';");
        locate(&classify(&statement), &view).unwrap().partition
    }

    /// Reads existing keys through every sidecar while the faults happen at their times, in milliseconds.
    pub async fn read_through(&self, faults: &[(u64, Fault)], span: Duration) -> Found {
        let end = Instant::now() + span;
        let mut readers = JoinSet::new();
        for (place, sidecar) in self.sidecars.iter().enumerate() {
            readers.spawn(read(sidecar.client_addr(), place * 7, end));
        }
        let begun = tokio::time::Instant::now();
        for (at, fault) in faults {
            tokio::time::sleep_until(begun + Duration::from_millis(*at)).await;
            self.cluster.inject(fault.clone());
        }
        let mut all = Found::default();
        while let Some(found) = readers.join_next().await {
            let found = found.unwrap();
            all.reads += found.reads;
            all.wrong.extend(found.wrong);
            all.slowest = all.slowest.max(found.slowest);
        }
        all.wrong.truncate(5);
        all
    }

    /// Reads as [`read_through`](Self::read_through) does, each reader carrying its token from sidecar to sidecar; gives how
    /// many reads were answered, how many refused, and those that were older than one before.
    pub async fn read_in_sessions(&self, faults: &[(u64, Fault)], span: Duration) -> (usize, usize, Vec<Wrong>) {
        let end = Instant::now() + span;
        let addresses: Vec<SocketAddr> = self.sidecars.iter().map(Sidecar::client_addr).collect();
        let mut readers = JoinSet::new();
        for reader in 0..3 {
            readers.spawn(read_in_session(addresses.clone(), reader, end));
        }
        let begun = tokio::time::Instant::now();
        for (at, fault) in faults {
            tokio::time::sleep_until(begun + Duration::from_millis(*at)).await;
            self.cluster.inject(fault.clone());
        }
        let mut all = (0, 0, Vec::new());
        while let Some(found) = readers.join_next().await {
            let (answered, refused, wrong) = found.unwrap();
            all = (all.0 + answered, all.1 + refused, [all.2, wrong].concat());
        }
        all
    }

    pub async fn stop(self) {
        self.writer.abort();
        for sidecar in self.sidecars {
            sidecar.shutdown().await;
        }
        self.cluster.end();
    }
}

/// The number in an environment variable that sizes or seeds a suite.
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Waits until the emulated cluster is as it should be.
pub async fn settle(what: &str, is: impl Fn() -> bool) {
    let settled = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), settled).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Waits until a sidecar believes something.
pub async fn until(sidecar: &Sidecar, what: &str, believed: impl Fn(&ClusterView) -> bool) {
    let mut changes = sidecar.published().changes();
    let waiting = async {
        while !believed(&sidecar.published().load()) {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn read(address: SocketAddr, offset: usize, end: Instant) -> Found {
    let client = client();
    let mut found = Found::default();
    while Instant::now() < end {
        let key = format!("k{}", (found.reads + offset) % KEYS);
        let begun = Instant::now();
        let what = match ask(&client, address, &format!("SELECT K, V FROM TL WHERE K='{key}';")).await {
            Ok(answer) if answer.status != 200 || answer.error => Some(format!("{} {}", answer.status, answer.body)),
            Ok(answer) if answer.rows.len() != 1 || answer.rows[0][0] != key.as_str() => Some(answer.body),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        found.slowest = found.slowest.max(begun.elapsed());
        found.reads += 1;
        found.wrong.extend(what.map(|what| Wrong { key, what }));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    found
}

/// The text frames of one `/ws/query` session.
pub async fn websocket(address: SocketAddr, statement: &str) -> Vec<String> {
    use futures_util::StreamExt;
    let request = serde_json::json!({"ksql": statement, "streamsProperties": {}}).to_string();
    let encoded: String = request.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let url = format!("ws://{address}/ws/query?request={encoded}");
    let (socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    let frames = socket.filter_map(|frame| async move { frame.ok()?.into_text().ok().map(|text| text.to_string()) });
    frames.filter(|text| std::future::ready(!text.is_empty())).take(3).collect().await
}

async fn read_in_session(addresses: Vec<SocketAddr>, reader: usize, end: Instant) -> (usize, usize, Vec<Wrong>) {
    let (client, mut token) = (client(), String::new());
    let mut seen = std::collections::HashMap::<String, i64>::new();
    let (mut answered, mut refused, mut wrong) = (0, 0, Vec::new());
    let mut number = reader;
    while Instant::now() < end {
        number += 1;
        let (key, address) = (format!("k{}", number % 12), addresses[number % addresses.len()]);
        let body = serde_json::json!({"ksql": format!("SELECT V FROM TL WHERE K='{key}';"), "read.after": token});
        let request = client.post(format!("http://{address}/query")).header("Accept", "application/vnd.ksql.v1+json");
        let response = request.header("X-Ksqldb-Sidecar-Wait", "3s").body(body.to_string()).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        if status == 503 && text.contains("as new as what the token has seen") {
            refused += 1;
            continue;
        }
        let value = serde_json::from_str::<Vec<Value>>(&text).ok().and_then(|elements| {
            elements.iter().find_map(|element| element.get("row")?.get("columns")?.get(0)?.as_i64())
        });
        answered += 1;
        match value {
            Some(value) if seen.get(&key).is_none_or(|seen| *seen <= value) => _ = seen.insert(key, value),
            _ => wrong.push(Wrong { key: key.clone(), what: format!("{status} {text}, had {:?}", seen.get(&key)) }),
        }
        if let Some(next) = headers.get("x-ksqldb-sidecar-token") {
            next.to_str().unwrap().clone_into(&mut token);
        }
    }
    wrong.truncate(5);
    (answered, refused, wrong)
}
