use super::*;
use crate::route::HostTraffic;
use crate::view::{HostIndex, Position, ServerVersion};
use std::time::Duration;

const NOW: Moment = Moment::from_millis(600_000);

/// `active 100/100`, `standby 90/100 young`, `standby -`: role, current/end, and whether it is unsettled.
fn replica(host: HostIndex, text: &str) -> ReplicaView {
    let mut words = text.split(' ');
    let role = match words.next() {
        Some("active") => Role::Active,
        Some("standby") => Role::Standby,
        _ => Role::Unplaced,
    };
    let position = words.next().and_then(|word| word.split_once('/')).map(|(current, end)| Position {
        current: current.parse().expect("a number"),
        end: end.parse().expect("a number"),
    });
    let flags: Vec<&str> = words.collect();
    let old = flags.contains(&"old");
    ReplicaView {
        host,
        role,
        agreed: role == Role::Active && !flags.contains(&"disputed"),
        position,
        heir: flags.contains(&"heir"),
        keeps_up: position.is_some_and(|position| position.current >= position.end) || flags.contains(&"moving"),
        reported: position.map(|_| if old { Moment::from_millis(1_000) } else { Moment::from_millis(599_500) }),
        settled: !flags.contains(&"young"),
        reliable: true,
        awake: true,
        complete_until: flags.iter().find_map(|flag| flag.strip_prefix("held=")).map(|held| NOW.back(span(held))),
        same_since: None,
    }
}

fn span(text: &str) -> Duration {
    humantime::parse_duration(text).expect("a duration")
}

fn view(states: &[HostState]) -> ClusterView {
    let hosts = states.iter().enumerate().map(|(index, state)| HostView {
        name: format!("h{index}").into(),
        url: format!("http://h{index}").into(),
        state: *state,
        since: Moment::EPOCH,
        last_ok: Some(Moment::from_millis(599_900)),
        returned: None,
        suspected: None,
        peer: None,
        version: ServerVersion::parse("0.29.0"),
        incarnation: None,
        local: index == 0,
        ran: None,
        ran_before: None,
    });
    ClusterView {
        hosts: hosts.collect(),
        catalogue_known: true,
        lag_reporting: true,
        standby_reads: Some(true),
        max_report_age: Duration::from_secs(15),
        ..ClusterView::default()
    }
}

fn slot(replicas: &[&str], interval_writes: i64) -> SlotView {
    let replicas: smallvec::SmallVec<[ReplicaView; 3]> =
        replicas.iter().enumerate().map(|(host, text)| replica(host as HostIndex, text)).collect();
    let end = replicas.iter().filter_map(|replica| replica.position).map(|position| position.end).max();
    SlotView { replicas, end, interval_writes, epoch: None }
}

/// The plan in words: `h1 caught_up_active, h0 freshest | h2 dead`.
fn words(plan: &Plan) -> String {
    let candidates: Vec<String> =
        plan.candidates.iter().map(|c| format!("h{} {}", c.host, c.preference.as_str())).collect();
    let rejected: Vec<String> =
        plan.rejected.iter().map(|r| format!("h{} {}", r.candidate.host, r.reason.as_str())).collect();
    format!("{} | {}", candidates.join(", "), rejected.join(", "))
}

fn planned(replicas: &[&str]) -> String {
    let states = vec![HostState::Live; replicas.len()];
    words(&plan(&slot(replicas, 0), &Options::default(), &view(&states), &Traffic::default(), NOW))
}

#[test]
fn the_freshest_replica_comes_first() {
    for (replicas, expected) in [
        (&["standby 100/100", "active 100/100"][..], "h1 caught_up_active, h0 freshest | "),
        (&["standby 100/100", "active 60/100"], "h0 freshest, h1 behind | "),
        (&["standby 100/100", "active 90/100 young"], "h0 freshest, h1 unsettled | "),
        (&["standby 100/100", "active 100/100 young"], "h0 freshest, h1 unsettled | "),
        (&["standby 100/100", "active 100/100 disputed"], "h0 freshest, h1 freshest | "),
        (&["active -", "standby 100/150", "standby 140/150"], "h2 freshest, h1 behind, h0 no_lag_entry | "),
        (&["standby 100/100", "standby 140/150"], "h1 freshest, h0 behind | "),
        (&["standby 100/100 old", "active 100/100 old"], "h1 lag_unknown, h0 lag_unknown | "),
        (&["unplaced 100/100", "standby 90/100"], "h0 freshest, h1 behind | "),
    ] {
        assert_eq!(planned(replicas), expected, "{replicas:?}");
    }
}

