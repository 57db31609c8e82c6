use super::super::code::*;
use super::super::facts::{
    ClockFact, Facts, Lookups, PartitionFacts, PassCause, ProbeFact, Reach, Reports, RoutedTable, ServerFacts,
    StandbyFact, TableFacts,
};
use super::*;

/// The settings of a healthy server, as far as findings look at them.
const SETTINGS: [(&str, &str); 8] = [
    ("ksql.streams.state.dir", "/var/lib/kafka-streams"),
    ("ksql.query.pull.enable.standby.reads", "true"),
    ("ksql.streams.num.standby.replicas", "1"),
    ("ksql.streams.commit.interval.ms", "2000"),
    ("ksql.query.pull.max.qps", "2147483647"),
    ("ksql.query.pull.max.concurrent.requests", "2147483647"),
    ("ksql.query.pull.thread.pool.size", "50"),
    ("ksql.query.pull.router.thread.pool.size", "50"),
];

fn server(name: &str) -> ServerFacts {
    ServerFacts {
        name: name.to_owned(),
        url: format!("http://{name}"),
        alive: Some(true),
        placed: true,
        heartbeats: Some(true),
        version: Some("0.29.0".to_owned()),
        properties: SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        clock: Some(ClockFact { ahead_ms: 5, within_ms: 210 }),
        ..ServerFacts::default()
    }
}

fn routed() -> RoutedTable {
    let standby = StandbyFact { host: "b:1".to_owned(), lag: Some(3), overdue: Some(0) };
    let probe = |host: &str, active| ProbeFact { host: host.to_owned(), active, refused: None };
    RoutedTable {
        key: "K STRING (KAFKA)".to_owned(),
        partitions: 1,
        placement: vec![PartitionFacts { active: Some("a:1".to_owned()), standbys: vec![standby] }],
        probes: vec![probe("a:1", true), probe("b:1", false)],
        ..RoutedTable::default()
    }
}

fn table(name: &str, lookups: Lookups) -> TableFacts {
    TableFacts { name: name.to_owned(), lookups }
}

fn healthy() -> Facts {
    Facts {
        servers: ["a:1", "b:1", "c:1"].map(server).into(),
        reports: Reports { any: true, interval_ms: Some(1000), watched_ms: 2000, silent: Vec::new() },
        tables: vec![table("T", Lookups::Routed(routed()))],
        tables_error: None,
        poll_interval_ms: 500,
    }
}

/// What is found in a healthy cluster after a change.
fn found(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
    let mut facts = healthy();
    change(&mut facts);
    findings(&facts).iter().map(|finding| finding.code.name).collect()
}

fn set(name: &'static str, value: &'static str) -> impl FnOnce(&mut Facts) {
    move |facts| _ = facts.servers[1].properties.insert(name.to_owned(), value.to_owned())
}

fn change_table(facts: &mut Facts, change: impl FnOnce(&mut RoutedTable)) {
    let mut changed = routed();
    change(&mut changed);
    facts.tables = vec![table("T", Lookups::Routed(changed))];
}

type Change = Box<dyn FnOnce(&mut Facts)>;

fn change(change: impl FnOnce(&mut Facts) + 'static) -> Change {
    Box::new(change)
}

