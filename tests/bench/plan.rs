//! What planning costs: a keyed query at 1,000 partitions on 10 hosts, folding what such a cluster says, and keeping a decision.
//!
//! `cargo bench`

use criterion::Criterion;
use ksqldb_sidecar::partition::{KeySchema, Partitions};
use ksqldb_sidecar::route::{Options, Traffic, locate, plan};
use ksqldb_sidecar::sql::classify;
use ksqldb_sidecar::telemetry::{Considered, Decision, Recent, Why};
use ksqldb_sidecar::view::{
    Catalogue, ClusterStatus, Evidence, HostSpec, Interval, LivenessSettings, Moment, Observation, Probe, Settings,
    TableInfo,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const HOSTS: u32 = 10;
const PARTITIONS: u32 = 1000;
const NOW: Moment = Moment::from_millis(10_000);

fn name(host: u32) -> String {
    format!("ksql-{host}:8088")
}

/// Partition `p` is active on host `p mod 10`, with a standby on the next.
fn cluster_status(update_time_ms: u64) -> String {
    let held = |host: u32, offset: u32| (0..PARTITIONS).filter(move |p| (p + offset) % HOSTS == host);
    let topics = |host, offset| {
        let list: Vec<String> = held(host, offset).map(|p| format!(r#"{{"topic":"s","partition":{p}}}"#)).collect();
        list.join(",")
    };
    let lag = |p| format!(r#""{p}":{{"currentOffsetPosition":1000,"endOffsetPosition":1000,"offsetLag":0}}"#);
    let one = |host| {
        let lags: Vec<String> = held(host, 0).chain(held(host, 1)).map(lag).collect();
        format!(
            r#""{}":{{"hostAlive":true,"lastStatusUpdateMs":1,"activeStandbyPerQuery":{{"CTAS_T_1":{{"activeStores":[],"activePartitions":[{}],"standByStores":[],"standByPartitions":[{}]}}}},"hostStoreLags":{{"stateStoreLags":{{"CTAS_T_1#Aggregate-Aggregate-Materialize":{{"lagByPartition":{{{}}},"size":1}}}},"updateTimeMs":{update_time_ms}}}}}"#,
            name(host),
            topics(host, 0),
            topics(host, 1),
            lags.join(",")
        )
    };
    format!("{{\"clusterStatus\":{{{}}}}}", (0..HOSTS).map(one).collect::<Vec<_>>().join(","))
}

fn evidence() -> Evidence {
    let liveness = LivenessSettings { missed_threshold: 2, received_threshold: 1, window: Duration::from_secs(2) };
    let mut evidence = Evidence::new(Settings { liveness, max_report_age: Duration::from_secs(60) });
    let spec =
        |host| HostSpec { name: name(host).into(), url: format!("http://{}", name(host)).into(), local: host == 0 };
    evidence.set_hosts(&(0..HOSTS).map(spec).collect::<Vec<_>>(), Moment::EPOCH);
    let table = TableInfo {
        name: "T".into(),
        key: KeySchema::parse("K STRING", "KAFKA").expect("a key"),
        query_id: "CTAS_T_1".into(),
        store: "Aggregate-Aggregate-Materialize".into(),
        source_topics: vec!["s".into()],
        partitions: Partitions::new(PARTITIONS).expect("some"),
        windowed: false,
        max_offset_lag: None,
    };
    evidence.set_catalogue(Arc::new(Catalogue { tables: vec![Arc::new(table)], ..Catalogue::default() }));
    for host in 0..HOSTS {
        evidence.probe(&name(host), Probe::Answered, NOW, NOW);
        observe(&mut evidence, &name(host), &cluster_status(1000));
    }
    evidence
}

fn observe(evidence: &mut Evidence, asked: &str, body: &str) {
    let status = ClusterStatus::parse(body.as_bytes()).expect("a status");
    let made = Interval { from: NOW, to: NOW };
    evidence.observe(&Observation { asked, status: &status, made, own_report_age: None });
}

fn benches(criterion: &mut Criterion) {
    let mut known = evidence();
    let view = known.view(NOW);
    let mut number = 0_u32;
    criterion.bench_function("classify, locate and plan a keyed query", |bencher| {
        bencher.iter(|| {
            number = number.wrapping_add(1);
            let sql = format!("SELECT * FROM T WHERE K='k{number}';");
            let statement = classify(black_box(&sql));
            let located = locate(&statement, &view).expect("located");
            let slot = view.slot(&located.table, located.partition);
            black_box(plan(&slot, &Options::default(), &view, &Traffic::default(), NOW));
        });
    });
    let mut update_time_ms = 1000;
    criterion.bench_function("read and fold a /clusterStatus", |bencher| {
        bencher.iter_batched(
            || {
                update_time_ms += 1;
                cluster_status(update_time_ms)
            },
            |body| observe(&mut known, &name(3), &body),
            criterion::BatchSize::SmallInput,
        );
    });
    criterion.bench_function("make a view", |bencher| bencher.iter(|| black_box(known.view(NOW))));
    let (recent, host) = (Recent::new(100), Arc::<str>::from("ksql-1:8088"));
    criterion.bench_function("keep a decision", |bencher| bencher.iter(|| recent.note(decision(&host), true)));
}

/// What a lookup with three replicas leaves behind.
fn decision(host: &Arc<str>) -> Decision {
    let why = Why { label: "freshest", meaning: "no replica is ahead of it" };
    let age = Some(Duration::from_millis(420));
    let replica = || Considered { host: Arc::clone(host), role: "standby", why, rejected: false, lag: Some(3), age };
    Decision {
        at: SystemTime::now(),
        request_id: "0123456789abcdef0123456789abcdef".into(),
        client: ([127, 0, 0, 1], 50_000).into(),
        class: Some("lookup"),
        slot: Some(("T".into(), 3)),
        why,
        bounds: None,
        replicas: vec![replica(), replica(), replica()],
        met: Vec::new(),
        served_by: Some(Arc::clone(host)),
        lag: Some(3),
        age,
        waited: None,
        attempts: 1,
        status: 200,
        duration: Duration::from_micros(900),
        outcome: "ok",
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    benches(&mut criterion);
    criterion.final_summary();
}
