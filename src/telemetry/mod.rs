//! Metrics, logs, access records and the last decisions. Uses nothing else of the crate.

mod access;
mod family;
mod hosts;
mod log;
mod metrics;
mod recent;
mod state;

pub use access::AccessRecord;
pub use family::{Family, MetricSpec};
pub use hosts::{HostMetrics, SlotMetrics};
pub use log::{InitError, LogOptions, init, subscriber};
pub use metrics::{METRICS, Metrics};
pub use recent::{Considered, Decision, Kept, Recent, SECONDS, Second, Why, second_of};
pub use state::{Counted, LoopHealth, OnChange};
