//! Faults at random times, alone and in pairs, while reads go through every sidecar and, for comparison, to every server.
//!
//! `CHAOS_SEEDS` (4) runs, from seed `CHAOS_SEED` (a random one) on. Each run has one fault of the list in turn, and half of
//! them a second one that leaves a current replica. The faults and their times follow the seed; how they meet the reads does
//! not. Times of detection, failures and the slowest read are reported for each fault, beside the servers' own.

use crate::cluster::support::{KEYS, Rig, Wrong, client, setting, settle};
use ksqldb_sidecar::app::Sidecar;
use ksqldb_sidecar::emulator::{ClusterConfig, Fault, Phases, State};
use ksqldb_sidecar::view::{ClusterView, HostState};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const SERVERS: usize = 3;

/// Real phases last this much longer than here.
const SCALE: f64 = 0.15;

/// A read fails here if it is not answered within this; the sidecars' own deadline is 10 s.
const HUNG: Duration = Duration::from_secs(12);

/// What reads of one kind met.
#[derive(Debug, Default)]
struct Met {
    reads: u64,
    failed: Vec<Wrong>,
    wrong: Vec<Wrong>,
    slowest: Duration,
    /// Reads that a person would notice: how long, when, and the sidecar's decision.
    slow: Vec<String>,
}

/// Longer than clients are to notice.
const SLOW: Duration = Duration::from_millis(250);

impl Met {
    fn add(&mut self, other: Met) {
        self.reads += other.reads;
        self.failed.extend(other.failed);
        self.wrong.extend(other.wrong);
        self.slowest = self.slowest.max(other.slowest);
        self.slow.extend(other.slow);
    }
}