/// Every code, with a change of healthy facts that gives it and no other.
fn cases() -> Vec<(Code, Change)> {
    let failed = |alive: bool, placed: bool| {
        change(move |f| {
            let reach = Reach::Failed("connection refused".to_owned());
            let down = ServerFacts { reach, alive: Some(alive), placed, ..server("d:1") };
            f.servers.push(ServerFacts { version: None, clock: None, heartbeats: None, ..down });
        })
    };
    let passed = |cause: PassCause| change(move |f| f.tables.push(table("P", Lookups::PassedThrough(cause))));
    let words = "by these words".to_owned();
    let ahead = |server: usize, ahead_ms| {
        change(move |f| f.servers[server].clock = Some(ClockFact { ahead_ms, within_ms: 210 }))
    };
    vec![
        (SERVER_DOWN, failed(false, true)),
        (GHOST_HOST, failed(false, false)),
        (NAME_NOT_ROUTABLE, failed(true, true)),
        (DECLARED_DEAD, change(|f| f.servers[2].alive = Some(false))),
        (CLOCK_SKEW, ahead(2, 3_600_000)),
        (CLOCK_SKEW, ahead(0, -5_000)),
        (
            CLOCK_HERE,
            change(|f| f.servers.iter_mut().for_each(|s| s.clock = Some(ClockFact { ahead_ms: -9000, within_ms: 9 }))),
        ),
        (NAME_SHARED, change(|f| f.servers.push(ServerFacts { url: "http://d:1".to_owned(), ..server("a:1") }))),
        (NAME_TAKEN, change(|f| f.servers[2].reach = Reach::AnsweredAs("a:1".to_owned()))),
        (ADVERTISED_LOCAL, change(|f| f.servers[0].name = "localhost:1".to_owned())),
        (ADVERTISED_LOCAL, change(|f| f.servers[0].name = "[::]:1".to_owned())),
        (VERSION_CANNOT_PIN, change(|f| f.servers.iter_mut().for_each(|s| s.version = Some("0.10.0".to_owned())))),
        (PINS_UNCHECKED, change(|f| f.servers.iter_mut().for_each(|s| s.version = Some("7.2.1".to_owned())))),
        (VERSIONS_MIXED, change(|f| f.servers[1].version = Some("7.5.1".to_owned()))),
        (PULL_QUERIES_DISABLED, change(set("ksql.pull.queries.enable", "false"))),
        (LAG_REPORTS_FROZEN, change(|f| f.reports.silent.push("b:1".to_owned()))),
        (PIN_REFUSED, change(|f| change_table(f, |t| t.probes[1].refused = Some("no".to_owned())))),
        (
            HEARTBEATS_OFF,
            change(|f| {
                f.servers.iter_mut().for_each(|s| (s.heartbeats, s.alive, s.placed) = (Some(false), None, false));
                f.reports = Reports::default();
                change_table(f, |t| t.placement.clear());
            }),
        ),
        (LAG_REPORTS_OFF, change(|f| f.reports = Reports::default())),
        (LAG_INTERVAL_LONG, change(|f| f.reports.interval_ms = Some(5000))),
        (LAG_INTERVAL_LONG, change(|f| (f.reports.interval_ms, f.reports.watched_ms) = (None, 12_000))),
        (STANDBY_READS_OFF, change(set("ksql.query.pull.enable.standby.reads", "false"))),
        (STANDBY_REPLICAS_NONE, change(set("ksql.streams.num.standby.replicas", "0"))),
        (STANDBY_REPLICAS_UNPLACED, change(set("ksql.streams.num.standby.replicas", "3"))),
        (STANDBY_REPLICAS_UNPLACED, change(|f| change_table(f, |t| t.placement[0].standbys.clear()))),
        (STANDBY_BEHIND, change(|f| change_table(f, |t| t.placement[0].standbys[0].overdue = Some(7)))),
        (COMMIT_INTERVAL_LONG, change(set("ksql.streams.commit.interval.ms", "2001"))),
        (SINGLE_SERVER, change(|f| f.servers.truncate(1))),
        (PULL_RATE_LIMITED, change(set("ksql.query.pull.max.qps", "999"))),
        (PULL_CONCURRENCY_LIMITED, change(set("ksql.query.pull.max.concurrent.requests", "49"))),
        (PULL_THREADS_FEW, change(set("ksql.query.pull.thread.pool.size", "19"))),
        (PULL_THREADS_FEW, change(set("ksql.query.pull.router.thread.pool.size", "1"))),
        (STATE_DIRECTORY_TEMPORARY, change(set("ksql.streams.state.dir", "/tmp/kafka-streams"))),
        (STATE_DIRECTORY_UNSET, change(|f| _ = f.servers[2].properties.remove("ksql.streams.state.dir"))),
        (TABLES_UNKNOWN, change(|f| (f.tables, f.tables_error) = (Vec::new(), Some("too large".to_owned())))),
        (HEARTBEATS_OFF, change(|f| f.servers[1].heartbeats = Some(false))),
        (KEY_FORMAT_UNROUTABLE, passed(PassCause::KeyFormat(words.clone()))),
        (KEY_TYPE_UNROUTABLE, passed(PassCause::KeyType(words.clone()))),
        (TABLE_NOT_MATERIALISED, passed(PassCause::NotMaterialised)),
        (TABLE_UNDESCRIBED, passed(PassCause::Undescribed(words))),
        (NO_TABLES, change(|f| f.tables.clear())),
    ]
}