#[test]
fn the_published_cases_of_another_database_hold_here() {
    const CASES: &str = include_str!("../../../tests/corpus/selection.tsv");
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').chain([""]).collect();
        let [case, replicas, request, expected, ..] = fields[..] else { panic!("{line}") };
        let replicas: Vec<&str> = replicas.split("; ").collect();
        let state = |text: &&str| match text {
            text if text.ends_with(" down") => HostState::Dead,
            text if text.ends_with(" starting") => HostState::Starting,
            _ => HostState::Live,
        };
        let states: Vec<HostState> = replicas.iter().map(state).collect();
        let mut words = request.split(' ');
        let level: Level = words.next().expect("a level").parse().expect("a level");
        let mut options = Options { level, ..Options::default() };
        for word in words {
            match word.split_once('=').expect("a bound") {
                ("staleness", bound) => options.complete_until = Some(NOW.back(span(bound))),
                ("lag", bound) => options.max_offset_lag = Some(bound.parse().expect("a number")),
                other => panic!("{other:?}"),
            }
        }
        let plan = plan(&slot(&replicas, 0), &options, &view(&states), &Traffic::default(), NOW);
        let mut hosts: Vec<String> = plan.candidates.iter().map(|candidate| candidate.host.to_string()).collect();
        if level == Level::Any {
            hosts.sort();
        }
        hosts.extend(plan.native.then(|| "native".to_owned()));
        assert_eq!(hosts.join(" "), expected, "{case}");
    }
}

#[test]
fn unfit_hosts_are_rejected_and_asked_only_when_nobody_else_is_left() {
    let slot = slot(&["active 100/100", "standby 90/100", "standby 80/100"], 0);
    let run = |states: &[HostState]| words(&plan(&slot, &Options::default(), &view(states), &Traffic::default(), NOW));
    use HostState::*;
    assert_eq!(run(&[Dead, Live, Live]), "h1 freshest, h2 behind | h0 dead");
    assert_eq!(run(&[Closing, Starting, Live]), "h2 freshest | h0 closing, h1 starting");
    assert_eq!(
        run(&[Dead, Closing, Dead]),
        "h0 last_resort, h1 last_resort, h2 last_resort | h0 dead, h1 closing, h2 dead"
    );
}

#[test]
fn a_bound_is_kept_or_refused_never_relaxed() {
    let bound = |replicas: &[&str], states: &[HostState], lag| {
        let options = Options { max_offset_lag: Some(lag), ..Options::default() };
        let plan = plan(&slot(replicas, 0), &options, &view(states), &Traffic::default(), NOW);
        assert!(!plan.native, "the servers' own routing would not keep the bound");
        words(&plan)
    };
    use HostState::*;
    let replicas = ["active 100/100", "standby 90/100", "standby -", "standby 95/100 old"];
    assert_eq!(bound(&replicas, &[Live; 4], 5), "h0 caught_up_active | h1 over_bound, h2 lag_unknown, h3 lag_unknown");
    assert_eq!(
        bound(&replicas, &[Dead, Live, Live, Live], 9),
        " | h0 dead, h1 over_bound, h2 lag_unknown, h3 lag_unknown"
    );
    assert_eq!(
        bound(&replicas, &[Dead, Live, Live, Live], 10),
        "h1 freshest | h0 dead, h2 lag_unknown, h3 lag_unknown"
    );
}

