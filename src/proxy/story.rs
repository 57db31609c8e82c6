//! Why a request goes where it goes, kept for those who ask afterwards.

use crate::route::{Candidate, PassReason, Plan};
use crate::telemetry::{Considered, Kept, Why};
use crate::view::ClusterView;
use std::sync::Arc;
use std::time::Duration;

/// What passes through without a plan.
pub(super) const UNTOUCHED: Why =
    Why { label: "untouched", meaning: "no pull query: goes to the local server, to another one while that is down" };

/// A push query.
pub(super) const PUSH: Why =
    Why { label: "push", meaning: "a push query: runs at the local server, at another one while that is down" };

/// A query for many partitions.
pub(super) const SCATTER: Why =
    Why { label: "scatter", meaning: "needs several partitions: each is asked of its freshest replica" };

/// What was decided on one request.
#[derive(Debug)]
pub(super) struct Story {
    /// Whether plans are kept at all.
    kept: bool,
    /// Whether a plan was made before.
    asked: bool,
    pub why: Why,
    pub bounds: Option<Kept>,
    pub replicas: Vec<Considered>,
    pub waited: Option<Duration>,
}

impl Story {
    /// Nothing is decided yet; plans are noted only if they are `kept`.
    pub fn new(kept: bool) -> Self {
        Story { kept, asked: false, why: UNTOUCHED, bounds: None, replicas: Vec::new(), waited: None }
    }

    /// Whether plans are kept.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Notes that the servers route it.
    pub fn passed(&mut self, reason: PassReason) {
        self.why = Why { label: reason.as_str(), meaning: reason.describe() };
    }

    /// Notes what the answer must keep.
    pub fn bound(&mut self, bounds: impl FnOnce() -> Kept) {
        if self.kept {
            self.bounds = Some(bounds());
        }
    }

    /// Notes a plan in place of the one before.
    pub fn planned(&mut self, plan: &Plan, view: &ClusterView) {
        if !self.kept && !std::mem::replace(&mut self.asked, true) {
            return;
        }
        self.kept = true; // it is asked again, and so worth telling of
        self.why = match plan.candidates.first() {
            Some(first) => Why { label: first.preference.as_str(), meaning: first.preference.describe() },
            None if plan.native => {
                Why { label: "native", meaning: "no replica is known to answer: a server routes it" }
            }
            None => Why { label: "bound_unmet", meaning: "no replica keeps the bounds" },
        };
        self.replicas.clear();
        self.replicas.reserve_exact(plan.candidates.len() + plan.rejected.len());
        let mut consider = |candidate: &Candidate, why, rejected| {
            let Some(host) = view.host(candidate.host) else { return };
            let (host, role) = (Arc::clone(&host.name), candidate.role.as_str());
            self.replicas.push(Considered { host, role, why, rejected, lag: candidate.lag, age: candidate.age });
        };
        for candidate in &plan.candidates {
            let preference = candidate.preference;
            consider(candidate, Why { label: preference.as_str(), meaning: preference.describe() }, false);
        }
        for rejected in &plan.rejected {
            let reason = rejected.reason;
            consider(&rejected.candidate, Why { label: reason.as_str(), meaning: reason.describe() }, true);
        }
    }
}
