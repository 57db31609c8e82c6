//! One log line per change of state, never one per failure.

use super::Metrics;
use prometheus::{Gauge, IntCounter, IntGauge};
use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

/// A state that is worth a line when it changes.
#[derive(Clone, Debug, Default)]
pub struct OnChange<T>(Option<T>);

impl<T: PartialEq> OnChange<T> {
    /// A state not known yet: the first one is a change.
    pub const fn unknown() -> Self {
        Self(None)
    }

    /// Takes the state of now; the one before when it differs, `Some(None)` the first time.
    pub fn update(&mut self, state: T) -> Option<Option<T>> {
        if self.0.as_ref() == Some(&state) { None } else { Some(self.0.replace(state)) }
    }
}

/// Counts one in a gauge for as long as it lives.
#[derive(Debug)]
pub struct Counted(IntGauge);

impl Counted {
    /// Counts from now on.
    pub fn in_gauge(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// How a control loop fares: every failure is counted, the first one and the recovery are logged.
#[derive(Debug)]
pub struct LoopHealth {
    name: &'static str,
    /// Whom the loop asks, if it is one of several.
    of: String,
    failures: IntCounter,
    last_success: Gauge,
    /// Failures since the last good round.
    failed: u64,
}

impl LoopHealth {
    /// The health of the loop with this name, which is its metric label.
    pub fn new(metrics: &Metrics, name: &'static str) -> Self {
        let failures = metrics.control_loop_failures.with([name]);
        Self {
            name,
            of: String::new(),
            failures,
            last_success: metrics.control_loop_last_success.with([name]),
            failed: 0,
        }
    }

    /// Of a loop that asks `host`, as its log lines say.
    pub fn of(mut self, host: &str) -> Self {
        host.clone_into(&mut self.of);
        self
    }

    /// Notes a good round.
    pub fn succeeded(&mut self) {
        if self.failed > 0 {
            tracing::info!(name = self.name, of = self.of, failures = self.failed, "control loop works again");
        }
        self.failed = 0;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_success.set(since_epoch.as_secs_f64());
    }

    /// Notes a failed round.
    pub fn failed(&mut self, error: &impl Display) {
        if self.failed == 0 {
            tracing::warn!(name = self.name, of = self.of, %error, "control loop fails, what it knew stays");
        }
        self.failed += 1;
        self.failures.inc();
    }

    /// Whether the last round failed.
    pub fn is_failing(&self) -> bool {
        self.failed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let mut state = OnChange::unknown();
        assert_eq!(state.update("up"), Some(None));
        assert_eq!(state.update("up"), None);
        assert_eq!(state.update("down"), Some(Some("up")));
    }

    #[test]
    fn every_failure_is_counted_and_a_good_round_ends_them() {
        let metrics = Metrics::new().unwrap();
        let mut health = LoopHealth::new(&metrics, "lag");
        health.failed(&"refused");
        health.failed(&"refused");
        assert!(health.is_failing());
        health.succeeded();
        assert!(!health.is_failing());
        let text = metrics.encode().unwrap();
        assert!(text.contains("ksqldb_sidecar_control_loop_failures_total{loop=\"lag\"} 2"), "{text}");
        assert!(metrics.control_loop_last_success.with(["lag"]).get() > 1e9);
    }
}
