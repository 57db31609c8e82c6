//! The metrics of one host, which last as long as it is a peer.

use super::Metrics;
use prometheus::Gauge;

/// The gauges of one host; dropping it takes the host's labels out of `/metrics`.
///
/// A host name becomes a label only through this type, which `control` keeps for the local server and each peer. So there
/// are never more label values than peers, whatever names `/clusterStatus` has.
#[derive(Debug)]
pub struct HostMetrics {
    metrics: Metrics,
    host: String,
    /// Largest offset lag over its slots, in changelog records.
    pub lag: Gauge,
    /// Age of its newest lag report, in seconds.
    pub report_age: Gauge,
    /// 1 while it is alive, else 0.
    pub alive: Gauge,
    state: Option<&'static str>,
}

impl HostMetrics {
    /// Starts the gauges of a host; a host has one `HostMetrics` at a time.
    pub fn new(metrics: &Metrics, host: &str) -> Self {
        Self {
            // Each of the three has the one label `host`.
            lag: metrics.host_lag.with_label_values(&[host]),
            report_age: metrics.host_report_age.with_label_values(&[host]),
            alive: metrics.host_alive.with_label_values(&[host]),
            metrics: metrics.clone(),
            host: host.to_owned(),
            state: None,
        }
    }

    /// Shows its state in place of the one before.
    pub fn set_state(&mut self, state: &'static str) {
        if self.state != Some(state) {
            self.clear_state();
            self.metrics.host_state.with_label_values(&[&self.host, state]).set(1); // the labels are host and state
            self.state = Some(state);
        }
    }

    fn clear_state(&mut self) {
        if let Some(state) = self.state.take() {
            // An error means that it has been removed already.
            let _ = self.metrics.host_state.remove_label_values(&[&self.host, state]);
        }
    }
}

/// The gauges of one partition of a table; dropping it takes them out of `/metrics`.
#[derive(Debug)]
pub struct SlotMetrics {
    metrics: Metrics,
    labels: [String; 2],
    /// Records that the hottest standby lacks; NaN without one.
    pub standby_lag: Gauge,
    /// 1 while two hosts could answer within the table's bound, else 0.
    pub failover_ready: Gauge,
}

impl SlotMetrics {
    /// Starts the gauges of a partition; there is one `SlotMetrics` of each at a time.
    pub fn new(metrics: &Metrics, table: &str, partition: u32) -> Self {
        let labels = [table.to_owned(), partition.to_string()];
        let values = [labels[0].as_str(), labels[1].as_str()];
        Self {
            // Both have the labels table and partition.
            standby_lag: metrics.standby_lag.with_label_values(&values),
            failover_ready: metrics.failover_ready.with_label_values(&values),
            metrics: metrics.clone(),
            labels,
        }
    }
}

impl Drop for SlotMetrics {
    fn drop(&mut self) {
        for family in [&self.metrics.standby_lag, &self.metrics.failover_ready] {
            // An error means that it has been removed already.
            let _ = family.remove_label_values(&[&self.labels[0], &self.labels[1]]);
        }
    }
}

impl Drop for HostMetrics {
    fn drop(&mut self) {
        self.clear_state();
        for family in [&self.metrics.host_lag, &self.metrics.host_report_age, &self.metrics.host_alive] {
            // An error means that it has been removed already.
            let _ = family.remove_label_values(&[&self.host]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_shown_while_it_is_a_peer() {
        let metrics = Metrics::new().unwrap();
        let mut host = HostMetrics::new(&metrics, "ksql-2:8088");
        host.lag.set(17.0);
        assert!(metrics.encode().unwrap().contains("ksqldb_sidecar_host_lag_records{host=\"ksql-2:8088\"} 17"));
        host.set_state("starting");
        host.set_state("running");
        let text = metrics.encode().unwrap();
        assert!(text.contains("host_state{host=\"ksql-2:8088\",state=\"running\"} 1"), "{text}");
        assert!(!text.contains("starting"), "{text}");
        drop(host);
        assert!(!metrics.encode().unwrap().contains("ksql-2"));
    }
}
