//! What a metric is made of: its description, and families whose label values come from closed sets.

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Result,
};

/// The description of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSpec {
    /// Its full name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
    /// Upper bounds of a histogram's buckets; empty for the others.
    pub buckets: &'static [f64],
}

/// Metrics that differ in `N` labels, whose values are words of the code: nothing that is read at run time can become one.
#[derive(Clone, Debug)]
pub struct Family<V, const N: usize>(V);

impl<B: MetricVecBuilder, const N: usize> Family<MetricVec<B>, N> {
    /// The metric with these label values, in the order of the labels; resolve it once and keep it.
    pub fn with(&self, values: [&'static str; N]) -> B::M {
        self.0.with_label_values(&values) // fails only for another number of values than N, which `create` fixed
    }
}

/// A metric that can be made from its description.
pub(super) trait Metric: Collector + Clone + Sized + 'static {
    /// Its type in the text format.
    const KIND: &'static str;

    /// Makes it.
    fn create(spec: &MetricSpec) -> Result<Self>;
}

macro_rules! metric {
    ($kind:literal, $single:ty, $vec:ty, $options:ident) => {
        impl Metric for $single {
            const KIND: &'static str = $kind;

            fn create(spec: &MetricSpec) -> Result<Self> {
                Self::with_opts($options(spec))
            }
        }

        impl Metric for $vec {
            const KIND: &'static str = $kind;

            fn create(spec: &MetricSpec) -> Result<Self> {
                Self::new($options(spec), spec.labels)
            }
        }
    };
}

metric!("counter", IntCounter, IntCounterVec, options);
metric!("gauge", IntGauge, IntGaugeVec, options);
metric!("gauge", Gauge, GaugeVec, options);
metric!("histogram", Histogram, HistogramVec, histogram_options);

impl<V: Metric, const N: usize> Metric for Family<V, N> {
    const KIND: &'static str = V::KIND;

    fn create(spec: &MetricSpec) -> Result<Self> {
        if spec.labels.len() != N {
            return Err(prometheus::Error::InconsistentCardinality { expect: N, got: spec.labels.len() });
        }
        V::create(spec).map(Self)
    }
}

impl<V: Collector, const N: usize> Collector for Family<V, N> {
    fn desc(&self) -> Vec<&prometheus::core::Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<prometheus::proto::MetricFamily> {
        self.0.collect()
    }
}

fn options(spec: &MetricSpec) -> Opts {
    Opts::new(spec.name, spec.help)
}

fn histogram_options(spec: &MetricSpec) -> HistogramOpts {
    HistogramOpts::new(spec.name, spec.help).buckets(spec.buckets.to_vec())
}
