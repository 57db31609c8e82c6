//! Scripted servers, a view of them, and a proxy in front: no control loops, so that nothing moves by itself.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use ksqldb_sidecar::app::install_crypto;
use ksqldb_sidecar::clock::Clock;
use ksqldb_sidecar::config::{Config, LoadOptions};
use ksqldb_sidecar::http::{
    Body, ClientSettings, ConnectionInfo, Drain, Handler, HttpClient, ReadBody, Server, ServerSettings, read_up_to,
};
use ksqldb_sidecar::partition::{KeySchema, Partitions};
use ksqldb_sidecar::proxy::{Proxy, Settings};
use ksqldb_sidecar::telemetry::Metrics;
use ksqldb_sidecar::view::{
    Catalogue, ClusterStatus, ClusterView, Evidence, HostSpec, HostState, Interval, LivenessSettings, Moment,
    Observation, Probe, Published, PullLimits, ServerVersion, TableInfo,
};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What a scripted server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

/// What a scripted server answers; a status of 0 means never.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub body: String,
    pub content_type: Option<&'static str>,
    pub after: Duration,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<String>) -> Reply {
        Reply { status, body: body.into(), content_type: None, after: Duration::ZERO }
    }

    pub fn rows(rows: &[&str]) -> Reply {
        let rows: String = rows.iter().map(|row| format!(",\n{{\"row\":{{\"columns\":{row}}}}}")).collect();
        Reply::new(200, format!("[{{\"header\":{{\"queryId\":\"q\",\"schema\":\"s\"}}}}{rows}]"))
    }

    pub fn error(status: u16, code: u32, message: &str) -> Reply {
        Reply::new(status, serde_json::json!({"@type": "e", "error_code": code, "message": message}).to_string())
    }

    pub fn after(self, after: Duration) -> Reply {
        Reply { after, ..self }
    }

    pub fn never() -> Reply {
        Reply::new(0, "")
    }
}

type Script = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// A scripted server and what it was asked so far.
#[derive(Clone)]
pub struct Fake {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    pub fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Fake {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (script, log): (Script, _) = (Arc::new(script), Arc::clone(&asked));
        let handler = move |request: Request<Body>, _: ConnectionInfo| {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            async move { answer(request, script, log).await }
        };
        Fake { address: serve(handler), asked }
    }

    /// A server whose answers the test streams itself; nothing is recorded.
    pub fn streaming(handler: impl Handler) -> Fake {
        Fake { address: serve(handler), asked: Arc::default() }
    }

    /// A server of bytes: `talk` is given each connection with its number, from 0 on; nothing is recorded.
    pub async fn raw<F>(talk: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Fake
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(talk(stream, number));
            }
        });
        Fake { address, asked: Arc::default() }
    }

    /// A server whose port refuses connections: bound, so that nobody else gets it, and never listened on.
    pub fn refusing() -> Fake {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let address = bound.local_addr().unwrap().as_socket().unwrap();
        std::mem::forget(bound);
        Fake { address, asked: Arc::default() }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn statements(&self) -> Vec<String> {
        let sql = |asked: &Asked| {
            let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap_or_default();
            body["ksql"].as_str().or(body["sql"].as_str()).unwrap_or_default().to_owned()
        };
        self.asked().iter().map(sql).collect()
    }
}

fn serve(handler: impl Handler) -> SocketAddr {
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), ServerSettings::default()).unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(Arc::new(handler), Drain::new().signal()));
    address
}

/// Waits for a condition; fails the test if it does not come true.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(what, waited).await;
}

/// Long enough for anything on this machine; only failing tests wait for it.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.unwrap_or_else(|_| panic!("{what}: not in 20 s"))
}

