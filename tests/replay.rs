//! Replays what real servers said through kills, pauses, starts and rolls into the view, with the recorded times.

use ksqldb_sidecar::partition::{KeyColumn, KeyFormat, KeySchema, Partitions, SqlType};
use ksqldb_sidecar::route::{Options, Plan, Traffic, plan};
use ksqldb_sidecar::view::{
    Catalogue, ClusterStatus, ClusterView, Evidence, HostSpec, HostState, Interval, LivenessSettings, Moment,
    Observation, Probe, ReplicaView, Role, Settings, SlotView, TableInfo,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

/// The servers, by the index that their replicas have in a view; the last is the one that things happen to.
const HOSTS: [&str; 3] = ["127.0.0.1:28089", "127.0.0.1:28090", "127.0.0.1:28091"];

/// The server that was killed, paused, started or rolled.
const VICTIM: u16 = 2;

/// One line of `fixtures/sequences`: a recorded answer to `/clusterStatus`, cut to what the view reads.
#[derive(Deserialize)]
struct Step<'a> {
    at_ms: u64,
    took_ms: u64,
    asked: &'a str,
    status: Option<u16>,
    error: Option<&'a str>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

impl Step<'_> {
    fn probe(&self) -> Probe {
        match (self.status, self.error) {
            (Some(503), _) => Probe::NotReady,
            (Some(_), _) => Probe::Answered,
            (None, Some("refused")) => Probe::Refused,
            (None, _) => Probe::Missed,
        }
    }
}

fn table() -> TableInfo {
    TableInfo {
        name: "TL".into(),
        key: KeySchema {
            format: KeyFormat::Kafka,
            columns: vec![KeyColumn { name: "K".into(), sql_type: SqlType::String }],
        },
        query_id: "CTAS_TL_5".into(),
        store: "Aggregate-Aggregate-Materialize".into(),
        source_topics: vec!["s".into()],
        partitions: Partitions::new(6).unwrap(),
        windowed: false,
        max_offset_lag: None,
    }
}

/// The view after each recorded answer.
fn replay(sequence: &str) -> Vec<(u64, ClusterView)> {
    let liveness = LivenessSettings { missed_threshold: 2, received_threshold: 2, window: Duration::from_secs(2) };
    let mut evidence = Evidence::new(Settings { liveness, max_report_age: Duration::from_secs(15) });
    let spec = |(index, name): (usize, &&str)| HostSpec {
        name: (*name).into(),
        url: format!("http://{name}").into(),
        local: index == 0,
    };
    evidence.set_hosts(&HOSTS.iter().enumerate().map(spec).collect::<Vec<_>>(), Moment::EPOCH);
    evidence.set_catalogue(Arc::new(Catalogue { tables: vec![Arc::new(table())], ..Catalogue::default() }));
    let mut views = Vec::new();
    for line in sequence.lines() {
        let step: Step<'_> = serde_json::from_str(line).expect("a step");
        let made =
            Interval { from: Moment::from_millis(step.at_ms), to: Moment::from_millis(step.at_ms + step.took_ms) };
        evidence.probe(step.asked, step.probe(), made.from, made.to);
        if let (Some(200), Some(body)) = (step.status, step.body) {
            let status = ClusterStatus::parse(body.get().as_bytes()).expect("an answer to /clusterStatus");
            evidence.observe(&Observation { asked: step.asked, status: &status, made, own_report_age: None });
        }
        views.push((step.at_ms + step.took_ms, evidence.view(made.to)));
    }
    views
}

fn slots(view: &ClusterView) -> Vec<SlotView> {
    view.slots(&view.tables["TL"]).collect()
}

