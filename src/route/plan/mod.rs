//! The order in which the replicas of a partition are asked.

mod options;
mod types;

pub use options::{After, Options};
pub use types::{Candidate, Plan, Preference, Rejected, Rejection};

use super::Traffic;
use crate::config::Level;
use crate::view::{ClusterView, HostIndex, HostState, HostView, Moment, ReplicaView, Role, SlotView};
use std::cmp::Reverse;

/// Plans one lookup on a slot of the view.
///
/// The order is that of the level `latest`: the caught-up active, then the largest position. Positions that differ by no
/// more than one report interval of writes tie; a tie stays with the host that answered last, then goes to the local
/// host, then to the fastest, so that reads do not go back and forth in time for nothing.
pub fn plan(slot: &SlotView, options: &Options, view: &ClusterView, traffic: &Traffic, now: Moment) -> Plan {
    let mut plan = Plan { native: !options.are_bounds(), ..Plan::default() };
    let best = best_position(slot, view, now);
    for replica in &slot.replicas {
        let Some(host) = view.host(replica.host) else { continue };
        let reason = unfit(replica, host, view).or_else(|| out_of_bounds(replica, slot, options, view, now));
        let preference = match prefer(replica, host, best, slot, view, traffic, now) {
            fit if fit < Preference::Unsettled && options.favourite == Some(replica.host) => Preference::Session,
            preference => preference,
        };
        let candidate = Candidate {
            host: replica.host,
            role: replica.role,
            preference,
            lag: replica.lag(slot.end),
            age: replica.age(now),
            complete_until: replica.complete_until,
            sees_absence: absence_counts(replica, slot, options, view, now),
        };
        match reason {
            Some(reason) => plan.rejected.push(Rejected { candidate, reason }),
            None => plan.candidates.push(candidate),
        }
    }
    order(&mut plan.candidates, slot, view, traffic);
    if options.level == Level::Any {
        spread(&mut plan.candidates, traffic, |index| view.host(index).is_some_and(|host| traffic.spares(host, now)));
    }
    if plan.candidates.is_empty() && !options.are_bounds() {
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

/// Why a replica cannot be asked at all, whatever the request allows.
fn unfit(replica: &ReplicaView, host: &HostView, view: &ClusterView) -> Option<Rejection> {
    match host.state {
        HostState::Dead => Some(Rejection::Dead),
        HostState::Starting => Some(Rejection::Starting),
        HostState::Closing => Some(Rejection::Closing),
        _ if host.version.is_some_and(|version| !version.pins()) => Some(Rejection::CannotPin),
        _ if view.standby_reads == Some(false) && replica.role == Role::Standby => Some(Rejection::StandbyReadsOff),
        HostState::Live | HostState::Unknown => None,
    }
}

/// Which of the request's bounds a replica does not keep, as far as is known.
fn out_of_bounds(
    replica: &ReplicaView,
    slot: &SlotView,
    options: &Options,
    view: &ClusterView,
    now: Moment,
) -> Option<Rejection> {
    if options.level == Level::Active {
        if replica.role != Role::Active {
            return Some(Rejection::NotTheActive);
        }
        if !replica.agreed || !replica.settled {
            return Some(Rejection::ActiveUncertain);
        }
    }
    if let Some(bound) = options.max_offset_lag {
        let told = replica.reliable && replica.has_young_report(now, view.max_report_age);
        match replica.lag(slot.end).filter(|_| told) {
            None => return Some(Rejection::LagUnknown),
            Some(lag) if lag > bound => return Some(Rejection::OverBound),
            Some(_) => {}
        }
    }
    let holds = |until: Moment| replica.complete_until.is_some_and(|complete| complete >= until);
    if options.complete_until.is_some_and(|until| !holds(until)) {
        return Some(Rejection::TooStale);
    }
    let after = options.after?;
    let same = after
        .same
        .is_some_and(|(host, read)| host == replica.host && replica.same_since.is_none_or(|since| since <= read));
    (!same && !after.until.is_some_and(holds)).then_some(Rejection::BehindToken)
}

/// Whether a key that a replica does not have is absent, and not just not yet there.
///
/// A stale row may be served, an empty answer for an existing key never: the replica's newest report must be young and
/// show that it keeps up, which is that it holds all that had been logged by its report before, and lacks no more of the
/// largest end than two report intervals of writes, as other hosts may have reported later. An active that everybody
/// takes for it is ahead of all; what has just started, moved, paused or changed its role tells nothing yet, but for a standby
/// that took over: what it certainly had before, it has; a bound that the request sets allows for what it lacks. Where servers report no lags,
/// nothing can be said against any replica, and where the reports of a slot have stopped, nothing against an active that had settled.
fn absence_counts(replica: &ReplicaView, slot: &SlotView, options: &Options, view: &ClusterView, now: Moment) -> bool {
    let tie = u64::try_from(slot.interval_writes).unwrap_or(0).saturating_mul(2);
    let lacks_at_most = |most: u64| replica.lag(slot.end).is_some_and(|lag| lag <= most);
    let keeps_up = (replica.keeps_up || replica.agreed) && lacks_at_most(tie);
    let sound = replica.settled && replica.reliable && (keeps_up || lacks_at_most(options.max_offset_lag.unwrap_or(0)));
    let young = |replica: &ReplicaView| replica.has_young_report(now, view.max_report_age);
    let blind = || replica.agreed && replica.settled && !slot.replicas.iter().any(young);
    let inherited = replica.heir && replica.agreed && replica.awake;
    !view.lag_reporting || (sound && replica.awake && young(replica)) || inherited || blind()
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
    if known.is_broken(host) || known.is_shunned(host, now) {
        return Preference::Shunned;
    }
    let believable = replica.has_young_report(now, view.max_report_age);
    match (replica.position, best) {
        (Some(position), Some(best)) if believable && host.state == HostState::Live => {
            if replica.is_caught_up_active() && !traffic.spares(host, now) {
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

/// Puts a replica that chance picks first, or another one in its place that is much less busy, and the others after it by
/// how busy they are. Those that requests met broken, that have just started or that are not known to hold the partition
/// stay behind.
fn spread(candidates: &mut [Candidate], traffic: &Traffic, spared: impl Fn(HostIndex) -> bool) {
    let session = candidates.iter().take_while(|candidate| candidate.preference == Preference::Session).count();
    let (_, candidates) = candidates.split_at_mut(session);
    let fit = candidates.iter().take_while(|candidate| candidate.preference < Preference::Unsettled).count();
    let (fit, _) = candidates.split_at_mut(fit);
    let busy = |candidate: &Candidate| {
        let known = traffic.host(candidate.host);
        known.latency * (known.in_flight + 1)
    };
    fit.iter_mut().for_each(|candidate| candidate.preference = Preference::LeastLoaded);
    let others = fit.len().saturating_sub(1);
    if others == 0 {
        return;
    }
    let dice = traffic.dice as usize;
    let one = dice % fit.len();
    let other = (one + 1 + (dice / fit.len()) % others) % fit.len();
    let better = busy(&fit[other]) * MUCH < busy(&fit[one]) || spared(fit[one].host);
    let chosen = if better && !spared(fit[other].host) { other } else { one };
    fit.swap(0, chosen);
    fit[1..].sort_by_key(busy);
}

/// How much busier a replica must be before a read that chance gave it goes to the other: smaller differences are noise.
const MUCH: u32 = 2;

fn order(candidates: &mut [Candidate], slot: &SlotView, view: &ClusterView, traffic: &Traffic) {
    let current = |candidate: &Candidate| {
        let replica = slot.replicas.iter().find(|replica| replica.host == candidate.host);
        replica.and_then(|replica| replica.position).map_or(i64::MIN, |position| position.current)
    };
    candidates.sort_by_key(|candidate| {
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
    (!hopeless).then_some(Candidate { preference: Preference::LastResort, ..rejected.candidate })
}

impl Plan {
    /// Puts the replicas that only the request's bounds keep from answering in the place of candidates that are missing:
    /// for those who would rather have an old answer than none.
    pub fn degrade(&mut self) {
        let by_bound = self.rejected.iter().filter(|rejected| rejected.reason.is_by_bound());
        self.candidates = by_bound.map(|r| Candidate { preference: Preference::Degraded, ..r.candidate }).collect();
        self.candidates.sort_by_key(|c| (Reverse(c.complete_until), c.lag.unwrap_or(u64::MAX)));
    }
}

#[cfg(test)]
mod tests;
