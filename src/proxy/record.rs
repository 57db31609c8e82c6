//! What is counted and logged of a request.

use super::request_id::RequestId;
use super::story::Story;
use super::trail::Trail;
use crate::http::{Body, BodyEnd};
use crate::partition::Partition;
use crate::telemetry::{AccessRecord, Counted, Decision, Metrics, Recent};
use crate::view::{HostName, TableInfo};
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The class of requests that have no statement.
const NO_STATEMENT: &str = "none";

/// One request from its head to the end of its answer.
#[derive(Debug)]
pub(super) struct Record {
    begun: Instant,
    id: RequestId,
    client: SocketAddr,
    /// Method and path; only kept where records are logged.
    target: Option<(String, String)>,
    class: &'static str,
    in_flight: Counted,
    table: Option<(Arc<TableInfo>, Partition)>,
    pub served_by: Option<HostName>,
    pub lag: Option<u64>,
    pub age: Option<Duration>,
    pub attempts: u32,
    /// The label of an error of the sidecar's own.
    pub refused: Option<&'static str>,
    pub story: Story,
    met: Vec<(HostName, &'static str)>,
    metrics: Arc<Metrics>,
    recent: Arc<Recent>,
}

impl Record {
    pub fn begin(
        request: &Request<Body>,
        id: RequestId,
        client: SocketAddr,
        (metrics, recent): (Arc<Metrics>, Arc<Recent>),
    ) -> Self {
        let target = AccessRecord::enabled().then(|| (request.method().to_string(), request.uri().path().to_owned()));
        Record {
            begun: Instant::now(),
            id,
            client,
            target,
            class: NO_STATEMENT,
            in_flight: Counted::in_gauge(metrics.requests_in_flight.with([NO_STATEMENT])),
            table: None,
            served_by: None,
            lag: None,
            age: None,
            attempts: 0,
            refused: None,
            story: Story::new(recent.takes()),
            met: Vec::new(),
            metrics,
            recent,
        }
    }

    /// Notes the class of the request's statement.
    pub fn classify(&mut self, class: &'static str) {
        self.class = class;
        self.in_flight = Counted::in_gauge(self.metrics.requests_in_flight.with([class]));
    }

    /// Notes the table and partition of a lookup.
    pub fn locate(&mut self, table: &Arc<TableInfo>, partition: Partition) {
        self.table = Some((Arc::clone(table), partition));
    }

    /// Takes over what happened to a pull query.
    pub fn walked(&mut self, trail: Trail) {
        self.attempts = trail.attempts();
        (self.story, self.met) = trail.told();
    }

    /// Names the answer, and finishes the record when it has ended: at once if it is at hand, else with its last byte.
    pub fn finish(self, mut response: Response<Body>) -> Response<Body> {
        self.id.mark(&mut response);
        let status = response.status();
        match response.body().size_hint().exact() {
            Some(bytes) => {
                self.close(status, bytes, None);
                response
            }
            None => response.map(|body| body.on_end(move |end| self.close(status, 0, Some(end)))),
        }
    }

    fn close(self, status: StatusCode, bytes: u64, end: Option<BodyEnd>) {
        let outcome = match (self.refused, end) {
            (Some(label), _) => label,
            (None, Some(BodyEnd::Failed)) => "broken",
            (None, Some(BodyEnd::Dropped)) => "client_gone",
            (None, Some(BodyEnd::Complete) | None) if status.is_client_error() => "client_error",
            (None, Some(BodyEnd::Complete) | None) if status.is_server_error() => "server_error",
            (None, Some(BodyEnd::Complete) | None) => "ok",
        };
        let duration = self.begun.elapsed();
        self.metrics.requests.with([self.class, outcome]).inc();
        self.metrics.request_duration.with([self.class]).observe(duration.as_secs_f64());
        if let Some((method, path)) = &self.target {
            let record = AccessRecord {
                request_id: self.id.as_str(),
                client: self.client,
                method,
                path,
                class: Some(self.class),
                table: self.table.as_ref().map(|(table, _)| table.name.as_str()),
                partition: self.table.as_ref().map(|(_, partition)| *partition),
                served_by: self.served_by.as_deref(),
                lag: self.lag,
                age: self.age,
                attempts: self.attempts,
                status: status.as_u16(),
                bytes,
                duration,
                outcome,
            };
            record.log();
        }
        // an ordinary one among many is only counted
        let told = self.story.is_kept() || !self.met.is_empty() || status.is_server_error();
        let decision = Decision {
            at: SystemTime::now(),
            request_id: if told { self.id.as_str().into() } else { Box::default() },
            client: self.client,
            class: (self.class != NO_STATEMENT).then_some(self.class),
            slot: self.table.filter(|_| told).map(|(table, partition)| (table.name.as_str().into(), partition)),
            why: self.story.why,
            bounds: self.story.bounds,
            replicas: self.story.replicas,
            met: self.met,
            served_by: self.served_by,
            lag: self.lag,
            age: self.age,
            waited: self.story.waited,
            attempts: self.attempts,
            status: status.as_u16(),
            duration,
            outcome,
        };
        self.recent.note(decision, told);
    }
}
