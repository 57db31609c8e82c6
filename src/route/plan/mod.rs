//! The order in which the replicas of a partition are asked.

use super::Traffic;
use crate::view::{ClusterView, HostIndex, HostState, HostView, Moment, ReplicaView, Role, SlotView};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::time::Duration;

/// What a request asks of the replicas that may answer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Most records that the answering replica may lack, by its newest report; `None`: no bound.
    pub max_offset_lag: Option<u64>,
}

/// Why a candidate stands where it stands; the better preference comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// The active, agreed on, settled and at the end of its changelog: nobody can be ahead of it.
    CaughtUpActive,
    /// The largest reported position, or one that a report interval of writes does not tell from it.
    Freshest,
    /// A smaller reported position.
    Behind,
    /// Started, moved or paused a moment ago: has yet to report twice.
    Unsettled,
    /// No lag is known of it; the active comes first among these.
    LagUnknown,
    /// Servers report lags, but it has no entry for this partition: it will refuse a pin.
    NoLagEntry,
    /// Requests met it closing, broken or overdue a moment ago.
    Shunned,
    /// Not eligible, and asked only because no replica is.
    LastResort,
}

impl Preference {
    /// The label in metrics, access records and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Preference::CaughtUpActive => "caught_up_active",
            Preference::Freshest => "freshest",
            Preference::Behind => "behind",
            Preference::Unsettled => "unsettled",
            Preference::LagUnknown => "lag_unknown",
            Preference::NoLagEntry => "no_lag_entry",
            Preference::Shunned => "shunned",
            Preference::LastResort => "last_resort",
        }
    }
}

/// Why a replica is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Dead by this sidecar's own probes.
    Dead,
    /// Answers 503.
    Starting,
    /// Is shutting down.
    Closing,
    /// A standby, and the servers do not let standbys answer.
    StandbyReadsOff,
    /// Too old a version for a pin.
    CannotPin,
    /// Lacks more records than the request allows.
    OverBound,
    /// The request sets a bound, and no report young enough tells whether the replica keeps it.
    LagUnknown,
}

impl Rejection {
    /// The label in metrics, error messages and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Rejection::Dead => "dead",
            Rejection::Starting => "starting",
            Rejection::Closing => "closing",
            Rejection::StandbyReadsOff => "standby_reads_off",
            Rejection::CannotPin => "cannot_pin",
            Rejection::OverBound => "over_bound",
            Rejection::LagUnknown => "lag_unknown",
        }
    }
}

/// A replica to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Where.
    pub host: HostIndex,
    /// Its role by the newest placement.
    pub role: Role,
    /// Why it stands where it stands.
    pub preference: Preference,
    /// Records it lacked at its newest report, against the largest end offset of all hosts.
    pub lag: Option<u64>,
    /// Age of that report.
    pub age: Option<Duration>,
    /// Whether what it does not have is not there: see [`absence_counts`].
    pub sees_absence: bool,
}

/// A replica not to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejected {
    /// Where.
    pub host: HostIndex,
    /// Its role by the newest placement.
    pub role: Role,
    /// Why not.
    pub reason: Rejection,
    /// Records it lacked at its newest report.
    pub lag: Option<u64>,
    /// Age of that report.
    pub age: Option<Duration>,
    /// See [`Candidate::sees_absence`].
    pub sees_absence: bool,
}

/// Whom to ask, in order. First pick and retries come from the same plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The replicas to ask, best first.
    pub candidates: SmallVec<[Candidate; 4]>,
    /// The replicas not to ask.
    pub rejected: SmallVec<[Rejected; 4]>,
    /// Whether the plain request may follow: not under a bound, which the servers' own routing would not keep.
    pub native: bool,
}

/// Plans one lookup on a slot of the view.
///
/// The order is that of the level `latest`: the caught-up active, then the largest position. Positions that differ by no
/// more than one report interval of writes tie; a tie stays with the host that answered last, then goes to the local
/// host, then to the fastest, so that reads do not go back and forth in time for nothing.
pub fn plan(slot: &SlotView, options: &Options, view: &ClusterView, traffic: &Traffic, now: Moment) -> Plan {
    let mut plan = Plan { native: options.max_offset_lag.is_none(), ..Plan::default() };
    let best = best_position(slot, view, now);
    for replica in &slot.replicas {
        let Some(host) = view.host(replica.host) else { continue };
        let (lag, age) = (replica.lag(slot.end), replica.age(now));
        match reject(replica, host, lag, age, options, view) {
            Some(reason) => {
                let sees_absence = absence_counts(replica, slot, options, view, now);
                plan.rejected.push(Rejected { host: replica.host, role: replica.role, reason, lag, age, sees_absence });
            }
            None => plan.candidates.push(Candidate {
                host: replica.host,
                role: replica.role,
                preference: prefer(replica, host, best, slot, view, traffic, now),
                lag,
                age,
                sees_absence: absence_counts(replica, slot, options, view, now),
            }),
        }
    }
    order(&mut plan.candidates, slot, view, traffic);
    if plan.candidates.is_empty() && options.max_offset_lag.is_none() {
        plan.candidates.extend(plan.rejected.iter().filter_map(last_resort));
    }
    plan
}