/// A slot as text: each replica with its host's number and role, `!` if it is the caught-up active, `?` if it is not
/// settled, its lag against the largest end if there is one, `~` without a position.
fn show(slot: &SlotView) -> String {
    let one = |replica: &ReplicaView| {
        let role = match replica.role {
            Role::Active => "A",
            Role::Standby => "S",
            Role::Unplaced => "U",
        };
        let lag = match replica.lag(slot.end) {
            _ if replica.position.is_none() => "~".to_owned(),
            Some(0) | None => String::new(),
            Some(lag) => format!("-{lag}"),
        };
        let caught_up = if replica.is_caught_up_active() { "!" } else { "" };
        let settled = if replica.settled { "" } else { "?" };
        format!("{}{role}{caught_up}{settled}{lag}", replica.host)
    };
    slot.replicas.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn states(view: &ClusterView) -> Vec<&'static str> {
    view.hosts.iter().map(|host| host.state.as_str()).collect()
}

const KILL: &str = include_str!("fixtures/sequences/kill-0.29.0.jsonl");
const PAUSE: &str = include_str!("fixtures/sequences/pause-0.29.0.jsonl");
const START: &str = include_str!("fixtures/sequences/start-0.29.0.jsonl");
const ROLL: &str = include_str!("fixtures/sequences/roll-0.29.0.jsonl");
const ROLL_7_4: &str = include_str!("fixtures/sequences/roll-7.4.0.jsonl");

/// What the view shows at an instant: milliseconds, state of the victim, the six slots.
type Expected = (u64, &'static str, [&'static str; 6]);

fn check(sequence: &str, expected: &[Expected]) {
    let views = replay(sequence);
    for (at, state, slots_expected) in expected {
        let (_, view) = views.iter().rfind(|(made, _)| made <= at).expect("an answer before that");
        let shown: Vec<String> = slots(view).iter().map(show).collect();
        assert_eq!(states(view), ["live", "live", state], "at {at} ms");
        assert_eq!(shown, slots_expected, "at {at} ms");
    }
}

/// SIGTERM at 5.0 s, start at 19.0 s.
#[test]
fn roll() {
    check(
        ROLL,
        &[
            // all is well
            (6_500, "live", ["1A! 2S", "1S 2A!", "0A! 1S", "0S 1A!", "0S 2A!", "0A! 2S"]),
            // it lists no partitions of its own any more
            (7_560, "closing", ["1A! 2S-10", "1S-9 2A!-9", "0A! 1S-12", "0S 1A!", "0S 2A!-14", "0A! 2S-9"]),
            // its lag entries are gone, its partitions still listed: nothing of it is a number any more
            (9_500, "closing", ["1A! 2S~", "1S 2A~", "0A! 1S", "0S 1A!", "0S 2A~", "0A! 2S~"]),
            // its port is closed
            (12_600, "dead", ["1A! 2S~", "1S 2A~", "0A! 1S", "0S 1A!", "0S 2A~", "0A! 2S~"]),
            // its partitions moved: promoted standbys are not settled, new standbys have no entry yet
            (20_050, "dead", ["0S~ 1A!", "0A?~ 1S", "0S 1A?", "0A? 1S", "0S 1A?~", "0A! 1S~"]),
            (25_100, "dead", ["0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S"]),
            // its port is open again
            (26_500, "starting", ["0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S"]),
            // ready, without partitions
            (34_000, "live", ["0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S"]),
            // partitions move back, before anybody reports: the new actives have no position
            (36_170, "live", ["1A! 2S~", "1S 2A?~", "0A? 1S", "0S 1A?", "0S 2A?~", "0A! 2S~"]),
            // it restores: hundreds of records behind, and not caught up, while a standby is current
            (36_650, "live", ["1A! 2S-412", "1S 2A?-169", "0A? 1S", "0S 1A?", "0S 2A?-274", "0A! 2S-377"]),
            // it has reported twice, at the end of the changelog
            (38_000, "live", ["1A! 2S", "1S 2A!", "0A! 1S", "0S 1A!", "0S 2A!", "0A! 2S"]),
        ],
    );
}

