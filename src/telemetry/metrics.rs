//! Every metric of the sidecar.

use super::family::{Family, Metric, MetricSpec};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

/// Bucket bounds of request durations, in seconds: a keyed read takes 1 to 10 ms, the default deadline is 10 s.
const DURATIONS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bucket bounds of detection times, in seconds: by default two misses of 500 ms, and less when traffic fails first.
const DETECTIONS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0];

/// Defines [`Metrics`] and [`METRICS`] from one list: field, type, name without prefix, labels, help, buckets of histograms.
macro_rules! metrics {
    (@buckets) => { &[] };
    (@buckets $buckets:ident) => { $buckets };
    ($($visibility:vis $field:ident: $type:ty, $name:literal, [$($label:literal),*], $help:literal $(, $buckets:ident)?;)+) => {
        /// The metrics of one sidecar, in a registry of its own.
        ///
        /// Cloned handles count into the same metrics. Families give a handle for each set of label values: resolve it at start.
        #[derive(Clone, Debug)]
        pub struct Metrics {
            registry: Registry,
            $(#[doc = $help] $visibility $field: $type,)+
        }

        /// The description of every metric, in the order of the README.
        pub const METRICS: &[MetricSpec] = &[$(MetricSpec {
            name: concat!("ksqldb_sidecar_", $name),
            kind: <$type as Metric>::KIND,
            labels: &[$($label),*],
            help: $help,
            buckets: metrics!(@buckets $($buckets)?),
        },)+];

        impl Metrics {
            /// Makes the metrics and registers them.
            ///
            /// # Errors
            /// When two metrics have one name or a name is not allowed, which a test rules out.
            pub fn new() -> prometheus::Result<Self> {
                let registry = Registry::new();
                let mut specs = METRICS.iter();
                $(let $field: $type = register(&registry, specs.next())?;)+
                let metrics = Self { registry, $($field,)+ };
                metrics.build_info.with([env!("CARGO_PKG_VERSION")]).set(1);
                Ok(metrics)
            }
        }
    };
}

metrics! {
    pub build_info: Family<IntGaugeVec, 1>, "build_info", ["version"], "Always 1; the label tells the version of the sidecar.";
    pub requests: Family<IntCounterVec, 2>, "requests_total", ["class", "outcome"], "Requests answered, by class of statement and how they ended.";
    pub request_duration: Family<HistogramVec, 1>, "request_duration_seconds", ["class"], "Time from a request's head to the end of its answer; of streams, to the first byte.", DURATIONS;
    pub requests_in_flight: Family<IntGaugeVec, 1>, "requests_in_flight", ["class"], "Requests under way, streams and websockets included.";
    pub passed_through: Family<IntCounterVec, 1>, "passed_through_total", ["reason"], "Pull queries left to the servers' own routing, by why.";
    pub attempts: Family<IntCounterVec, 2>, "attempts_total", ["result", "reason"], "Attempts at a server, by result and by its reason.";
    pub routing_decisions: Family<IntCounterVec, 1>, "routing_decisions_total", ["reason"], "Plans made for pull queries, by the reason of their first choice.";
    pub retries_refused: IntCounter, "retries_refused_total", [], "Retries that the retry budget did not allow.";
    pub hedges: Family<IntCounterVec, 1>, "hedges_total", ["result"], "Attempts beside a slow one, by result: sent, won as the first answer, or refused by the budget.";
    pub absence_proofs: Family<IntCounterVec, 2>, "absence_proofs_total", ["method", "result"], "Proofs that an empty answer is one, by method and result.";
    pub unproven_answers: IntCounter, "unproven_answers_total", [], "Empty answers given without proof, because absence.mode is trust.";
    pub bounds_unmet: Family<IntCounterVec, 1>, "bounds_unmet_total", ["policy"], "Lookups whose bound on freshness no replica kept, by what became of them: refused or degraded.";
    pub audits: Family<IntCounterVec, 1>, "audits_total", ["result"], "Lookups that were asked again of a second replica, by result: agreed, violated, or inconclusive as records came in between.";
    pub reads_after_failover: IntCounter, "reads_after_failover_total", [], "Reads answered by a standby while its active cannot be asked; they may be older than an earlier read.";
    pub client_connections: IntGauge, "client_connections", [], "Connections open on the client port.";
    pub upstream_connections: Family<IntGaugeVec, 1>, "upstream_connections", ["protocol"], "Connections open to servers, by protocol.";
    pub(super) host_lag: GaugeVec, "host_lag_records", ["host"], "Largest offset lag of a host over its slots, in changelog records; NaN while it is not live or has not reported.";
    pub(super) host_report_age: GaugeVec, "host_report_age_seconds", ["host"], "Age of a host's newest lag report; NaN while it is not live or has not reported.";
    pub(super) host_alive: GaugeVec, "host_alive", ["host"], "1 while a host is alive by the sidecar's own evidence, else 0.";
    pub(super) host_state: IntGaugeVec, "host_state", ["host", "state"], "Always 1; the label tells the state of a host.";
    pub(super) standby_lag: GaugeVec, "standby_lag_records", ["table", "partition"], "Records that a partition's hottest standby lacks; NaN without a standby that reports.";
    pub(super) failover_ready: GaugeVec, "failover_ready", ["table", "partition"], "1 while two hosts could answer within the table's bound, so that losing one leaves another, else 0.";
    pub peers: Family<IntGaugeVec, 1>, "peers", ["state"], "Peers, by state.";
    pub unroutable_hosts: IntGauge, "unroutable_hosts", [], "Hosts in /clusterStatus under whose name no server answers.";
    pub death_detection: Histogram, "death_detection_seconds", [], "Time from a host's last sign of life to its being taken for dead.", DETECTIONS;
    pub suspicions: Family<IntCounterVec, 1>, "suspicions_total", ["sign"], "Times that a live server became suspect and was asked last, by the sign: overdue probe, stopped process, or its own sidecar's word.";
    pub control_loop_failures: Family<IntCounterVec, 1>, "control_loop_failures_total", ["loop"], "Failed rounds of a control loop.";
    pub control_loop_last_success: Family<GaugeVec, 1>, "control_loop_last_success_timestamp_seconds", ["loop"], "Unix time of the last good round of a control loop.";
    pub view_age: Gauge, "view_age_seconds", [], "Age of the view that requests are planned with.";
    pub tables: Family<IntGaugeVec, 1>, "tables", ["state"], "Tables of the catalogue, by whether lookups on them can be routed.";
    pub server_capability: Family<IntGaugeVec, 1>, "server_capability", ["capability"], "1 if the local server has the setting that routing profits from, else 0: heartbeats, lag_reporting, standby_reads.";
}

impl Metrics {
    /// The text format of Prometheus.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub fn encode(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

fn register<M: Metric>(registry: &Registry, spec: Option<&MetricSpec>) -> prometheus::Result<M> {
    let spec = spec.ok_or_else(|| prometheus::Error::Msg("a metric without description".to_owned()))?;
    let metric = M::create(spec)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for MetricSpec { name, kind, labels, help, buckets } in METRICS {
            let base = name.strip_prefix("ksqldb_sidecar_").unwrap_or_else(|| panic!("{name} has no prefix"));
            assert!(base.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(base.ends_with("_total"), *kind == "counter", "{name}: only counters end in _total");
            assert_eq!(*kind == "histogram", base.ends_with("_seconds") && !buckets.is_empty(), "{name}: {kind}");
            assert!(!labels.iter().any(|label| ["le", "quantile"].contains(label)), "{name}");
            assert!(help.ends_with('.') && !help.contains('|'), "{name}: {help}");
        }
    }

    #[test]
    fn two_sidecars_in_one_process_count_apart() {
        let (one, other) = (Metrics::new().unwrap(), Metrics::new().unwrap());
        one.requests.with(["lookup", "ok"]).inc();
        one.request_duration.with(["lookup"]).observe(0.004);
        let line = "ksqldb_sidecar_requests_total{class=\"lookup\",outcome=\"ok\"} 1";
        let text = one.encode().unwrap();
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("ksqldb_sidecar_request_duration_seconds_bucket{class=\"lookup\",le=\"0.005\"} 1"),
            "{text}"
        );
        assert!(!other.encode().unwrap().contains(line));
    }
}
