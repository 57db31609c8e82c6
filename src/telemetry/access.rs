//! One record for each request.

use std::net::SocketAddr;
use std::time::Duration;

/// The target of access records in the log.
pub(super) const TARGET: &str = "access";

/// What is logged of a request when its answer has ended. Statements and keys are not in it.
#[derive(Clone, Debug)]
pub struct AccessRecord<'a> {
    /// The request's `X-Request-Id`.
    pub request_id: &'a str,
    /// Address of the client.
    pub client: SocketAddr,
    /// HTTP method.
    pub method: &'a str,
    /// Path without query.
    pub path: &'a str,
    /// Class of the statement; `None` for requests without one.
    pub class: Option<&'static str>,
    /// Table of a lookup.
    pub table: Option<&'a str>,
    /// Partition of a lookup on one key.
    pub partition: Option<u32>,
    /// Host whose answer the client got; `None` when the sidecar answered.
    pub served_by: Option<&'a str>,
    /// Offset lag that this host was chosen with, in changelog records.
    pub lag: Option<u64>,
    /// Age of the report that says so.
    pub age: Option<Duration>,
    /// Attempts made.
    pub attempts: u32,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of its body.
    pub bytes: u64,
    /// Time from the request's head to the answer's end.
    pub duration: Duration,
    /// How it ended: the label of `requests_total`.
    pub outcome: &'static str,
}

impl AccessRecord<'_> {
    /// Whether records are logged, so that one need not be made for nothing.
    pub fn enabled() -> bool {
        tracing::enabled!(target: TARGET, tracing::Level::INFO)
    }

    /// Logs the record as one event.
    pub fn log(&self) {
        tracing::info!(
            target: TARGET,
            request_id = self.request_id,
            client = %self.client,
            method = self.method,
            path = self.path,
            class = self.class,
            table = self.table,
            partition = self.partition,
            served_by = self.served_by,
            lag = self.lag,
            age_ms = self.age.map(milliseconds),
            attempts = self.attempts,
            status = self.status,
            bytes = self.bytes,
            duration_ms = self.duration.as_secs_f64() * 1000.0,
            outcome = self.outcome,
            "request"
        );
    }
}

/// Whole milliseconds; centuries saturate.
fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