#[test]
fn absence_is_believed_of_a_replica_that_keeps_up() {
    let seen = |replicas: &[&str], interval_writes, bound: Option<u64>| {
        let options = Options { max_offset_lag: bound, ..Options::default() };
        let states = vec![HostState::Live; replicas.len()];
        let plan = plan(&slot(replicas, interval_writes), &options, &view(&states), &Traffic::default(), NOW);
        let mut hosts: Vec<_> = plan.candidates.iter().filter(|c| c.sees_absence).map(|c| c.host).collect();
        hosts.sort_unstable();
        hosts
    };
    assert_eq!(seen(&["active 100/100", "standby 100/100"], 0, None), [0, 1]);
    assert_eq!(seen(&["active 100/100", "standby 90/100 moving"], 5, None), [0, 1], "what it lacks is on its way");
    assert_eq!(seen(&["active 100/100", "standby 99/100"], 5, None), [0], "it has stopped, however little it lacks");
    assert_eq!(seen(&["active 100/100", "standby 90/90"], 5, None), [0, 1], "two intervals of writes came since");
    assert_eq!(seen(&["active 100/100", "standby 89/89"], 5, None), [0], "more than that: it has stopped");
    assert_eq!(seen(&["active 98/100", "standby 90/100"], 5, None), [0], "nobody is ahead of the active");
    assert_eq!(seen(&["active 98/100 young", "standby 100/100"], 5, None), [1], "unless it may still restore");
    assert_eq!(seen(&["active 98/100 young heir", "standby 80/100"], 5, None), [0], "or has what it had as a standby");
    assert_eq!(seen(&["standby 90/100", "standby 100/100"], 5, Some(10)), [0, 1], "the request allows for it");
    assert_eq!(seen(&["standby 100/100 old"], 5, None), [] as [HostIndex; 0]);
}

#[test]
fn a_tie_stays_with_the_host_that_answered_last_then_the_local_then_the_fastest() {
    let tied = slot(&["standby 98/100", "standby 100/100", "standby 99/100"], 3);
    let states = [HostState::Live; 3];
    let latency = |millis| HostTraffic { latency: Duration::from_millis(millis), ..HostTraffic::default() };
    let mut traffic =
        Traffic { hosts: smallvec::smallvec![latency(9), latency(5), latency(1)], last_served: Some(1), dice: 0 };
    let run = |traffic: &Traffic| words(&plan(&tied, &Options::default(), &view(&states), traffic, NOW));
    assert_eq!(run(&traffic), "h1 freshest, h0 freshest, h2 freshest | ");
    traffic.last_served = None;
    assert_eq!(run(&traffic), "h0 freshest, h2 freshest, h1 freshest | ");
    let apart = slot(&["standby 96/100", "standby 100/100", "standby 99/100"], 3);
    traffic.last_served = Some(0);
    let plan = plan(&apart, &Options::default(), &view(&states), &traffic, NOW);
    assert_eq!(words(&plan), "h2 freshest, h1 freshest, h0 behind | ", "a real difference is no tie");
}

#[test]
fn what_requests_met_counts_until_a_later_probe_or_the_end_of_its_time() {
    let both = slot(&["active 100/100", "standby 100/100"], 0);
    let states = [HostState::Live; 2];
    let run = |first: HostTraffic| {
        let traffic = Traffic { hosts: smallvec::smallvec![first], last_served: None, dice: 0 };
        words(&plan(&both, &Options::default(), &view(&states), &traffic, NOW))
    };
    let at = |millis| Some(Moment::from_millis(millis));
    let broken = |millis| HostTraffic { broken_at: at(millis), ..HostTraffic::default() };
    let shunned = |millis| HostTraffic { shunned_until: at(millis), ..HostTraffic::default() };
    let (usual, avoided) = ("h0 caught_up_active, h1 freshest | ", "h1 freshest, h0 shunned | ");
    assert_eq!(run(broken(599_950)), avoided);
    assert_eq!(run(broken(599_800)), usual, "a probe sent later was answered");
    assert_eq!(run(shunned(600_001)), avoided);
    assert_eq!(run(shunned(600_000)), usual);
}

#[test]
fn without_lag_reports_the_active_is_asked_first_and_standbys_only_if_they_answer() {
    let placed = slot(&["standby -", "active -"], 0);
    let mut view = view(&[HostState::Live; 2]);
    view.lag_reporting = false;
    let run = |view: &ClusterView| words(&plan(&placed, &Options::default(), view, &Traffic::default(), NOW));
    assert_eq!(run(&view), "h1 lag_unknown, h0 lag_unknown | ");
    view.standby_reads = Some(false);
    assert_eq!(run(&view), "h1 lag_unknown | h0 standby_reads_off");
    view.hosts[1].version = ServerVersion::parse("0.13.0");
    assert_eq!(run(&view), " | h0 standby_reads_off, h1 cannot_pin");
}

