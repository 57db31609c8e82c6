//! Scans, ranges and lists of keys over real HTTP, while servers fail: every answer is the model's rows, or an error.
//!
//! `SCATTER_QUERIES` (600) queries, spread over seeds that follow `SCATTER_SEED` (a random one). Nothing is written meanwhile, so
//! that what a query gives does not depend on when it is asked. Faults come and go with the number of queries, not with time.

mod asking;
mod parts;

use self::asking::{Clients, NAMES, Question, Way};
use crate::cluster::support::{Rig, setting};
use ksqldb_sidecar::emulator::{ClusterConfig, Fault, Phases, State, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Queries of one seed.
const EACH: u64 = 150;
const READERS: u64 = 4;

#[derive(Default)]
struct Tally {
    answered: u64,
    /// Of those that were asked, how many were begun in parts, and how many of those left to the servers' routing.
    in_parts: u64,
    passed: u64,
    refused: Vec<String>,
    violations: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn scatter() {
    let wanted = setting("SCATTER_QUERIES").unwrap_or(600);
    let first = setting("SCATTER_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let (mut all, mut seed) = (Tally::default(), first);
    while all.answered + (all.refused.len() as u64) < wanted && all.violations.is_empty() {
        let one = ask_through_faults(seed).await;
        all.answered += one.answered;
        all.in_parts += one.in_parts;
        all.passed += one.passed;
        all.refused.extend(one.refused);
        all.violations.extend(one.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
        seed += 1;
    }
    let queries = all.answered + all.refused.len() as u64;
    for refused in all.refused.iter().take(8) {
        println!("refused: {refused}");
    }
    let (in_parts, passed) = (all.in_parts, all.passed);
    println!(
        "{} answered, {} refused; {in_parts} in parts, {passed} routed by servers",
        all.answered,
        all.refused.len()
    );
    println!("scatter: {queries} queries, {} violations, seed {first}", all.violations.len());
    assert!(all.violations.is_empty(), "{:#?}", &all.violations[..all.violations.len().min(5)]);
    assert!(in_parts * 10 > queries * 9 && passed * 10 < queries, "{in_parts} in parts, {passed} routed by servers");
    assert!(all.refused.len() as u64 * 5 < queries, "too many refused: {:#?}", all.refused);
}

fn cluster(rng: &mut StdRng, seed: u64) -> ClusterConfig {
    ClusterConfig {
        seed,
        version: [Version::V0_29, Version::V8_0_1, Version::V7_4][rng.random_range(0..3)],
        servers: rng.random_range(2..4),
        partitions: rng.random_range(1..8),
        keys: rng.random_range(20..80),
        session_timeout: Duration::from_millis(700),
        lag_report_interval: Duration::from_millis(200),
        commit_interval: Duration::from_millis(100),
        phases: Phases::default().scaled(0.1),
        tables: NAMES.iter().map(|name| (*name).to_owned()).collect(),
        ..ClusterConfig::default()
    }
}

/// The queries of one seed, put to a cluster whose servers fail one after the other.
async fn ask_through_faults(seed: u64) -> Tally {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = cluster(&mut rng, seed);
    println!("seed {seed}: {:?}, {} servers, {} partitions", config.version, config.servers, config.partitions);
    let servers = config.servers;
    let settings = [
        ("REQUESTS__PATIENCE", "3s"),
        ("REQUESTS__RETRY_BUDGET_RATIO", "1.0"),
        ("HEALTH__TIMEOUT", "200ms"),
        ("LAG__POLL_INTERVAL", "100ms"),
    ];
    let rig = Arc::new(Rig::quiet(config, &settings).await);
    let clients = Arc::new(Clients::new());
    let questions: Vec<Question> = (0..40).map(|_| Question::any(&mut rng)).collect();
    let truth = Arc::new(truth(&rig, &clients, &questions).await);
    let questions = Arc::new(questions);
    let (asked, ticks) = watch::channel(0_u64);
    let asked = Arc::new(asked);
    let failing = tokio::spawn(fail(Arc::clone(&rig), servers, ticks, StdRng::seed_from_u64(seed ^ 1)));
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let (rig, clients, truth) = (Arc::clone(&rig), Arc::clone(&clients), Arc::clone(&truth));
        let (questions, asked) = (Arc::clone(&questions), Arc::clone(&asked));
        let mut rng = StdRng::seed_from_u64(seed ^ (number + 2));
        readers.spawn(async move {
            let mut tally = Tally::default();
            while *asked.borrow() < EACH {
                asked.send_modify(|count| *count += 1);
                let question = &questions[rng.random_range(0..questions.len())];
                let sidecar = &rig.sidecars[rng.random_range(0..rig.sidecars.len())];
                let base = format!("http://{}", sidecar.client_addr());
                let way = Way::any(&mut rng);
                match way.ask(&clients, &base, &question.sql).await {
                    Err(error) => tally.refused.push(format!("{} {error}", question.sql)),
                    Ok(rows) => match wrong(&rows, &truth[&question.unlimited], question.limit) {
                        None => tally.answered += 1,
                        Some(what) => tally.violations.push(format!(
                            "{} as {way:?} at {:?}: {what}",
                            question.sql,
                            rig.cluster.now()
                        )),
                    },
                }
            }
            tally
        });
    }
    let mut all = Tally::default();
    for tally in readers.join_all().await {
        all.answered += tally.answered;
        all.refused.extend(tally.refused);
        all.violations.extend(tally.violations);
    }
    for sidecar in &rig.sidecars {
        all.in_parts += sidecar.metrics().routing_decisions.with(["scatter"]).get();
        all.passed += sidecar.metrics().routing_decisions.with(["native"]).get();
    }
    for line in rig.sidecars.iter().flat_map(|sidecar| {
        let text = sidecar.metrics().encode().unwrap();
        text.lines().filter(|line| line.contains("passed_through_total{")).map(str::to_owned).collect::<Vec<_>>()
    }) {
        println!("{line}");
    }
    failing.abort();
    let _ = failing.await; // it was aborted
    let Ok(rig) = Arc::try_unwrap(rig) else { panic!("the rig is still used") };
    rig.stop().await;
    all
}

/// What each query gives without its limit: asked of a server itself, while all is well.
async fn truth(rig: &Rig, clients: &Clients, questions: &[Question]) -> HashMap<String, Vec<String>> {
    let mut truth = HashMap::new();
    let base = rig.cluster.servers()[0].url.clone();
    for question in questions {
        let rows = Way::plain().ask(clients, &base, &question.unlimited).await.unwrap();
        truth.insert(question.unlimited.clone(), rows);
    }
    truth
}

/// What is wrong with sorted rows, if anything is.
fn wrong(rows: &[String], truth: &[String], limit: Option<usize>) -> Option<String> {
    let wanted = limit.map_or(truth.len(), |limit| limit.min(truth.len()));
    if rows.len() != wanted {
        return Some(format!("{} rows instead of {wanted}: {rows:?} of {truth:?}", rows.len()));
    }
    let mut left = truth.to_vec();
    for row in rows {
        match left.iter().position(|known| known == row) {
            Some(place) => _ = left.swap_remove(place),
            None => return Some(format!("{row} is not there, or not as often")),
        }
    }
    None
}

/// One fault after the other, each for some queries, as the queries go on.
async fn fail(rig: Arc<Rig>, servers: usize, mut ticks: watch::Receiver<u64>, mut rng: StdRng) {
    loop {
        let server = rng.random_range(0..servers);
        let (fault, end) = match rng.random_range(0..10) {
            0 => (Fault::Crash(server), Fault::Start(server)),
            1 | 2 => (Fault::Close(server), Fault::Start(server)),
            3 => (Fault::Pause(server), Fault::Resume(server)),
            4 => (Fault::FreezeLagReports(server), Fault::Heal),
            5 => (Fault::CutOff { from: server, to: (server + 1) % servers }, Fault::Heal),
            6 => (Fault::Slow { server, ms: 120 }, Fault::Heal),
            7 => (Fault::Stall { server, on: true }, Fault::Heal),
            8 => (Fault::Truncate { server, on: true }, Fault::Heal),
            _ => (Fault::Wipe(server), Fault::Start(server)),
        };
        let (before, during) = (rng.random_range(5..20), rng.random_range(10..40));
        pass(&mut ticks, before).await;
        if matches!(fault, Fault::Wipe(_)) {
            rig.cluster.inject(Fault::Crash(server)); // that a running server is wiped is not seen by anybody
        }
        rig.cluster.inject(fault.clone());
        pass(&mut ticks, during).await;
        while matches!(fault, Fault::Close(_)) && rig.cluster.state(server) != Some(State::Down) {
            pass(&mut ticks, 1).await;
        }
        rig.cluster.inject(end);
        while rig.cluster.state(server) != Some(State::Ready) {
            pass(&mut ticks, 1).await;
        }
    }
}

/// Waits until so many more queries have been asked.
async fn pass(ticks: &mut watch::Receiver<u64>, queries: u64) {
    let until = *ticks.borrow_and_update() + queries;
    let _ = ticks.wait_for(|count| *count >= until).await; // the queries have ended
}

/// While keys are written to and servers come and go, a scan has every key once, and none in a state older than a bound allows.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_written_to_has_every_key_once() {
    for version in [Version::V0_29, Version::V8_0_1] {
        let config = ClusterConfig {
            version,
            session_timeout: Duration::from_secs(1),
            lag_report_interval: Duration::from_millis(200),
            commit_interval: Duration::from_millis(100),
            phases: Phases::default().scaled(0.1),
            tables: vec!["TL".into()],
            ..ClusterConfig::default()
        };
        let rig = Rig::with(config, &[("REQUESTS__PATIENCE", "3s")]).await;
        let (clients, mut answered, mut refused) = (Clients::new(), 0, Vec::new());
        let base = rig.cluster.servers()[0].url.clone();
        let known = Way::plain().ask(&clients, &base, "SELECT K FROM TL;").await.unwrap();
        for number in 0..90 {
            match number {
                10 => rig.cluster.inject(Fault::Close(1)),
                30 => rig.cluster.inject(Fault::Crash(2)),
                50 => [1, 2].into_iter().for_each(|server| rig.cluster.inject(Fault::Start(server))),
                _ => {}
            }
            let sidecar = format!("http://{}", rig.sidecars[0].client_addr());
            match Way::plain().ask(&clients, &sidecar, "SELECT K FROM TL;").await {
                Ok(keys) => {
                    assert_eq!(keys, known, "{version:?} {number}");
                    answered += 1;
                }
                Err(error) => refused.push(error),
            }
        }
        assert!(answered > 60, "{version:?}: {refused:#?}");
        rig.stop().await;
    }
}

/// Bounds hold for every partition, and the token of a scan is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_keeps_bounds_and_gives_a_token() {
    let config = ClusterConfig {
        commit_interval: Duration::from_millis(100),
        tables: vec!["TL".into()],
        ..ClusterConfig::default()
    };
    let rig = Rig::with(config, &[]).await;
    // the last: it finds the sidecars of the others at once, whose reports a bound in time needs
    let url = format!("http://{}/query", rig.sidecars[2].client_addr());
    let client = crate::cluster::support::client();
    let ask = async |sql: &str, header: &'static str, value: &str| {
        let body = serde_json::json!({"ksql": sql, "streamsProperties": {}}).to_string();
        let request = client.post(&url).header(header, value).header("X-Ksqldb-Sidecar-Wait", "9s");
        let response = request.body(body).send().await.unwrap();
        let headers = response.headers().clone();
        (response.status().as_u16(), headers, response.text().await.unwrap())
    };
    let scan = "SELECT K, V FROM TL;";
    for (header, value) in [
        ("x-ksqldb-sidecar-max-staleness", "8s"),
        ("x-ksqldb-sidecar-max-offset-lag", "500"),
        ("x-ksqldb-sidecar-level", "active"),
    ] {
        let (status, headers, body) = ask(scan, header, value).await;
        assert_eq!(status, 200, "{header}: {body}");
        assert!(headers.contains_key("x-ksqldb-sidecar-lag") && headers.contains_key("x-ksqldb-sidecar-age"));
    }
    let (status, _, body) = ask(scan, "x-ksqldb-sidecar-max-staleness", "1ms").await;
    assert!(status == 400 && body.contains("the floor is"), "{status} {body}");
    let (_, headers, _) = ask(scan, "x-ksqldb-sidecar-level", "latest").await;
    let token = headers["x-ksqldb-sidecar-token"].to_str().unwrap().to_owned();
    for sql in ["SELECT V FROM TL WHERE K='k1';", scan] {
        let (status, _, body) = ask(sql, "x-ksqldb-sidecar-token", &token).await;
        assert_eq!(status, 200, "{sql}: {body}");
    }
    rig.stop().await;
}
