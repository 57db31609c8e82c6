//! How many attempts beyond the first may be made.

use crate::view::Moment;

/// A token bucket: every request adds a fraction of a token, time adds a few, an extra attempt takes one.
///
/// Example: ratio 0.2 and 20 a second allow, at 500 requests a second, 120 extra attempts a second in the long run, and
/// a burst of [`Budget::BURST_SECONDS`] of that after a quiet time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    ratio: f64,
    per_second: f64,
    tokens: f64,
    refilled: Moment,
}

impl Budget {
    /// How many seconds of the timed refill may be saved up; a server that freezes must not exhaust the budget before
    /// it is recognised (about 1 s).
    pub const BURST_SECONDS: f64 = 10.0;

    /// Extra attempts that may be saved up where time adds none.
    const LEAST_CAPACITY: f64 = 10.0;

    /// A full bucket; where time adds nothing, an empty one.
    pub fn new(ratio: f64, per_second: f64, now: Moment) -> Self {
        Budget { ratio, per_second, tokens: per_second * Self::BURST_SECONDS, refilled: now }
    }

    /// Counts a request.
    pub fn deposit(&mut self, now: Moment) {
        self.refill(now);
        self.tokens = (self.tokens + self.ratio).min(self.capacity());
    }

    /// Takes a token for one extra attempt; `false` if there is none.
    pub fn withdraw(&mut self, now: Moment) -> bool {
        self.refill(now);
        let granted = self.tokens >= 1.0;
        if granted {
            self.tokens -= 1.0;
        }
        granted
    }

    fn refill(&mut self, now: Moment) {
        let gained = now.since(self.refilled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.capacity());
        self.refilled = self.refilled.max(now);
    }

    fn capacity(&self) -> f64 {
        (self.per_second * Self::BURST_SECONDS).max(Self::LEAST_CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn extra_attempts_are_bounded_by_requests_and_time() {
        let mut now = Moment::EPOCH;
        let mut budget = Budget::new(0.25, 1.0, now);
        assert_eq!((0..100).filter(|_| budget.withdraw(now)).count(), 10);
        (0..10).for_each(|_| budget.deposit(now));
        assert_eq!((0..100).filter(|_| budget.withdraw(now)).count(), 2);
        now = now + Duration::from_secs(3);
        assert_eq!((0..100).filter(|_| budget.withdraw(now)).count(), 3);
        now = now + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| budget.withdraw(now)).count(), 10, "a long quiet time saves no more");
    }
}
