//! The timelines of the captured cluster, replayed: the model shows the same of the same server at about the same times.

use super::timelines::{model, run, seen};
use ksqldb_sidecar::emulator::{ClusterConfig, Fault};
use serde_json::Value;
use std::time::Duration;

/// What happened to a server in the eyes of another, in milliseconds of the capture.
#[derive(Debug, Default, PartialEq)]
struct Milestones {
    lags_gone: Option<i64>,
    dead: Option<i64>,
    moved: Option<i64>,
    alive: Option<i64>,
    active: Option<i64>,
    lags_back: Option<i64>,
}

impl Milestones {
    /// Takes what is seen at a time: alive, whether it has active partitions, whether it has lag entries.
    fn see(&mut self, at: i64, alive: bool, active: bool, lags: bool) {
        let first = |place: &mut Option<i64>, holds: bool| {
            if holds && place.is_none() {
                *place = Some(at);
            }
        };
        first(&mut self.lags_gone, !lags);
        first(&mut self.dead, !alive);
        first(&mut self.moved, !active);
        let (was_dead, was_moved, were_gone) = (self.dead.is_some(), self.moved.is_some(), self.lags_gone.is_some());
        first(&mut self.alive, was_dead && alive);
        first(&mut self.active, was_moved && active);
        first(&mut self.lags_back, were_gone && lags && alive);
    }
}

fn captured(name: &str) -> (Vec<(i64, String)>, Milestones, i64) {
    let all: Value = serde_json::from_str(include_str!("../fixtures/timelines.json")).unwrap();
    let events: Vec<(i64, String)> = serde_json::from_value(all[name]["events"].clone()).unwrap();
    let mut milestones = Milestones::default();
    let seen: Vec<(i64, bool, Vec<u64>, Vec<u64>)> = serde_json::from_value(all[name]["seen"].clone()).unwrap();
    for (at, alive, active, lags) in &seen {
        milestones.see(*at, *alive, !active.is_empty(), !lags.is_empty());
    }
    let last = seen.last().unwrap().0;
    (events, milestones, last)
}

/// Replays a capture's events after `before` of another life.
fn replayed(name: &str, prelude: Option<Fault>) -> (Milestones, Milestones) {
    let (events, wanted, last) = captured(name);
    let mut model = model(ClusterConfig::default());
    prelude.into_iter().for_each(|fault| model.inject(fault));
    let offset = Duration::from_secs(30);
    run(&mut model, offset);
    let mut events = events.into_iter().filter(|(_, event)| event != "ready").peekable();
    let mut found = Milestones::default();
    // Polled every 500 ms, as it was captured; a little longer than the capture, for what is late by chance.
    for at in (0..last + 10_000).step_by(500) {
        while let Some((_, event)) = events.next_if(|(when, _)| *when <= at) {
            model.inject(match event.as_str() {
                "SIGTERM" => Fault::Close(2),
                "SIGKILL" => Fault::Crash(2),
                "SIGSTOP" => Fault::Pause(2),
                "SIGCONT" => Fault::Resume(2),
                "start" => Fault::Start(2),
                other => panic!("{other}"),
            });
        }
        run(&mut model, offset + Duration::from_millis(at.unsigned_abs()));
        let seen = seen(&mut model, 0, 2);
        found.see(at, seen.alive, !seen.active.is_empty(), !seen.lags.is_empty());
    }
    (wanted, found)
}

fn close(what: &str, wanted: Option<i64>, found: Option<i64>, tolerance: i64) {
    match (wanted, found) {
        (Some(a), Some(b)) => assert!((a - b).abs() <= tolerance, "{what}: captured at {a} ms, here at {b} ms"),
        (a, b) => assert_eq!(a, b, "{what}"),
    }
}

fn compare(name: &str, prelude: Option<Fault>) {
    let (wanted, found) = replayed(name, prelude);
    close("lag entries vanish", wanted.lags_gone, found.lags_gone, 1500);
    close("hostAlive turns false", wanted.dead, found.dead, 1500);
    close("partitions move away", wanted.moved, found.moved, 2500);
    // Starts of the captured server differ by 3 s among themselves.
    close("hostAlive turns true", wanted.alive, found.alive, 4000);
    close("partitions move back", wanted.active, found.active, 4000);
    close("lag entries return", wanted.lags_back, found.lags_back, 4000);
}

#[test]
fn a_roll() {
    compare("roll", None);
}

#[test]
fn a_kill() {
    compare("kill", None);
}

#[test]
fn a_pause_shorter_than_the_session_timeout() {
    compare("pause", None);
}

#[test]
fn a_start_of_a_server_that_was_killed() {
    compare("start", Some(Fault::Crash(2)));
}