/// All runs with one fault.
#[derive(Debug, Default)]
struct Report {
    sidecars: Met,
    servers: Met,
    detections: Vec<Duration>,
    attempts: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos() {
    let runs = setting("CHAOS_SEEDS").unwrap_or(4);
    let first = setting("CHAOS_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let mut reports: BTreeMap<&'static str, Report> = BTreeMap::new();
    for seed in (0..runs).map(|run| first.wrapping_add(run)) {
        let (name, report) = run(seed).await;
        let known = reports.entry(name).or_default();
        known.attempts += report.attempts;
        known.detections.extend(report.detections);
        known.servers.add(report.servers);
        known.sidecars.add(report.sidecars);
    }
    let mut all = Met::default();
    println!(
        "fault          reads failed wrong slowest  seen p50/p99/max ms  attempts per read | servers: failed wrong slowest"
    );
    for (name, Report { sidecars, servers, mut detections, attempts }) in reports {
        detections.sort();
        let seen = |share: usize| {
            detections.get(detections.len().saturating_sub(1) * share / 100).map_or(0, |d| d.as_millis())
        };
        println!(
            "{name:14} {:5} {:6} {:5} {:7}  {:>5}/{}/{}  {:17.3} | {:15} {:5} {:7}",
            sidecars.reads,
            sidecars.failed.len(),
            sidecars.wrong.len(),
            sidecars.slowest.as_millis(),
            seen(50),
            seen(99),
            seen(100),
            attempts as f64 / sidecars.reads.max(1) as f64,
            servers.failed.len(),
            servers.wrong.len(),
            servers.slowest.as_millis(),
        );
        sidecars.slow.iter().take(10).for_each(|slow| println!("    {slow}"));
        all.add(sidecars);
    }
    println!(
        "chaos: {} reads, {} failed, {} wrong, slowest {} ms, seed {first}",
        all.reads,
        all.failed.len(),
        all.wrong.len(),
        all.slowest.as_millis()
    );
    all.failed.truncate(5);
    assert_eq!((all.failed, all.wrong), (Vec::new(), Vec::new()), "seed {first}");
    assert!(all.slowest < Duration::from_secs(10), "a read exceeded its deadline: {:?}, seed {first}", all.slowest);
}

/// The faults, their ends, and whether sidecars must find them out.
fn fault(kind: u64, server: usize, rng: &mut StdRng) -> (&'static str, Fault, Fault, bool) {
    let other = (server + 1) % SERVERS;
    match kind % 10 {
        0 => ("crash", Fault::Crash(server), Fault::Start(server), true),
        1 => ("freeze", Fault::Pause(server), Fault::Resume(server), true),
        2 => ("roll", Fault::Close(server), Fault::Start(server), false),
        3 => ("cut off", Fault::CutOff { from: server, to: other }, Fault::Heal, false),
        4 => ("slow", Fault::Slow { server, ms: rng.random_range(100..400) }, Fault::Heal, false),
        5 => ("stall", Fault::Stall { server, on: true }, Fault::Heal, false),
        6 => ("truncate", Fault::Truncate { server, on: true }, Fault::Heal, false),
        7 => ("frozen lags", Fault::FreezeLagReports(server), Fault::Heal, false),
        8 => ("ghost", Fault::GhostHost("ghost:8088".into()), Fault::Heal, false),
        _ => ("clock", Fault::ClockSkew { server, ms: 3_600_000 }, Fault::Heal, false),
    }
}

async fn run(seed: u64) -> (&'static str, Report) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = ClusterConfig {
        seed,
        session_timeout: Duration::from_secs(2),
        lag_report_interval: Duration::from_millis(500),
        phases: Phases::default().scaled(SCALE),
        tables: vec!["TL".into()],
        ..ClusterConfig::default()
    };
    let rig = Rig::start(config).await;
    let ended = Arc::new(AtomicBool::new(false));
    let (mut through, mut native) = (JoinSet::new(), JoinSet::new());
    for (place, sidecar) in rig.sidecars.iter().enumerate() {
        through.spawn(read(sidecar.client_addr(), Some(sidecar.admin_addr()), place, Arc::clone(&ended)));
    }
    for (place, server) in rig.cluster.servers().iter().enumerate() {
        let address = server.url.trim_start_matches("http://").parse().unwrap();
        native.spawn(read(address, None, place, Arc::clone(&ended)));
    }
    let before = attempts(&rig);
    pause(rng.random_range(200..800)).await;

    let server = rng.random_range(0..SERVERS);
    let (name, begin, end, found_out) = fault(seed, server, &mut rng);
    let second = rng.random_bool(0.5).then(|| fault(rng.random_range(7..10), (server + 1) % SERVERS, &mut rng));
    if let Some((_, second, _, _)) = second {
        rig.cluster.inject(second);
        pause(rng.random_range(0..300)).await;
    }
    let detections = if found_out { detect(&rig, server, begin.clone()).await } else { Vec::new() };
    if !found_out {
        rig.cluster.inject(begin.clone());
    }
    pause(rng.random_range(1_000..3_000)).await;
    if matches!(begin, Fault::Close(_)) {
        settle("it has closed", || rig.cluster.state(server) == Some(State::Down)).await;
    }
    rig.cluster.inject(Fault::Heal);
    rig.cluster.inject(end);
    settle("it is back", || rig.cluster.state(server) == Some(State::Ready)).await;
    pause(rng.random_range(500..2_000)).await;
    ended.store(true, Ordering::Relaxed);

    let mut report = Report { detections, ..Report::default() };
    through.join_all().await.into_iter().for_each(|met| report.sidecars.add(met));
    native.join_all().await.into_iter().for_each(|met| report.servers.add(met));
    report.attempts = attempts(&rig) - before;
    rig.stop().await;
    (name, report)
}

/// Begins a fault of a server and gives how long each sidecar took until it chose the server last, or not at all.
async fn detect(rig: &Rig, server: usize, fault: Fault) -> Vec<Duration> {
    let name = rig.sidecars[server].published().load().local().unwrap().1.name.to_string();
    let unfit = |view: &ClusterView| {
        view.hosts.iter().any(|host| *host.name == *name && (host.state != HostState::Live || host.suspected.is_some()))
    };
    let begun = Instant::now();
    rig.cluster.inject(fault);
    let watch = |sidecar| async move {
        rig.until(sidecar, "the fault is seen", unfit).await;
        begun.elapsed()
    };
    futures_util::future::join_all(rig.sidecars.iter().map(watch)).await
}

/// Attempts at servers that the sidecars have made, proofs apart.
fn attempts(rig: &Rig) -> u64 {
    let of = |sidecar: &Sidecar| {
        let text = sidecar.metrics().encode().unwrap();
        let lines = text.lines().filter(|line| line.starts_with("ksqldb_sidecar_attempts_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    rig.sidecars.iter().map(of).sum()
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Reads keys that exist, about 170 a second.
async fn read(address: SocketAddr, admin: Option<SocketAddr>, place: usize, ended: Arc<AtomicBool>) -> Met {
    let (client, mut met, started) = (client(), Met::default(), Instant::now());
    while !ended.load(Ordering::Relaxed) {
        let key = format!("k{}", (met.reads as usize + place * 7) % KEYS);
        let begun = Instant::now();
        let outcome = tokio::time::timeout(HUNG, ask(&client, address, &key)).await.unwrap_or(Err("hung".into()));
        let took = begun.elapsed();
        met.slowest = met.slowest.max(took);
        met.reads += 1;
        if let (Ok((_, id)), Some(admin)) = (&outcome, admin.filter(|_| took > SLOW)) {
            let at = started.elapsed().as_millis();
            let told = client.get(format!("http://{admin}/decisions?id={id}")).send().await.unwrap();
            let told: Value = serde_json::from_str(&told.text().await.unwrap()).unwrap();
            let (met_there, because) = (&told["decisions"][0]["met"], &told["decisions"][0]["because"]);
            let why = format!("{because}, after {met_there}");
            met.slow.push(format!("{} ms, {at} ms after the start, at reader {place}: {why}", took.as_millis()));
        }
        match outcome.map(|(rows, _)| rows) {
            Ok(rows) if rows.len() == 1 && rows[0][0] == key.as_str() => {}
            Ok(rows) => met.wrong.push(Wrong { key, what: format!("{rows:?}") }),
            Err(what) => met.failed.push(Wrong { key, what }),
        }
        pause(5).await;
    }
    met
}

/// The rows of a key and the request's id, or what failed.
async fn ask(client: &reqwest::Client, address: SocketAddr, key: &str) -> Result<(Vec<Value>, String), String> {
    let body = serde_json::json!({"ksql": format!("SELECT K, V FROM TL WHERE K='{key}';"), "streamsProperties": {}});
    let request = client.post(format!("http://{address}/query")).header("Accept", "application/vnd.ksql.v1+json");
    let response = request.body(body.to_string()).send().await.map_err(|error| format!("{error:?}"))?;
    let status = response.status();
    let id = response.headers().get("x-request-id").map_or_else(String::new, |id| id.to_str().unwrap().to_owned());
    let text = response.text().await.map_err(|error| format!("{error:?}"))?;
    let elements: Vec<Value> = serde_json::from_str(&text).map_err(|_| format!("{status} {text}"))?;
    if status != 200 || elements.iter().any(|element| element.get("errorMessage").is_some()) {
        return Err(format!("{status} {text}"));
    }
    let rows = elements.iter().filter_map(|element| element.get("row")?.get("columns").cloned());
    Ok((rows.collect(), id))
}
