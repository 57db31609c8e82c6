use super::*;
use crate::view::{HostIndex, ReplicaView, Role, SlotView, test_table};
use serde_json::{Value, json};

const KEY: &str = "CTAS_T_1#Aggregate-Aggregate-Materialize";

/// Hosts `a` and `b`, alive, with `T` of one partition; times in milliseconds.
struct Fixture(Evidence);

/// What one answer to `/clusterStatus` says of a host.
#[derive(Clone, Copy)]
struct Says<'a> {
    host: &'a str,
    incarnation: i64,
    alive: bool,
    role: Option<Role>,
    /// Update time, current and end offset; the key in use.
    report: Option<(i64, i64, i64)>,
    key: &'a str,
}

fn says(host: &str, role: Option<Role>, report: Option<(i64, i64, i64)>) -> Says<'_> {
    Says { host, incarnation: 1, alive: true, role, report, key: KEY }
}

fn body(hosts: &[Says<'_>]) -> String {
    let one = |says: &Says<'_>| {
        let held = |wanted| if says.role == Some(wanted) { json!([{"topic": "s", "partition": 0}]) } else { json!([]) };
        let placement =
            json!({"CTAS_T_1": {"activePartitions": held(Role::Active), "standByPartitions": held(Role::Standby)}});
        let lags = says.report.map_or(json!({"stateStoreLags": {}, "updateTimeMs": 0}), |(at, current, end)| {
            let position = json!({"currentOffsetPosition": current, "endOffsetPosition": end});
            json!({"stateStoreLags": {says.key: {"lagByPartition": {"0": position}}}, "updateTimeMs": at})
        });
        let status = json!({"hostAlive": says.alive, "lastStatusUpdateMs": says.incarnation,
                "activeStandbyPerQuery": if says.role.is_some() { placement } else { json!({}) }, "hostStoreLags": lags});
        (says.host.to_owned(), status)
    };
    let hosts: serde_json::Map<String, Value> = hosts.iter().map(one).collect();
    json!({ "clusterStatus": hosts }).to_string()
}

impl Fixture {
    fn new() -> Self {
        let liveness = LivenessSettings { missed_threshold: 2, received_threshold: 1, window: Duration::from_secs(2) };
        let mut evidence = Evidence::new(Settings { liveness, max_report_age: Duration::from_secs(15) });
        let spec =
            |name: &str| HostSpec { name: name.into(), url: format!("http://{name}").into(), local: name == "a" };
        evidence.set_hosts(&[spec("a"), spec("b")], Moment::EPOCH);
        let tables = vec![Arc::new(test_table("T", "CTAS_T_1", 1))];
        evidence.set_catalogue(Arc::new(Catalogue { tables, ..Catalogue::default() }));
        let mut fixture = Fixture(evidence);
        fixture.probe("a", Probe::Answered, 0);
        fixture.probe("b", Probe::Answered, 0);
        fixture
    }

    fn probe(&mut self, host: &str, probe: Probe, at: u64) {
        self.0.probe(host, probe, Moment::from_millis(at), Moment::from_millis(at));
    }