async fn answer(request: Request<Body>, script: Script, log: Arc<Mutex<Vec<Asked>>>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(ReadBody::Whole { bytes, .. }) = read_up_to(body, 1 << 24).await else { panic!("a body of a test") };
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let asked = Asked { path: head.uri.path().to_owned(), headers: head.headers, body };
    let reply = script(&asked);
    log.lock().unwrap().push(asked);
    if reply.status == 0 {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(reply.after).await;
    let mut response = Response::new(Body::full(Bytes::from(reply.body)));
    *response.status_mut() = http::StatusCode::from_u16(reply.status).unwrap();
    if let Some(kind) = reply.content_type {
        response.headers_mut().insert("content-type", http::HeaderValue::from_static(kind));
    }
    response
}

/// A proxy in front of fakes: the first is local and active for every key, the others are standbys, ever further behind.
pub struct Stage {
    pub client: SocketAddr,
    pub metrics: Arc<Metrics>,
    published: Arc<Published>,
    clock: Clock,
    table: TableInfo,
    version: Option<String>,
}

pub fn settings() -> Settings {
    Settings {
        concurrent_per_server: 200,
        hedge_ratio: 0.0,
        hedge_floor: Duration::from_millis(10),
        deadline: Duration::from_secs(5),
        patience: Duration::from_millis(300),
        attempt_floor: Duration::from_millis(200),
        attempt_ceiling: Duration::from_millis(200),
        retry_budget_ratio: 1.0,
        retry_budget_per_second: 100.0,
        max_inspected_body: 1 << 20,
        held_answer: 64 << 10,
        scatter: true,
        scatter_part: 64 << 10,
        scatter_memory: 1 << 20,
        prove_absence: true,
        proofs_in_flight: 64,
        proof_timeout: Duration::from_secs(3),
        table_settings: true,
        freshness: Config::load(LoadOptions::default()).unwrap().freshness,
        lag_poll_interval: Duration::from_millis(500),
        headers: true,
        client_port: 0,
    }
}

impl Stage {
    pub fn set(fakes: &[&Fake], version: Option<&str>, key: &str) -> Stage {
        Stage::with(fakes, version, key, settings())
    }

    pub fn with(fakes: &[&Fake], version: Option<&str>, key: &str, settings: Settings) -> Stage {
        Stage::on(table(key), fakes, version, settings)
    }

    /// A proxy for lookups on that table.
    pub fn on(table: TableInfo, fakes: &[&Fake], version: Option<&str>, settings: Settings) -> Stage {
        install_crypto();
        let (published, clock) = (Arc::<Published>::default(), Clock::start());
        let metrics = Arc::new(Metrics::new().unwrap());
        let client = HttpClient::new(ClientSettings::default()).unwrap();
        let (asks, _) = mpsc::channel(16);
        let proxy = Proxy::new(
            settings,
            clock,
            Arc::clone(&published),
            asks,
            client,
            (Arc::clone(&metrics), Arc::default()),
            1,
        );
        let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), ServerSettings::default()).unwrap();
        let client = server.local_addr().unwrap();
        tokio::spawn(server.serve(Arc::new(proxy), Drain::new().signal()));
        let stage = Stage { client, metrics, published, clock, table, version: version.map(str::to_owned) };
        stage.see(fakes);
        stage
    }

    /// Makes the proxy believe in these servers: the first is local and active from now on.
    pub fn see(&self, fakes: &[&Fake]) {
        let (now, addresses) = (self.clock.now(), fakes.iter().map(|fake| fake.address).collect::<Vec<_>>());
        let evidence = evidence(&addresses, 10, self.version.as_deref(), self.table.clone(), now);
        self.published.publish(evidence.view(now));
    }

    /// Makes the proxy believe that the standbys have all that the active has.
    pub fn tie(&self, fakes: &[&Fake]) {
        let (now, addresses) = (self.clock.now(), fakes.iter().map(|fake| fake.address).collect::<Vec<_>>());
        let evidence = evidence(&addresses, 0, self.version.as_deref(), self.table.clone(), now);
        self.published.publish(evidence.view(now));
    }

    /// Makes the proxy believe that the local server has set itself these limits.
    pub fn limit(&self, pull_limits: PullLimits) {
        let view = (*self.published.load()).clone();
        self.published.publish(ClusterView { pull_limits, ..view });
    }

    /// Makes the proxy believe that of the servers last seen only these are alive.
    pub fn see_only(&self, fakes: &[&Fake]) {
        let mut view = (*self.published.load()).clone();
        for host in &mut view.hosts {
            if !fakes.iter().any(|fake| fake.address.to_string() == *host.name) {
                host.state = HostState::Dead;
            }
        }
        self.published.publish(view);
    }

    /// Asks one statement on `/query`: status and body.
    pub async fn query(&self, sql: &str) -> (u16, String) {
        let body = serde_json::json!({"ksql": sql, "streamsProperties": {}}).to_string();
        let response = self.post("/query", body).await;
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The value of a counter or gauge, with its labels as Prometheus writes them; 0 if it was never touched.
    pub fn counted(&self, metric: &str) -> u64 {
        let text = self.metrics.encode().unwrap();
        let prefix = format!("ksqldb_sidecar_{metric} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).map_or(0, |value| value.parse().unwrap())
    }

    pub async fn post(&self, path: &str, body: String) -> reqwest::Response {
        self.request(path, body).send().await.unwrap()
    }

    pub fn request(&self, path: &str, body: String) -> reqwest::RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        client.post(format!("http://{}{path}", self.client)).body(body)
    }
}