/// The largest position among replicas whose numbers are numbers.
fn best_position(slot: &SlotView, view: &ClusterView, now: Moment) -> Option<i64> {
    let believable = slot.replicas.iter().filter(|replica| {
        replica.has_young_report(now, view.max_report_age)
            && view.host(replica.host).is_some_and(|host| host.state == HostState::Live)
    });
    believable.filter_map(|replica| replica.position).map(|position| position.current).max()
}

fn reject(
    replica: &ReplicaView,
    host: &HostView,
    lag: Option<u64>,
    age: Option<Duration>,
    options: &Options,
    view: &ClusterView,
) -> Option<Rejection> {
    match host.state {
        HostState::Dead => return Some(Rejection::Dead),
        HostState::Starting => return Some(Rejection::Starting),
        HostState::Closing => return Some(Rejection::Closing),
        HostState::Live | HostState::Unknown => {}
    }
    if host.version.is_some_and(|version| !version.pins()) {
        return Some(Rejection::CannotPin);
    }
    if view.standby_reads == Some(false) && replica.role == Role::Standby {
        return Some(Rejection::StandbyReadsOff);
    }
    let bound = options.max_offset_lag?;
    match (lag, age) {
        (Some(lag), Some(age)) if age <= view.max_report_age => (lag > bound).then_some(Rejection::OverBound),
        _ => Some(Rejection::LagUnknown),
    }
}

/// Whether a key that a replica does not have is absent, and not just not yet there.
///
/// A stale row may be served, an empty answer for an existing key never: the replica's newest report must be young and
/// show it at the changelog's end, up to one report interval of writes, or within the bound that the request sets. Where
/// servers report no lags, nothing can be said against any replica.
fn absence_counts(replica: &ReplicaView, slot: &SlotView, options: &Options, view: &ClusterView, now: Moment) -> bool {
    let tie = u64::try_from(slot.interval_writes).unwrap_or(0);
    let most = tie.max(options.max_offset_lag.unwrap_or(0));
    let at_the_end = replica.lag(slot.end).is_some_and(|lag| lag <= most);
    !view.lag_reporting || (at_the_end && replica.has_young_report(now, view.max_report_age))
}

fn prefer(
    replica: &ReplicaView,
    host: &HostView,
    best: Option<i64>,
    slot: &SlotView,
    view: &ClusterView,
    traffic: &Traffic,
    now: Moment,
) -> Preference {
    let known = traffic.host(replica.host);
    if known.is_broken(host) || known.is_shunned(now) {
        return Preference::Shunned;
    }
    let believable = replica.has_young_report(now, view.max_report_age);
    match (replica.position, best) {
        (Some(position), Some(best)) if believable && host.state == HostState::Live => {
            if replica.is_caught_up_active() {
                Preference::CaughtUpActive
            } else if !replica.settled {
                Preference::Unsettled
            } else if best.saturating_sub(position.current) <= slot.interval_writes.max(0) {
                Preference::Freshest
            } else {
                Preference::Behind
            }
        }
        (None, _) if view.lag_reporting => Preference::NoLagEntry,
        _ => Preference::LagUnknown,
    }
}

fn order(candidates: &mut [Candidate], slot: &SlotView, view: &ClusterView, traffic: &Traffic) {
    let current = |candidate: &Candidate| {
        let replica = slot.replicas.iter().find(|replica| replica.host == candidate.host);
        replica.and_then(|replica| replica.position).map_or(i64::MIN, |position| position.current)
    };
    candidates.sort_by_cached_key(|candidate| {
        let tied = candidate.preference == Preference::Freshest;
        (
            candidate.preference,
            Reverse(if tied { 0 } else { current(candidate) }),
            traffic.last_served != Some(candidate.host),
            candidate.role != Role::Active && !tied,
            view.host(candidate.host).is_none_or(|host| !host.local),
            traffic.host(candidate.host).latency,
        )
    });
}

/// A host that is only believed to be unfit is still asked when no other is left; a wrong belief must not fail a read.
fn last_resort(rejected: &Rejected) -> Option<Candidate> {
    let hopeless = matches!(rejected.reason, Rejection::CannotPin | Rejection::StandbyReadsOff);
    (!hopeless).then_some(Candidate {
        host: rejected.host,
        role: rejected.role,
        preference: Preference::LastResort,
        lag: rejected.lag,
        age: rejected.age,
        sees_absence: rejected.sees_absence,
    })
}

#[cfg(test)]
mod tests;
