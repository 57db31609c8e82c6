//! How long an attempt may take before the next one joins it.

use std::time::Duration;

/// How far one sample moves the estimate of the 95th percentile at most, as a share of it, and in seconds.
const STEP: f64 = 0.1;
const LEAST_STEP: f64 = 20e-6;

/// Samples after which the 95th percentile is an estimate.
const ENOUGH: u32 = 40;

/// A running estimate of the time to the first body byte, with its variation (Jacobson/Karels, as in RFC 6298).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    smoothed: f64,
    variation: f64,
    p95: f64,
    samples: u32,
}

impl Latency {
    /// Takes in one attempt's time; that of one which was overtaken and abandoned counts too, as the least it took.
    pub fn record(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        if self.samples == 0 {
            (self.smoothed, self.variation, self.p95) = (took, took / 2.0, took);
        } else {
            // rests where one sample in twenty exceeds it
            let step = (self.p95 * STEP).max(LEAST_STEP);
            self.p95 += if took > self.p95 { 0.95 * step } else { -0.05 * step };
            self.variation += 0.25 * ((took - self.smoothed).abs() - self.variation);
            self.smoothed += 0.125 * (took - self.smoothed);
        }
        self.samples = self.samples.saturating_add(1);
    }

    /// The smoothed time, halved for each second since the last sample, so that a server that was slow once is tried again;
    /// zero before the first sample.
    pub fn smoothed(&self, idle: Duration) -> Duration {
        Duration::from_secs_f64(self.smoothed * (-idle.as_secs_f64()).exp2())
    }

    /// The time that one attempt in twenty exceeds, by about a tenth; `None` before [`ENOUGH`] samples.
    pub fn p95(&self) -> Option<Duration> {
        (self.samples >= ENOUGH).then(|| Duration::from_secs_f64(self.p95.max(0.0)))
    }

    /// Twice what the estimate allows, within `floor..=ceiling`; `ceiling` before the first sample.
    ///
    /// An attempt that exceeds it is not dropped: the next replica is asked beside it.
    pub fn limit(&self, floor: Duration, ceiling: Duration) -> Duration {
        if self.samples == 0 {
            return ceiling;
        }
        Duration::from_secs_f64(2.0 * (self.smoothed + 4.0 * self.variation)).clamp(floor, ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_millis(100);
    const CEILING: Duration = Duration::from_secs(2);

    #[test]
    fn one_attempt_in_twenty_exceeds_the_95th_percentile() {
        let mut latency = Latency::default();
        (0..39).for_each(|_| latency.record(Duration::from_millis(2)));
        assert_eq!(latency.p95(), None);
        let sample = |n: u64| Duration::from_micros(1_000 + n.wrapping_mul(7_919) % 10_000); // 1 to 11 ms, evenly
        (0..5_000).for_each(|n| latency.record(sample(n)));
        let p95 = latency.p95().expect("enough");
        assert!(p95 > Duration::from_millis(9) && p95 < Duration::from_millis(12), "{p95:?}");
    }

    #[test]
    fn the_limit_follows_what_the_server_can_do() {
        let mut latency = Latency::default();
        assert_eq!(latency.limit(FLOOR, CEILING), CEILING);
        (0..50).for_each(|_| latency.record(Duration::from_millis(2)));
        assert_eq!(latency.limit(FLOOR, CEILING), FLOOR);
        (0..50).for_each(|_| latency.record(Duration::from_millis(600)));
        assert!(latency.smoothed(Duration::ZERO) > Duration::from_millis(500));
        assert!(latency.smoothed(Duration::from_secs(8)) < Duration::from_millis(3), "it is forgotten");
        let slow = latency.limit(FLOOR, CEILING);
        assert!(slow > Duration::from_millis(1200) && slow <= CEILING, "{slow:?}");
        (0..200).for_each(|_| latency.record(Duration::from_millis(2)));
        assert_eq!(latency.limit(FLOOR, CEILING), FLOOR);
    }
}