#[test]
fn any_replica_answers_unless_the_other_of_two_is_much_less_busy() {
    let three = slot(&["standby 80/100", "active 100/100", "standby 90/100", "standby 99/100 young"], 0);
    let options = Options { level: Level::Any, ..Options::default() };
    let states = [HostState::Live; 4];
    let host =
        |in_flight, millis| HostTraffic { in_flight, latency: Duration::from_millis(millis), ..HostTraffic::default() };
    let first = |hosts: [HostTraffic; 3], dice| {
        let traffic = Traffic { hosts: hosts.into_iter().collect(), last_served: None, dice };
        let plan = plan(&three, &options, &view(&states), &traffic, NOW);
        assert_eq!(plan.candidates.last().map(|c| c.preference), Some(Preference::Unsettled));
        plan.candidates[0].host
    };
    let even = [host(0, 5), host(0, 4), host(1, 4)];
    let chosen: std::collections::BTreeSet<HostIndex> = (0..9).map(|dice| first(even, dice)).collect();
    assert_eq!(chosen.len(), 3, "a little more work is no reason");
    let busy = [host(9, 5), host(0, 4), host(9, 5)];
    let idle = (0..9).filter(|dice| first(busy, *dice) == 1).count();
    assert!(idle > 5, "{idle} of 9: whenever it is one of the two");
}

#[test]
fn bounds_in_time_and_tokens_are_kept_by_what_a_replica_certainly_holds() {
    let mut slot = slot(&["active 100/100", "standby 100/100", "standby 100/100"], 0);
    slot.replicas[1].complete_until = Some(Moment::from_millis(50_000));
    slot.replicas[2].complete_until = Some(Moment::from_millis(58_000));
    slot.replicas[0].same_since = Some(Moment::from_millis(40_000));
    let run = |options: Options| words(&plan(&slot, &options, &view(&[HostState::Live; 3]), &Traffic::default(), NOW));
    let until = |millis| Options { complete_until: Some(Moment::from_millis(millis)), ..Options::default() };
    assert_eq!(run(until(50_000)), "h1 freshest, h2 freshest | h0 too_stale");
    assert_eq!(run(until(55_000)), "h2 freshest | h0 too_stale, h1 too_stale");
    let after = |until: Option<u64>, same: Option<(HostIndex, u64)>| Options {
        after: Some(After {
            until: until.map(Moment::from_millis),
            same: same.map(|(host, read)| (host, Moment::from_millis(read))),
        }),
        ..Options::default()
    };
    assert_eq!(run(after(Some(55_000), None)), "h2 freshest | h0 behind_token, h1 behind_token");
    assert_eq!(run(after(None, Some((0, 45_000)))), "h0 caught_up_active | h1 behind_token, h2 behind_token");
    assert_eq!(run(after(None, Some((0, 35_000)))), " | h0 behind_token, h1 behind_token, h2 behind_token");
    let active = Options { level: Level::Active, ..Options::default() };
    assert_eq!(run(active), "h0 caught_up_active | h1 not_the_active, h2 not_the_active");
    slot.replicas[0].agreed = false;
    let run = |options: Options| words(&plan(&slot, &options, &view(&[HostState::Live; 3]), &Traffic::default(), NOW));
    assert_eq!(run(active), " | h0 active_uncertain, h1 not_the_active, h2 not_the_active");
}

#[test]
fn a_server_that_has_just_come_back_gets_a_growing_share() {
    let tied = slot(&["active 100/100", "standby 100/100"], 3);
    let states = [HostState::Live; 2];
    let share = |back_for: Option<Duration>, level: Level| {
        let mut view = view(&states);
        view.hosts[0].returned = back_for.map(|span| NOW.back(span));
        let options = Options { level, ..Options::default() };
        let first = |percent: u64| {
            let dice = ((u64::from(u32::MAX) / 100 * percent) << 32) | 2; // the low bits pick host 0
            let traffic = Traffic { hosts: smallvec::smallvec![], last_served: Some(1), dice };
            plan(&tied, &options, &view, &traffic, NOW).candidates[0].host
        };
        (0..100).filter(|percent| first(*percent) == 0).count()
    };
    for level in [Level::Latest, Level::Any] {
        assert_eq!(share(None, level), 100, "one that never was away");
        let early = share(Some(Duration::from_secs(2)), level);
        let later = share(Some(Duration::from_secs(15)), level);
        assert!((5..=15).contains(&early) && (70..=80).contains(&later), "{level:?}: {early} % and {later} %");
        assert_eq!(share(Some(Duration::from_secs(21)), level), 100);
    }
}
