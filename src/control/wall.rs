//! This machine's wall clock: how old the local server's reports are.

use crate::view::Moment;
use std::time::Duration;

/// An age beyond this is a clock that was set, not a report.
const PLAUSIBLE_AGE: Duration = Duration::from_secs(3600);

/// This machine's wall clock, which the local server shares: ages of its reports are right unless it was set meanwhile.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    /// The wall clock at the monotonic clock's epoch, milliseconds.
    epoch_ms: Option<i64>,
    /// What it showed when it was last found to have been set.
    set_ms: Option<i64>,
}

/// A difference between the two clocks beyond this is a wall clock that was set, milliseconds; NTP slews by 0.5 ms a second.
const SET_BY_MS: u64 = 20;

impl WallClock {
    /// The age at `now` (`now_ms` by the wall) of a report that the server dates `updated_ms`; `None` if the clock was set
    /// since, is ahead of this machine's, or the age makes no sense.
    pub fn age(&mut self, now_ms: i64, now: Moment, updated_ms: i64) -> Option<Duration> {
        let epoch_ms = now_ms.saturating_sub(i64::try_from(now.since_epoch().as_millis()).unwrap_or(i64::MAX));
        if self.epoch_ms.replace(epoch_ms).is_some_and(|before| before.abs_diff(epoch_ms) > SET_BY_MS) {
            self.set_ms = Some(now_ms);
        }
        let age = u64::try_from(now_ms.checked_sub(updated_ms)?).ok().map(Duration::from_millis)?;
        let since_set = self.set_ms.is_none_or(|set| updated_ms > set && now_ms > set);
        (updated_ms > 0 && age <= PLAUSIBLE_AGE && since_set).then_some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_while_the_clock_runs_evenly() {
        let mut wall = WallClock::default();
        let mut age =
            |now_ms, at, updated| wall.age(now_ms, Moment::from_millis(at), updated).map(|age| age.as_millis());
        assert_eq!(age(1_000_000, 5_000, 999_300), Some(700));
        assert_eq!(age(1_000_500, 5_500, 1_000_400), Some(100));
        assert_eq!(age(1_001_000, 6_000, 1_001_001), None, "ahead of this machine's clock");
        assert_eq!(age(991_500, 6_500, 991_400), None, "the clock was set back meanwhile");
        assert_eq!(age(992_000, 7_000, 991_900), Some(100), "a report of after that");
        assert_eq!(age(5_000_000, 7_500, 991_900), None, "set forward: the report is from before");
        assert_eq!(age(5_000_500, 8_000, 0), None);
    }
}
