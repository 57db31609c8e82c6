//! What a plan is made of.

use crate::view::{HostIndex, Moment, Role};
use smallvec::SmallVec;
use std::time::Duration;

/// Why a candidate stands where it stands; the better preference comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// The request's session read this host last, and sessions are sticky.
    Session,
    /// The active, agreed on, settled and at the end of its changelog: nobody can be ahead of it.
    CaughtUpActive,
    /// The largest reported position, or one that a report interval of writes does not tell from it.
    Freshest,
    /// A smaller reported position.
    Behind,
    /// Within the bounds of a request that asks for any replica: the less busy of two, then the others by how busy.
    LeastLoaded,
    /// Started, moved or paused a moment ago: has yet to report twice.
    Unsettled,
    /// No lag is known of it; the active comes first among these.
    LagUnknown,
    /// Servers report lags, but it has no entry for this partition: it will refuse a pin.
    NoLagEntry,
    /// Requests met it closing, broken or overdue a moment ago, or it seems to stand still.
    Shunned,
    /// Not eligible, and asked only because no replica is.
    LastResort,
    /// Does not keep the request's bound, and the policy is to serve the freshest all the same.
    Degraded,
}

impl Preference {
    /// The label in metrics, access records and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Preference::Session => "session",
            Preference::CaughtUpActive => "caught_up_active",
            Preference::Freshest => "freshest",
            Preference::Behind => "behind",
            Preference::LeastLoaded => "least_loaded",
            Preference::Unsettled => "unsettled",
            Preference::LagUnknown => "lag_unknown",
            Preference::NoLagEntry => "no_lag_entry",
            Preference::Shunned => "shunned",
            Preference::LastResort => "last_resort",
            Preference::Degraded => "degraded",
        }
    }

    /// What it means, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Preference::Session => "the session read it last",
            Preference::CaughtUpActive => {
                "the active, at the end of its changelog as of its own report: nobody can be ahead of it"
            }
            Preference::Freshest => "no replica is ahead of it by more than one report interval of writes",
            Preference::Behind => "another replica has reported a larger position",
            Preference::LeastLoaded => "any replica may answer, and this one is less busy",
            Preference::Unsettled => "has yet to report twice since it started, moved, changed role or paused",
            Preference::LagUnknown => "no young report of it is known",
            Preference::NoLagEntry => "its report does not name this partition, so it would refuse",
            Preference::Shunned => "refused, hung or called itself closing a moment ago",
            Preference::LastResort => "not eligible, and asked only if no other replica is left",
            Preference::Degraded => "does not keep the bound, and freshness.on_unmet is degrade",
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
    /// Not known to hold everything that was logged until the request's bound in time.
    TooStale,
    /// Not known to hold everything that the request's token has seen.
    BehindToken,
    /// The request asks for the active, and this is not it.
    NotTheActive,
    /// The request asks for the active, and the servers do not agree that this is it, or it has just started.
    ActiveUncertain,
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
            Rejection::TooStale => "too_stale",
            Rejection::BehindToken => "behind_token",
            Rejection::NotTheActive => "not_the_active",
            Rejection::ActiveUncertain => "active_uncertain",
        }
    }

    /// What it means, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Rejection::Dead => "does not answer this sidecar's probes",
            Rejection::Starting => "is starting: answers with 503",
            Rejection::Closing => "is shutting down",
            Rejection::StandbyReadsOff => "is a standby, and the servers do not let standbys answer",
            Rejection::CannotPin => "its version is too old for a pin",
            Rejection::OverBound => "lacks more records than the bound allows",
            Rejection::LagUnknown => "no report young enough shows that it keeps the bound",
            Rejection::TooStale => "not known to hold everything up to the bound in time",
            Rejection::BehindToken => "not known to hold everything that the token has seen",
            Rejection::NotTheActive => "level active: it is not the active",
            Rejection::ActiveUncertain => "level active: the servers do not agree on it, or it has just taken over",
        }
    }

    /// Whether the host could answer, and only the request's bounds keep it from being asked.
    pub fn is_by_bound(self) -> bool {
        matches!(self, Rejection::OverBound | Rejection::LagUnknown | Rejection::TooStale | Rejection::BehindToken)
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
    /// Until when it certainly holds everything that was logged, where the request's options ask for it.
    pub complete_until: Option<Moment>,
    /// Whether a key that it does not have is absent, and not just not yet there.
    pub sees_absence: bool,
}

/// A replica not to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejected {
    /// What it would be as a candidate.
    pub candidate: Candidate,
    /// Why it is none.
    pub reason: Rejection,
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
