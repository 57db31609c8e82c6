//! The promises about freshness over real HTTP, while one server after the other fails: what a session has read, what was
//! logged up to a bound in time, and that existing keys have rows.
//!
//! `E2E_READS` (3,000) answered reads; faults follow `E2E_SEED` (a random one), the times at which they meet the reads do not.

use super::support::{KEYS, Rig, Wrong, client, setting, settle};
use ksqldb_sidecar::emulator::{ClusterConfig, Fault, Phases, State};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const SERVERS: usize = 3;

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    refused: AtomicU64,
    ended: AtomicBool,
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_hold_over_http_whatever_fails() {
    let wanted = setting("E2E_READS").unwrap_or(3_000);
    let seed = setting("E2E_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let config = ClusterConfig {
        seed,
        session_timeout: Duration::from_secs(2),
        lag_report_interval: Duration::from_millis(300),
        commit_interval: Duration::from_millis(300),
        phases: Phases::default().scaled(0.15),
        tables: vec!["TL".into()],
        ..ClusterConfig::default()
    };
    let rig = Rig::start(config).await;
    let tally = Arc::new(Tally::default());
    let mut readers = JoinSet::new();
    for number in 0..6 {
        let addresses: Vec<SocketAddr> = rig.sidecars.iter().map(|sidecar| sidecar.client_addr()).collect();
        let reader = Reader {
            cluster: Arc::clone(&rig.cluster),
            addresses,
            client: client(),
            rng: StdRng::seed_from_u64(seed ^ number),
            tally: Arc::clone(&tally),
            token: String::new(),
            seen: HashMap::new(),
        };
        readers.spawn(reader.run(number % 2 == 0));
    }
    let mut rng = StdRng::seed_from_u64(seed);
    while tally.answered.load(Ordering::Relaxed) < wanted && !tally.ended.load(Ordering::Relaxed) {
        fail_and_heal(&rig, &mut rng).await;
    }
    tally.ended.store(true, Ordering::Relaxed);
    let violations: Vec<Wrong> = readers.join_all().await.into_iter().flatten().collect();
    let (answered, refused) = (tally.answered.load(Ordering::Relaxed), tally.refused.load(Ordering::Relaxed));
    println!("over http: {answered} reads, {} violations, {refused} refused, seed {seed}", violations.len());
    assert_eq!(violations, Vec::<Wrong>::new(), "seed {seed}");
    rig.stop().await;
}

/// One fault, and its end some seconds later, so that one current replica of everything is left.
async fn fail_and_heal(rig: &Rig, rng: &mut StdRng) {
    let server = rng.random_range(0..SERVERS);
    let (fault, end) = match rng.random_range(0..6) {
        0 => (Fault::Crash(server), Fault::Start(server)),
        1 => (Fault::Close(server), Fault::Start(server)),
        2 => (Fault::Pause(server), Fault::Resume(server)),
        3 => (Fault::FreezeLagReports(server), Fault::Heal),
        4 => (Fault::DelayReplication { server, ms: rng.random_range(200..2_000) }, Fault::Heal),
        _ => (Fault::CutOff { from: server, to: (server + 1) % SERVERS }, Fault::Heal),
    };
    let span = Duration::from_millis(rng.random_range(1_000..3_000));
    rig.cluster.inject(fault.clone());
    tokio::time::sleep(span).await;
    if matches!(fault, Fault::Close(_)) {
        settle("it has closed", || rig.cluster.state(server) == Some(State::Down)).await;
    }
    rig.cluster.inject(end);
    settle("it is back", || rig.cluster.state(server) == Some(State::Ready)).await;
    tokio::time::sleep(Duration::from_millis(rng.random_range(500..2_500))).await;
}

struct Reader {
    cluster: Arc<ksqldb_sidecar::emulator::Cluster>,
    addresses: Vec<SocketAddr>,
    client: reqwest::Client,
    rng: StdRng,
    tally: Arc<Tally>,
    token: String,
    seen: HashMap<String, i64>,
}

impl Reader {
    /// Reads in one session, or with bounds in time, until the test ends or a promise is broken.
    async fn run(mut self, in_session: bool) -> Option<Wrong> {
        while !self.tally.ended.load(Ordering::Relaxed) {
            let key = format!("k{}", self.rng.random_range(0..KEYS));
            let staleness = Duration::from_millis(self.rng.random_range(4_000..9_000));
            let begun = self.cluster.now();
            let bound = (!in_session).then_some(staleness);
            let (status, text) = self.read(&key, bound).await;
            if status == 503 && text.contains("no replica is") {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let value = serde_json::from_str::<Vec<Value>>(&text).ok().and_then(|elements| {
                elements.iter().find_map(|element| element.get("row")?.get("columns")?.get(0)?.as_i64())
            });
            let least = match in_session {
                true => self.seen.get(&key).copied(),
                false => self.cluster.logged("TL", &key.as_str().into(), begun.saturating_sub(staleness)),
            };
            let kept = value.is_some_and(|value| least.is_none_or(|least| least <= value));
            if !kept {
                self.tally.ended.store(true, Ordering::Relaxed);
                let what = format!("at {begun:?} {status} {text}; at least {least:?} was due, bound {bound:?}");
                return Some(Wrong { key, what });
            }
            self.seen.extend(value.map(|value| (key, value)));
            self.tally.answered.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    async fn read(&mut self, key: &str, staleness: Option<Duration>) -> (u16, String) {
        let address = self.addresses[self.rng.random_range(0..self.addresses.len())];
        let body = serde_json::json!({"ksql": format!("SELECT V FROM TL WHERE K='{key}';")}).to_string();
        let request = self.client.post(format!("http://{address}/query")).header("Accept", "application/json");
        let request = match staleness {
            Some(bound) => request.header("X-Ksqldb-Sidecar-Max-Staleness", format!("{}", bound.as_millis())),
            None => request.header("X-Ksqldb-Sidecar-Token", &self.token),
        };
        let response = request.header("X-Ksqldb-Sidecar-Wait", "2s").body(body).send().await.unwrap();
        let status = response.status().as_u16();
        if let Some(token) = response.headers().get("x-ksqldb-sidecar-token") {
            token.to_str().unwrap().clone_into(&mut self.token);
        }
        (status, response.text().await.unwrap())
    }
}