    fn hears(&mut self, asked: &str, at: u64, hosts: &[Says<'_>]) {
        let body = body(hosts);
        let status = ClusterStatus::parse(body.as_bytes()).unwrap();
        let at = Moment::from_millis(at);
        let made = Interval { from: at, to: at };
        self.0.observe(&Observation { asked, status: &status, made, own_report_age: None });
    }

    fn slot(&self, at: u64) -> SlotView {
        let view = self.0.view(Moment::from_millis(at));
        view.slot(&view.tables["T"], 0)
    }

    fn replica(&self, host: HostIndex, at: u64) -> Option<ReplicaView> {
        self.slot(at).replicas.iter().find(|replica| replica.host == host).copied()
    }

    fn current(&self, host: HostIndex, at: u64) -> Option<i64> {
        Some(self.replica(host, at)?.position?.current)
    }

    fn is_settled(&self, host: HostIndex, at: u64) -> bool {
        self.replica(host, at).expect("a replica").settled
    }
}

const ACTIVE: Option<Role> = Some(Role::Active);
const STANDBY: Option<Role> = Some(Role::Standby);

#[test]
fn a_new_incarnation_begins_its_reports_anew() {
    let mut fixture = Fixture::new();
    fixture.hears("b", 1000, &[says("b", ACTIVE, Some((900, 50, 50)))]);
    assert!(fixture.replica(1, 1000).unwrap().is_caught_up_active());
    let restarted = Says { incarnation: 2, ..says("b", ACTIVE, None) };
    fixture.hears("b", 2000, &[restarted]);
    assert_eq!(fixture.current(1, 2000), None);
    fixture.hears("b", 3000, &[Says { report: Some((2900, 50, 50)), ..restarted }]);
    assert!(!fixture.is_settled(1, 3000));
    fixture.hears("b", 4000, &[Says { report: Some((3900, 50, 50)), ..restarted }]);
    assert!(fixture.is_settled(1, 4000));
}

#[test]
fn a_clock_that_is_set_back_does_not_make_reports_old() {
    let mut fixture = Fixture::new();
    let at = |millis, position| says("b", ACTIVE, Some((millis, position, position)));
    fixture.hears("b", 1000, &[at(3_600_900, 50)]);
    fixture.hears("b", 2000, &[at(1_900, 60)]);
    assert_eq!(fixture.current(1, 2000), Some(50), "it may be an older one that arrived late");
    fixture.hears("b", 3000, &[at(2_900, 60)]);
    assert_eq!(fixture.current(1, 3000), Some(60), "what the host still says itself is its newest");
    fixture.hears("a", 3100, &[at(3_600_900, 50)]);
    assert_eq!(fixture.current(1, 3100), Some(60), "an old report that another still has is not new");
    fixture.hears("a", 4000, &[at(3_900, 70)]);
    assert_eq!(fixture.current(1, 4000), Some(70));
}

#[test]
fn a_report_that_arrives_after_a_newer_one_changes_nothing() {
    let mut fixture = Fixture::new();
    let at = |millis, position| says("b", ACTIVE, Some((millis, position, position)));
    fixture.hears("b", 1000, &[at(900, 50)]);
    fixture.hears("a", 2000, &[at(1_900, 60)]);
    fixture.hears("b", 2100, &[at(900, 50)]);
    assert_eq!(fixture.current(1, 2100), Some(60));
    assert!(fixture.is_settled(1, 2100));
}

#[test]
fn a_paused_host_must_report_twice_again_and_a_report_counts_once() {
    let mut fixture = Fixture::new();
    fixture.hears("b", 1000, &[says("b", ACTIVE, Some((900, 50, 50)))]);
    fixture.probe("b", Probe::Missed, 1200);
    fixture.probe("b", Probe::Missed, 1400);
    fixture.probe("b", Probe::Answered, 9000);
    assert!(!fixture.is_settled(1, 9000));
    for at in [9100, 9200, 9300] {
        fixture.hears("b", at, &[says("b", ACTIVE, Some((9050, 50, 50)))]);
    }
    assert!(!fixture.is_settled(1, 9300), "the same report three times is one");
    fixture.hears("b", 10_000, &[says("b", ACTIVE, Some((9950, 90, 90)))]);
    assert!(fixture.replica(1, 10_000).unwrap().is_caught_up_active());
}

#[test]
fn a_position_that_fell_is_not_settled_until_reported_again() {
    let mut fixture = Fixture::new();
    for (at, current, settled) in [(1000, 50, true), (2000, 40, false), (3000, 45, true)] {
        fixture.hears("a", at, &[says("b", STANDBY, Some((at as i64, current, 60)))]);
        assert_eq!(fixture.is_settled(1, at), settled, "at {at}");
    }
}

#[test]
fn a_promoted_standby_is_not_settled_but_an_active_only_found_out_about_is() {
    let mut fixture = Fixture::new();
    let standby = says("b", STANDBY, Some((900, 50, 50)));
    fixture.hears("a", 1000, &[says("a", ACTIVE, Some((900, 50, 50))), standby]);
    fixture.hears("b", 1000, &[standby]);
    fixture.hears("b", 1500, &[says("a", ACTIVE, None), standby]);
    assert!(fixture.is_settled(0, 1500), "b did not know the active before");
    fixture.hears("a", 2000, &[says("a", None, None), Says { role: ACTIVE, ..standby }]);
    assert!(!fixture.is_settled(1, 2000));
}

#[test]
fn a_standby_that_kept_up_and_takes_over_is_an_heir_until_it_has_settled_or_stood_still() {
    let heir_of = |second: (i64, i64, i64), pause: bool| {
        let mut fixture = Fixture::new();
        let standby = |report| says("b", STANDBY, Some(report));
        for (at, report) in [(1_000, (900, 50, 50)), (6_000, second)] {
            fixture.hears("a", at, &[says("a", ACTIVE, Some((at as i64, report.2, report.2))), standby(report)]);
        }
        fixture.hears("b", 12_000, &[standby(second)]);
        if pause {
            fixture.probe("b", Probe::Refused, 12_100);
            fixture.probe("b", Probe::Answered, 12_200);
        }
        fixture.hears("b", 12_500, &[Says { role: ACTIVE, ..standby(second) }]);
        fixture
    };
    let mut kept_up = heir_of((5_900, 60, 62), false);
    assert!(kept_up.replica(1, 12_500).unwrap().heir && !kept_up.is_settled(1, 12_500));
    for (at, report) in [(13_000, (11_900, 62, 62)), (18_000, (16_900, 62, 62))] {
        kept_up.hears("b", at, &[says("b", ACTIVE, Some(report))]);
    }
    assert!(!kept_up.replica(1, 18_000).unwrap().heir && kept_up.is_settled(1, 18_000), "its own reports tell now");
    assert!(!heir_of((5_900, 49, 62), false).replica(1, 12_500).unwrap().heir, "it was behind");
    assert!(!heir_of((5_900, 60, 62), true).replica(1, 12_500).unwrap().heir, "it stood still in between");
}

#[test]
fn a_report_that_is_dated_only_when_a_later_one_is_known_dates_that_ones_sampling() {
    let mut fixture = Fixture::new();
    for (at, position) in [(1_000, 50), (2_000, 60), (3_000, 70)] {
        let report = Some((at as i64 - 100, position, position));
        fixture.hears("a", at, &[says("a", ACTIVE, report), says("b", STANDBY, report)]);
    }
    let complete_until = |fixture: &Fixture| {
        let view = fixture.0.view(Moment::from_millis(3_200));
        view.slot_with_history(&view.tables["T"], 0).replicas.iter().find(|replica| replica.host == 1)?.complete_until
    };
    assert_eq!(complete_until(&fixture), None, "nobody told how old a report is");
    let body = body(&[says("a", ACTIVE, None), says("b", STANDBY, Some((1_900, 60, 60)))]);
    let (status, at) = (ClusterStatus::parse(body.as_bytes()).unwrap(), Moment::from_millis(3_100));
    let (made, own_report_age) = (Interval { from: at, to: at }, Some(Duration::from_millis(1_150)));
    fixture.0.observe(&Observation { asked: "b", status: &status, made, own_report_age });
    assert_eq!(complete_until(&fixture), Some(Moment::from_millis(1_950)));
}

#[test]
fn what_a_host_reported_before_it_died_still_says_how_far_the_log_reached() {
    let mut fixture = Fixture::new();
    fixture.hears("a", 1000, &[says("a", STANDBY, Some((900, 40, 50))), says("b", ACTIVE, Some((900, 70, 70)))]);
    assert_eq!(fixture.slot(1000).end, Some(70));
    fixture.probe("b", Probe::Refused, 1100);
    assert_eq!((fixture.slot(1100).end, fixture.replica(0, 1100).unwrap().lag(Some(70))), (Some(70), Some(30)));
    assert_eq!(fixture.slot(17_000).end, None, "a report older than the limit is no number");
}

#[test]
fn what_is_no_report_is_none() {
    let mut fixture = Fixture::new();
    let dead = Says { alive: false, ..says("b", STANDBY, Some((900, 50, 50))) };
    fixture.hears("a", 1000, &[dead]);
    assert_eq!(fixture.current(1, 1000), None);
    fixture.hears("a", 2000, &[says("b", STANDBY, Some((0, 50, 50)))]);
    assert_eq!(fixture.current(1, 2000), None);
}

#[test]
fn both_forms_of_key_are_read() {
    for key in [KEY, "_confluent-ksql-default_query_CTAS_T_1#Aggregate-Aggregate-Materialize"] {
        let mut fixture = Fixture::new();
        fixture.hears("a", 1000, &[Says { key, ..says("b", STANDBY, Some((900, 50, 50))) }]);
        assert_eq!(fixture.current(1, 1000), Some(50), "{key}");
    }
}

#[test]
fn a_ghost_is_told_apart_and_never_a_replica() {
    let mut fixture = Fixture::new();
    fixture.hears("a", 1000, &[says("ghost:1", ACTIVE, Some((900, 99, 99))), says("b", STANDBY, None)]);
    assert_eq!(fixture.0.unroutable().iter().collect::<Vec<_>>(), ["ghost:1"]);
    let slot = fixture.slot(1000);
    assert_eq!((slot.replicas.len(), slot.end), (1, None));
}

#[test]
fn an_active_needs_two_views() {
    let mut fixture = Fixture::new();
    let reports = (Some((900, 50, 50)), Some((900, 50, 50)));
    fixture.hears("a", 1000, &[says("a", ACTIVE, reports.0), says("b", STANDBY, reports.1)]);
    assert!(fixture.replica(0, 1000).unwrap().agreed, "there is no other view");
    fixture.hears("b", 1100, &[says("a", STANDBY, reports.0), says("b", ACTIVE, reports.1)]);
    assert!(!fixture.replica(1, 1100).unwrap().agreed && !fixture.replica(0, 1100).unwrap().agreed);
    fixture.hears("a", 1200, &[says("a", STANDBY, reports.0), says("b", ACTIVE, reports.1)]);
    assert!(fixture.replica(1, 1200).unwrap().agreed);
}

#[test]
fn a_server_without_partitions_that_a_live_one_still_places_there_is_closing() {
    let mut fixture = Fixture::new();
    let state = |fixture: &Fixture, at| fixture.0.view(Moment::from_millis(at)).hosts[1].state;
    fixture.hears("a", 1000, &[says("b", ACTIVE, None)]);
    fixture.hears("b", 1100, &[says("b", None, None)]);
    assert_eq!(state(&fixture, 1100), HostState::Closing);
    fixture.probe("a", Probe::Refused, 1200);
    fixture.hears("b", 1300, &[says("b", None, None)]);
    assert_eq!(state(&fixture, 1300), HostState::Live, "what a dead server said last does not count");
}

#[test]
fn without_any_placement_every_host_may_hold_everything() {
    let mut fixture = Fixture::new();
    let replica = fixture.replica(1, 500).expect("b may hold it");
    assert_eq!((replica.role, replica.position, replica.agreed), (Role::Unplaced, None, false));
    assert_eq!(fixture.slot(500).replicas.len(), 2);
    fixture.hears("a", 1000, &[says("a", ACTIVE, None)]);
    assert_eq!(fixture.replica(1, 1000), None);
}

/// Lags at times, in records and milliseconds, and the records a second by which the lag is estimated to shrink: the cases
/// of kafka-lag-exporter's lookup table, told for an estimate that only orders and displays.
#[test]
fn the_rate_of_catching_up_is_that_of_the_last_two_reports() {
    for (case, reports, rate) in [
        ("one point tells nothing", &[(1_000, 0, 500)][..], None),
        ("the lag shrinks evenly", &[(1_000, 0, 500), (6_000, 450, 500)], Some(90.0)),
        ("the log grows meanwhile", &[(1_000, 0, 500), (2_000, 300, 600)], Some(200.0)),
        ("a flat curve has no rate", &[(1_000, 100, 500), (2_000, 100, 500)], None),
        ("neither has a growing lag", &[(1_000, 100, 500), (2_000, 120, 600)], None),
        ("who is at the end gains nothing", &[(1_000, 500, 500), (2_000, 600, 600)], None),
        ("the oldest points do not count", &[(1_000, 0, 900), (2_000, 500, 900), (4_000, 600, 900)], Some(50.0)),
        ("reports may be far apart", &[(1_000, 0, 500), (61_000, 500, 500)], Some(500.0 / 60.0)),
    ] {
        let mut fixture = Fixture::new();
        for report in reports {
            fixture.hears("a", report.0 as u64, &[says("a", Some(Role::Standby), Some(*report))]);
        }
        let view = fixture.0.view(Moment::from_millis(62_000));
        let found = view.catch_up_rate(0, &view.tables["T"], 0);
        assert_eq!(found.map(|rate| (rate * 1e3).round()), rate.map(|rate: f64| (rate * 1e3).round()), "{case}");
    }
}

#[test]
fn a_changelog_that_was_made_anew_is_remembered_when_no_report_from_before_is_kept() {
    let mut fixture = Fixture::new();
    let hear = |fixture: &mut Fixture, at: u64, end: i64| {
        fixture.hears("a", at, &[says("a", Some(Role::Active), Some((at as i64, end, end)))]);
    };
    hear(&mut fixture, 1_000, 700);
    assert_eq!(fixture.slot(1_500).epoch, None);
    hear(&mut fixture, 2_000, 3);
    for second in 3..60 {
        hear(&mut fixture, second * 1_000, 3 + second as i64 * 100);
    }
    assert_eq!(fixture.slot(60_000).epoch, Some(Moment::from_millis(2_000)));
    let tables = vec![Arc::new(test_table("T", "CTAS_T_2", 1))];
    fixture.0.set_catalogue(Arc::new(Catalogue { tables, ..Catalogue::default() }));
    assert_eq!(fixture.slot(60_000).epoch, None, "it goes with its query");
}
