//! Heartbeats, lag reports, and what they tell of standbys.

use super::super::code::{HEARTBEATS_OFF, LAG_INTERVAL_LONG, LAG_REPORTS_FROZEN, LAG_REPORTS_OFF, STANDBY_BEHIND};
use super::super::facts::{Facts, ServerFacts, StandbyFact};
use super::{Finding, clocks, list};
use std::collections::BTreeMap;

/// Longest time between two lag reports, milliseconds: from then on bounds in time are of little use, as nobody can keep one
/// below twice that. Servers' own default is 5000.
const INTERVAL_MS: u64 = 3000;

const RESTART: &str = "on every server";

pub(super) fn find(facts: &Facts, found: &mut Vec<Finding>) {
    let without: Vec<&ServerFacts> = facts.answering().filter(|server| server.heartbeats == Some(false)).collect();
    if !without.is_empty() {
        found.push(Finding::new(
            HEARTBEATS_OFF,
            format!("heartbeats are off (/clusterStatus is a 404) on {}", list(facts, &without)),
            format!("set ksql.heartbeat.enable=true and ksql.lag.reporting.enable=true {RESTART}"),
            "sidecars learn who holds which partition and how fresh it is; dead servers are skipped within a second",
        ));
    }
    if !facts.heartbeats() || facts.routed().next().is_none() {
        return; // servers report nothing where no query runs
    }
    if !facts.reports.any {
        found.push(Finding::new(
            LAG_REPORTS_OFF,
            "no server has sent a lag report (servers that started a moment ago have none yet)",
            format!("set ksql.lag.reporting.enable=true {RESTART}"),
            "sidecars send each lookup to the freshest replica, and keep bounds on freshness",
        ));
        return;
    }
    found.extend(interval(facts));
    for host in &facts.reports.silent {
        if clocks::skewed(facts).iter().any(|(name, _)| name == host) {
            continue; // reports from the past are not taken
        }
        found.push(Finding::new(
            LAG_REPORTS_FROZEN,
            format!("{host} has sent no lag report for {} ms although the others have", facts.reports.watched_ms),
            format!("let {host} reach the others; if it can, restart it"),
            "its replicas count as fresh again; until then they are asked last",
        ));
    }
    for (host, (lag, what)) in behind(facts) {
        found.push(Finding::new(
            STANDBY_BEHIND,
            format!("the standby of {what} on {host} lacks {lag} records that were logged two of its reports ago"),
            format!("look for restoring stores, a slow disk or network, or too few CPUs on {host}"),
            "the standby can stand in for its active without stale answers",
        ));
    }
}

fn interval(facts: &Facts) -> Option<Finding> {
    let seen = match facts.reports.interval_ms {
        Some(interval) if interval <= INTERVAL_MS => return None,
        Some(interval) => format!("{interval} ms lie between two lag reports"),
        // a server whose clock was set back takes no reports until it has caught up with the time before
        None if facts.reports.watched_ms <= INTERVAL_MS || !clocks::skewed(facts).is_empty() => return None,
        None => format!("no lag report came within {} ms", facts.reports.watched_ms),
    };
    Some(Finding::new(
        LAG_INTERVAL_LONG,
        seen,
        format!("set ksql.lag.reporting.send.interval.ms=1000 {RESTART}"),
        "bounds in time can be kept from about two intervals on, and a replica that fell behind is noticed sooner",
    ))
}

/// By host the standby that lacks the most.
fn behind(facts: &Facts) -> BTreeMap<&str, (u64, String)> {
    let mut worst: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for (table, routed) in facts.routed() {
        for (partition, held) in routed.placement.iter().enumerate() {
            for StandbyFact { host, overdue, .. } in &held.standbys {
                let Some(overdue) = overdue.filter(|overdue| *overdue > 0) else { continue };
                if worst.get(host.as_str()).is_none_or(|(lag, _)| *lag < overdue) {
                    worst.insert(host, (overdue, format!("{table} partition {partition}")));
                }
            }
        }
    }
    worst
}
