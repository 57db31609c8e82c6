//! Clocks that differ.

use super::super::code::{CLOCK_HERE, CLOCK_SKEW};
use super::super::facts::{ClockFact, Facts};
use super::Finding;

/// Largest difference that is none: half of what makes servers count each other as dead (`ksql.heartbeat.window.ms`, 2 s).
const ALLOWED_MS: u64 = 1000;

pub(super) fn find(facts: &Facts, found: &mut Vec<Finding>) {
    for (name, off_ms) in skewed(facts) {
        let way = if off_ms > 0 { "ahead of" } else { "behind" };
        found.push(Finding::new(
            CLOCK_SKEW,
            format!("the clock of {name} is {} ms {way} the others", off_ms.abs()),
            "let NTP set the clock of that machine",
            "beyond 2 s servers count each other as dead; bounds in time are kept by these clocks",
        ));
    }
    let clocks = clocks(facts);
    let (reference, within_ms) = reference(&clocks);
    if clocks.len() > 1 && reference.unsigned_abs() > ALLOWED_MS + within_ms {
        found.push(Finding::new(
            CLOCK_HERE,
            format!("the servers' clocks differ from this machine's by {reference} ms"),
            "let NTP set this machine's clock if a sidecar is to run here",
            "the sidecar beside a server tells the age of its lag reports by their common clock",
        ));
    }
}

/// The servers whose clocks are wrong, and by how many milliseconds.
pub(super) fn skewed(facts: &Facts) -> Vec<(&str, i64)> {
    let clocks = clocks(facts);
    let (reference, _) = reference(&clocks);
    let off = clocks.iter().map(|(name, clock)| (*name, clock.ahead_ms.saturating_sub(reference), clock.within_ms));
    let most = clocks.iter().map(|(_, clock)| clock.within_ms).max().unwrap_or_default();
    off.filter(|(_, off_ms, within_ms)| off_ms.unsigned_abs() > ALLOWED_MS + within_ms + most)
        .map(|(name, off_ms, _)| (name, off_ms))
        .collect()
}

fn clocks(facts: &Facts) -> Vec<(&str, ClockFact)> {
    facts.answering().filter_map(|server| Some((server.name.as_str(), server.clock?))).collect()
}

/// What the clocks are compared with, milliseconds ahead of this machine's, and how wrong that may be: the middle one of
/// several, of two middle ones the nearer to this machine's, and this machine's clock for a single one.
fn reference(clocks: &[(&str, ClockFact)]) -> (i64, u64) {
    if clocks.len() < 2 {
        return (0, 0);
    }
    let mut sorted: Vec<ClockFact> = clocks.iter().map(|(_, clock)| *clock).collect();
    sorted.sort_by_key(|clock| clock.ahead_ms);
    let middle = sorted.get((sorted.len() - 1) / 2..=sorted.len() / 2).unwrap_or_default();
    let nearest = middle.iter().min_by_key(|clock| clock.ahead_ms.unsigned_abs());
    nearest.map_or((0, 0), |clock| (clock.ahead_ms, clock.within_ms))
}
