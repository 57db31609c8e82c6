//! How many attempts a server is given at once.

use std::time::Duration;

/// The least that a server is given, however slow it becomes.
const FLOOR: f64 = 8.0;

/// How much slower than usual an answer may be before the limit shrinks.
const TOLERANCE: f64 = 2.0;

/// A limit that follows how much slower than usual a server answers: what queues there shows as time.
///
/// It shrinks by the ratio of the usual time to the present one, and grows by its root, as long as it is what limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Concurrency {
    limit: f64,
    ceiling: f64,
    /// Seconds that an answer usually takes; follows quickly down and slowly up.
    usual: f64,
}

impl Concurrency {
    /// The whole ceiling, until answers are slow.
    pub fn new(ceiling: u32) -> Self {
        Concurrency { limit: f64::from(ceiling), ceiling: f64::from(ceiling), usual: 0.0 }
    }

    /// Attempts that may be under way at once.
    pub fn limit(&self) -> u32 {
        self.limit as u32 // at least 1, at most the ceiling
    }

    /// Takes in an answer's time, met with so many attempts under way.
    pub fn record(&mut self, took: Duration, in_flight: u32) {
        let took = took.as_secs_f64();
        if self.usual == 0.0 {
            self.usual = took;
        }
        self.usual += (took - self.usual) * if took < self.usual { 0.05 } else { 0.001 };
        if f64::from(in_flight) * 2.0 < self.limit {
            return; // the limit is not what limits
        }
        let gradient = (TOLERANCE * self.usual / took.max(1e-9)).clamp(0.5, 1.0);
        let next = 0.8 * self.limit + 0.2 * (self.limit * gradient + self.limit.sqrt());
        self.limit = next.clamp(FLOOR.min(self.ceiling), self.ceiling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of a server that works on 50 at once, 10 ms each, and queues the rest.
    fn served(concurrency: &mut Concurrency, asked: u32) {
        let in_flight = asked.min(concurrency.limit());
        let queued = f64::from(in_flight) / 50.0;
        concurrency.record(Duration::from_secs_f64(0.01 * queued.max(1.0)), in_flight);
    }

    #[test]
    fn the_limit_rests_near_what_a_server_can_do_and_comes_back() {
        let mut concurrency = Concurrency::new(400);
        (0..50).for_each(|_| served(&mut concurrency, 10));
        assert_eq!(concurrency.limit(), 400, "a quiet server is not limited");
        (0..400).for_each(|_| served(&mut concurrency, 1_000));
        assert!((50..=250).contains(&concurrency.limit()), "{concurrency:?}");
        (0..200).for_each(|_| concurrency.record(Duration::from_secs(1), 1_000));
        assert_eq!(concurrency.limit(), 8, "never less");
        (0..2_000).for_each(|_| concurrency.record(Duration::from_millis(10), 1_000));
        assert!(concurrency.limit() > 100, "{concurrency:?}");
    }

    #[test]
    fn a_small_ceiling_is_kept() {
        let mut concurrency = Concurrency::new(2);
        (0..100).for_each(|n| concurrency.record(Duration::from_millis(n), 2));
        assert_eq!(concurrency.limit(), 2);
    }
}