/// The table `T` with that key, in one partition.
pub fn table(key: &str) -> TableInfo {
    TableInfo {
        name: "T".into(),
        key: KeySchema::parse(key, "KAFKA").unwrap(),
        query_id: "CTAS_T_1".into(),
        store: "Aggregate-Aggregate-Materialize".into(),
        source_topics: vec!["s".into()],
        partitions: Partitions::MIN,
        windowed: false,
        max_offset_lag: None,
    }
}

fn evidence(addresses: &[SocketAddr], behind: usize, version: Option<&str>, table: TableInfo, now: Moment) -> Evidence {
    let liveness = LivenessSettings { missed_threshold: 2, received_threshold: 1, window: Duration::from_secs(2) };
    let settings = ksqldb_sidecar::view::Settings { liveness, max_report_age: Duration::from_secs(60) };
    let mut evidence = Evidence::new(settings);
    let specs = addresses.iter().enumerate().map(|(place, address)| HostSpec {
        name: address.to_string().into(),
        url: format!("http://{address}").into(),
        local: place == 0,
    });
    evidence.set_hosts(&specs.collect::<Vec<_>>(), now);
    evidence.set_standby_reads(Some(true));
    evidence.set_cluster_id("kafka/ksql");
    evidence.set_catalogue(Arc::new(Catalogue { tables: vec![Arc::new(table.clone())], ..Catalogue::default() }));
    let hosts: Vec<String> = match table.partitions.get() {
        1 => addresses.iter().enumerate().map(|(place, address)| status(place, behind, address)).collect(),
        partitions => spread(partitions, addresses),
    };
    let body = format!("{{\"clusterStatus\":{{{}}}}}", hosts.join(","));
    let status = ClusterStatus::parse(body.as_bytes()).unwrap();
    for address in addresses {
        let name = address.to_string();
        evidence.probe(&name, Probe::Answered, now, now);
        if let Some(version) = version {
            evidence.set_version(&name, ServerVersion::parse(version).unwrap());
        }
        let made = Interval { from: now, to: now };
        evidence.observe(&Observation { asked: &name, status: &status, made, own_report_age: None });
    }
    evidence
}

fn status(place: usize, behind: usize, address: &SocketAddr) -> String {
    let held = r#"[{"topic":"s","partition":0}]"#;
    let (active, standby) = if place == 0 { (held, "[]") } else { ("[]", held) };
    let current = 100 - behind * place;
    format!(
        r#""{address}":{{"hostAlive":true,"lastStatusUpdateMs":1,"activeStandbyPerQuery":{{"CTAS_T_1":{{"activePartitions":{active},"standByPartitions":{standby}}}}},"hostStoreLags":{{"stateStoreLags":{{"CTAS_T_1#Aggregate-Aggregate-Materialize":{{"lagByPartition":{{"0":{{"currentOffsetPosition":{current},"endOffsetPosition":100,"offsetLag":0}}}},"size":1}}}},"updateTimeMs":1000}}}}"#
    )
}

/// Of several partitions host `p % hosts` is the active, and all others are standbys that hold everything.
fn spread(partitions: u32, addresses: &[SocketAddr]) -> Vec<String> {
    let host = |(place, address): (usize, &SocketAddr)| {
        let (active, standby): (Vec<u32>, Vec<u32>) =
            (0..partitions).partition(|partition| *partition as usize % addresses.len() == place);
        let list = |held: Vec<u32>| {
            let held = held.iter().map(|partition| format!(r#"{{"topic":"s","partition":{partition}}}"#));
            held.collect::<Vec<_>>().join(",")
        };
        let lag = |partition: u32| {
            format!(r#""{partition}":{{"currentOffsetPosition":100,"endOffsetPosition":100,"offsetLag":0}}"#)
        };
        let lags = (0..partitions).map(lag).collect::<Vec<_>>().join(",");
        let (active, standby) = (list(active), list(standby));
        format!(
            r#""{address}":{{"hostAlive":true,"lastStatusUpdateMs":1,"activeStandbyPerQuery":{{"CTAS_T_1":{{"activePartitions":[{active}],"standByPartitions":[{standby}]}}}},"hostStoreLags":{{"stateStoreLags":{{"CTAS_T_1#Aggregate-Aggregate-Materialize":{{"lagByPartition":{{{lags}}},"size":1}}}},"updateTimeMs":1000}}}}"#
        )
    };
    addresses.iter().enumerate().map(host).collect()
}
