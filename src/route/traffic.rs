//! What requests themselves have learned, as one plan sees it.

use crate::view::{HostIndex, HostView, Moment};
use smallvec::SmallVec;
use std::time::Duration;

/// What requests have learned about one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTraffic {
    /// Attempts under way.
    pub in_flight: u32,
    /// Smoothed time to the first body byte; zero before the first answer.
    pub latency: Duration,
    /// When a connection to it was last refused or broke before an answer.
    pub broken_at: Option<Moment>,
    /// Until when it is asked last: it said that it is closing, or attempts are overdue and none was answered since.
    pub shunned_until: Option<Moment>,
    /// When an answer last came from it.
    pub answered_at: Option<Moment>,
}

/// A snapshot of what requests have learned, for one partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// By [`HostIndex`]; a host not listed has no history.
    pub hosts: SmallVec<[HostTraffic; 4]>,
    /// Who answered for this partition last.
    pub last_served: Option<HostIndex>,
    /// What chance decides.
    pub dice: u64,
}

impl HostTraffic {
    /// Whether a connection broke, and no probe sent since then has been answered.
    pub(super) fn is_broken(&self, host: &HostView) -> bool {
        self.broken_at.is_some_and(|at| host.last_ok.is_none_or(|ok| ok <= at))
    }

    /// Whether it is asked last for a while: requests found it unfit, or it seems to stand still and no request has had an
    /// answer since.
    pub(super) fn is_shunned(&self, host: &HostView, now: Moment) -> bool {
        let stands_still = |at: Moment| self.answered_at.is_none_or(|answered| answered <= at);
        self.shunned_until.is_some_and(|until| now < until) || host.suspected.is_some_and(stands_still)
    }
}

/// How long a server that came back is given only a growing share of what it could be asked: its code is cold.
const WARM_UP: Duration = Duration::from_secs(20);

impl Traffic {
    /// Whether a server gets this request although others would do: one that has just come back gets a growing share.
    pub(super) fn spares(&self, host: &HostView, now: Moment) -> bool {
        let share = |at: Moment| now.since(at).as_secs_f64() / WARM_UP.as_secs_f64();
        let chance = (self.dice >> 32) as f64 / f64::from(u32::MAX);
        host.returned.is_some_and(|at| chance >= share(at))
    }

    /// What is known of a host.
    pub fn host(&self, index: HostIndex) -> HostTraffic {
        self.hosts.get(usize::from(index)).copied().unwrap_or_default()
    }
}