/// SIGKILL at 5.06 s.
#[test]
fn kill() {
    check(
        KILL,
        &[
            (4_500, "live", ["1A! 2S", "1S 2A!", "0A! 1S", "0S 1A!", "0S 2A!", "0A! 2S"]),
            // refused; what it said last stays as it was, and it is dead
            (5_530, "dead", ["1A! 2S", "1S 2A!-9", "0A! 1S-12", "0S-6 1A!-6", "0S 2A!", "0A! 2S-9"]),
            // only the living define the end
            (10_040, "dead", ["1A! 2S-88", "1S 2A!-9", "0A! 1S", "0S 1A!", "0S 2A!-14", "0A! 2S-80"]),
            // session timeout: its standbys take over, and must report twice
            (
                17_550,
                "dead",
                ["0S~ 1A! 2U-197", "0A?~ 1S 2U-9", "0S 1A?-12", "0A? 1S", "0S 1A?~ 2U-14", "0A! 1S~ 2U-187"],
            ),
            (23_060, "dead", ["0S 1A! 2U-296", "0A! 1S 2U-36", "0S 1A!", "0A! 1S", "0S 1A! 2U-126", "0A! 1S 2U-226"]),
        ],
    );
}

/// SIGSTOP at 5.06 s, SIGCONT at 13.11 s. The recording waited 2 s for each answer, so the second miss is at 9.5 s.
#[test]
fn pause() {
    check(
        PAUSE,
        &[
            (9_536, "dead", ["1A! 2S-69", "1S 2A!", "0A!-12 1S", "0S-6 1A!", "0S 2A!", "0A! 2S-42"]),
            // it says of itself that it is current, before it knows better: not believed until it has reported twice
            (13_320, "live", ["1A!-10 2S?-137", "1S 2A?", "0A! 1S", "0S 1A!", "0S 2A?", "0A! 2S?"]),
            (13_550, "live", ["1A!-10 2S?", "1S 2A?", "0A! 1S", "0S 1A!", "0S 2A?", "0A! 2S?"]),
            (14_320, "live", ["1A! 2S", "1S 2A!", "0A! 1S", "0S 1A!", "0S 2A!", "0A!-9 2S-9"]),
        ],
    );
}

/// Start at 5.0 s of a server that has been dead for long.
#[test]
fn start() {
    check(
        START,
        &[
            (5_500, "dead", ["0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S"]),
            (15_100, "starting", ["0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S", "0S 1A!", "0A! 1S"]),
            // partitions move to it at its first answer
            (22_115, "live", ["1A! 2S?~", "1S-10 2A?~", "0A? 1S", "0S 1A?-1", "0S 2A?~", "0A! 2S?~"]),
            // thousands of records behind, and active
            (24_110, "live", ["1A! 2S?-2295", "1S 2A?-1260", "0A! 1S", "0S 1A!", "0S 2A?-2067", "0A! 2S?-2043"]),
            (25_600, "live", ["1A! 2S-1305", "1S 2A?-260", "0A! 1S", "0S 1A!", "0S 2A?-2067", "0A! 2S-2060"]),
            (28_130, "live", ["1A! 2S", "1S 2A!", "0A! 1S", "0S 1A!", "0S 2A!", "0A! 2S"]),
        ],
    );
}

/// Records of one partition that a second and a half of the recorded writes can bring at most: the age of a report.
const WRITTEN_MEANWHILE: u64 = 45;

#[test]
fn at_every_instant_one_active_at_most_is_caught_up_and_it_is_current() {
    for (name, sequence) in
        [("kill", KILL), ("pause", PAUSE), ("start", START), ("roll", ROLL), ("roll of 7.4.0", ROLL_7_4)]
    {
        for (at, view) in replay(sequence) {
            for slot in slots(&view) {
                let caught_up: Vec<_> = slot.replicas.iter().filter(|replica| replica.is_caught_up_active()).collect();
                assert!(caught_up.len() <= 1, "{name} at {at} ms: {}", show(&slot));
                let live = caught_up
                    .iter()
                    .filter(|replica| view.host(replica.host).is_some_and(|host| host.state == HostState::Live));
                for replica in live {
                    let lag = replica.lag(slot.end).expect("a caught-up active has a position");
                    assert!(lag <= WRITTEN_MEANWHILE, "{name} at {at} ms: {}", show(&slot));
                }
            }
        }
    }
}

