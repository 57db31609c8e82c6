//! Time as the pure code sees it: an argument, never a clock.

use std::time::Duration;

/// A point on this process's monotonic clock, counted from an epoch that the process chose at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The epoch.
    pub const EPOCH: Moment = Moment(Duration::ZERO);

    /// The moment that lies `span` after the epoch.
    pub const fn after_epoch(span: Duration) -> Self {
        Moment(span)
    }

    /// The moment `millis` after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Moment(Duration::from_millis(millis))
    }

    /// The span since the epoch.
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// The span from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment moved back by `span`, not beyond the epoch.
    pub fn back(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(span))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }
}

/// The interval in which something certainly happened: not before `from`, not after `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Not before.
    pub from: Moment,
    /// Not after.
    pub to: Moment,
}