#[test]
fn each_kind_of_fact_gives_its_finding_and_no_other() {
    assert_eq!(findings(&healthy()), []);
    for (number, (code, change)) in cases().into_iter().enumerate() {
        assert_eq!(found(change), [code.name], "case {number}");
    }
}

#[test]
fn every_code_has_a_case_and_a_name_of_its_own() {
    for code in CODES {
        assert!(cases().iter().any(|(of, _)| of == code), "{code}");
        assert_eq!(CODES.iter().filter(|other| other.name == code.name).count(), 1, "{code}");
        let kebab = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(code.name.chars().all(kebab), "{code}");
    }
}

#[test]
fn a_finding_names_where_it_was_seen() {
    let of = |change: Change| {
        let mut facts = healthy();
        change(&mut facts);
        findings(&facts).remove(0).seen
    };
    assert_eq!(
        of(change(set("ksql.query.pull.enable.standby.reads", "false"))),
        "standby reads (ksql.query.pull.enable.standby.reads) are off on b:1"
    );
    let everywhere = change(|f: &mut Facts| f.servers.iter_mut().for_each(|s| s.properties.clear()));
    assert_eq!(of(everywhere), "standby reads (ksql.query.pull.enable.standby.reads) are off on every server");
    let behind = change(|f: &mut Facts| change_table(f, |t| t.placement[0].standbys[0].overdue = Some(7)));
    assert!(of(behind).contains("standby of T partition 0 on b:1 lacks 7 records"));
}

#[test]
fn one_cause_is_told_once() {
    let pins = |f: &mut Facts| change_table(f, |t| t.probes[1].refused = Some("no".to_owned()));
    assert_eq!(found(|f| (pins(f), set("ksql.pull.queries.enable", "false")(f)).0), ["pull-queries-disabled"]);
    let skewed = |f: &mut Facts| {
        f.servers[2].clock = Some(ClockFact { ahead_ms: 60_000, within_ms: 210 });
        f.servers[2].alive = Some(false);
        f.reports.silent.push("c:1".to_owned());
    };
    assert_eq!(found(skewed), ["clock-skew"]);
}

#[test]
fn of_two_clocks_the_one_nearer_to_this_machine_is_right_and_of_one_this_machine() {
    let clocks = |ahead: &[i64]| {
        let mut facts = healthy();
        facts.servers.truncate(ahead.len());
        for (server, ahead_ms) in facts.servers.iter_mut().zip(ahead) {
            server.clock = Some(ClockFact { ahead_ms: *ahead_ms, within_ms: 100 });
        }
        clocks::skewed(&facts).into_iter().map(|(name, off)| (name.to_owned(), off)).collect::<Vec<_>>()
    };
    assert_eq!(clocks(&[4000]), [("a:1".to_owned(), 4000)]);
    assert_eq!(clocks(&[4000, 20]), [("a:1".to_owned(), 3980)]);
    assert_eq!(clocks(&[-4000, 20, 30]), [("a:1".to_owned(), -4020)]);
    assert_eq!(clocks(&[4000, 4010, 3900]), []);
    assert_eq!(clocks(&[0, 1200, 0]), [], "what the answers' times explain");
}

#[test]
fn notes_are_healthy_and_worse_findings_come_first() {
    let mut facts = healthy();
    facts.tables.push(table("P", Lookups::PassedThrough(PassCause::NotMaterialised)));
    assert!(is_healthy(&findings(&facts)));
    facts.servers[2].alive = Some(false);
    facts.reports.interval_ms = Some(5000);
    let all = findings(&facts);
    assert!(!is_healthy(&all));
    let severities: Vec<Severity> = all.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::Note]);
}