#[test]
fn in_both_versions_a_closing_server_has_no_numbers_once_its_entries_are_gone() {
    for (name, sequence) in [("0.29.0", ROLL), ("7.4.0", ROLL_7_4)] {
        let views = replay(sequence);
        let closing: Vec<_> = views.iter().filter(|(_, view)| states(view)[2] == "closing").collect();
        let (first, last) = (closing.first().expect("it closes"), closing.last().expect("it closes"));
        assert!((5_012..8_100).contains(&first.0), "{name}: closing since {} ms", first.0);
        let slots = slots(&last.1);
        let numbers = slots.iter().flat_map(|slot| &slot.replicas);
        let mut of_victim = numbers.filter(|replica| replica.host == VICTIM).peekable();
        assert!(of_victim.peek().is_some(), "{name}: its partitions are still listed");
        assert!(of_victim.all(|replica| replica.position.is_none()), "{name} at {} ms", last.0);
    }
}

/// What a lookup on a partition would do at an instant of the recording.
fn planned(view: &ClusterView, at: u64, partition: u32) -> Plan {
    let slot = view.slot(&view.tables["TL"], partition);
    plan(&slot, &Options::default(), view, &Traffic::default(), Moment::from_millis(at))
}

#[test]
fn at_every_instant_the_first_choice_is_fit_and_as_fresh_as_any() {
    for (name, sequence) in
        [("kill", KILL), ("pause", PAUSE), ("start", START), ("roll", ROLL), ("roll of 7.4.0", ROLL_7_4)]
    {
        for (at, view) in replay(sequence) {
            for partition in 0..6 {
                let slot = view.slot(&view.tables["TL"], partition);
                let fit = |replica: &&ReplicaView| view.hosts[usize::from(replica.host)].state == HostState::Live;
                let best = slot
                    .replicas
                    .iter()
                    .filter(fit)
                    .filter(|r| r.settled)
                    .filter_map(|r| r.position)
                    .map(|p| p.current)
                    .max();
                let plan = planned(&view, at, partition);
                let Some(first) = plan.candidates.first() else { panic!("{name} at {at} ms: {}", show(&slot)) };
                let Some(best) = best else { continue };
                let chosen = slot.replicas.iter().find(|replica| replica.host == first.host).unwrap();
                assert!(fit(&chosen), "{name} at {at} ms, partition {partition}: {}", show(&slot));
                let position = chosen.position.expect("a choice with a position while one is known").current;
                let written = i64::try_from(WRITTEN_MEANWHILE).unwrap();
                assert!(position + written >= best, "{name} at {at} ms, partition {partition}: {}", show(&slot));
            }
        }
    }
}

#[test]
fn a_restoring_active_and_a_closing_server_come_after_a_current_standby() {
    let first = |sequence, at: u64, partition| {
        let views = replay(sequence);
        let (made, view) = views.iter().rfind(|(made, _)| *made <= at).unwrap();
        planned(view, *made, partition).candidates[0].host
    };
    assert_eq!(first(ROLL, 6_500, 1), VICTIM, "the caught-up active");
    assert_eq!(first(ROLL, 9_500, 1), 1, "closing, although hostAlive is true");
    assert_eq!(first(ROLL, 36_650, 1), 1, "active again, and hundreds of records behind");
    assert_eq!(first(ROLL, 38_000, 1), VICTIM, "caught up");
    assert_eq!(first(START, 24_110, 1), 1, "active, and thousands of records behind");
    assert_eq!(first(PAUSE, 13_550, 4), 0, "back from a pause, and has not reported since");
}
