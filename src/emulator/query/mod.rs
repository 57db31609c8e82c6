//! Pull queries as a server executes them: planning, locating, reading.

mod locate;
mod plan;
mod read;
mod stream;

pub use plan::{field, value};
pub use stream::Selection;

use plan::Planned;

use super::config::Version;
use super::datum::Datum;
use super::key::Column;
use super::model::Model;
use super::statement::Select;
use std::time::Duration;

/// What a request asks for beside its statement.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `request.ksql.query.pull.skip.forwarding`.
    pub skip_forwarding: bool,
    /// `request.ksql.query.pull.partition`.
    pub partitions: Option<Vec<u32>>,
    /// `request.ksql.debug.request`.
    pub debug: bool,
    /// `ksql.query.pull.max.allowed.offset.lag`.
    pub max_lag: Option<u64>,
    /// The writer of before 7.2, which `"ksql.endpoint.migrate.query": false` asks for; it never hides a failure.
    pub old_writer: bool,
    /// Whether it came to `/query-stream`.
    pub stream_endpoint: bool,
}

/// How the rows end.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// As they should, or as if they did.
    Clean,
    /// With an error row of this message.
    Error(String),
}

/// The rows of an answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The query id, unless it is made from the time.
    pub id: Option<String>,
    /// Whether a query on a stream ended because of its limit.
    pub limited: bool,
    /// The selected columns; true for those of the key.
    pub columns: Vec<(Column, bool)>,
    /// Each row with the server it was read on.
    pub rows: Vec<(Vec<Datum>, usize)>,
    /// The end.
    pub end: End,
    /// How much longer the answer takes because of slow servers it was forwarded to.
    pub delay: Duration,
}

impl Found {
    /// No rows, and a clean end.
    pub fn empty(columns: Vec<(Column, bool)>) -> Self {
        Found { id: None, limited: false, columns, rows: Vec::new(), end: End::Clean, delay: Duration::ZERO }
    }
}

/// Why a query gets no rows at all; the text goes into the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The statement cannot be read.
    Parse(String),
    /// Refused by the resource before planning: two statements, an unknown source.
    Prepare(String),
    /// Refused by analysis or planning.
    Plan(String),
    /// No server can be located.
    Locate(String),
    /// Every candidate was filtered out.
    NoHost(String),
    /// 503 of a server that is starting.
    NotReady,
    /// 500 with the text for unexpected failures.
    Internal,
    /// 500 of a server whose workers are gone.
    WorkersClosed,
}

/// What comes of a query.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// An answer with rows, or without.
    Found(Found),
    /// An error as status.
    Refused(Refusal),
    /// It waits for another server.
    Waits {
        /// That server.
        on: usize,
        /// Never answered before the forwarding timeout, whatever becomes of that server.
        lost: bool,
    },
}

/// All that 7.1 and earlier say on `/query-stream` once the answer has begun, which is before a server is located.
const OPAQUE: &str = "Error in processing query. Check server logs for details.";

/// The text of a failure to read a store, as 7.2 and later print it.
fn store_failure(node: &str, how: &str) -> String {
    format!(
        "io.confluent.ksql.execution.streams.materialization.MaterializationException: Unable to execute pull query: \
         io.confluent.ksql.util.KsqlException: Error executing query locally at node http://{node}/: {how}"
    )
}

impl Model {
    /// Executes a pull query on a table at a server, now.
    pub fn pull(&mut self, server: usize, select: &Select, text: &str, options: &Options) -> Outcome {
        if !self.config.pulls() {
            let how = "Pull queries are disabled. Please set ksql.pull.queries.enable=true to enable this feature.";
            return Outcome::Refused(Refusal::Plan(how.to_owned()));
        }
        if let Some(outcome) = self.pull_stream(server, select) {
            return outcome;
        }
        let planned = match self.plan(server, select, text) {
            Ok(planned) => planned,
            Err(refusal) => return Outcome::Refused(refusal),
        };
        match self.locate(server, &planned, options) {
            Ok(located) => self.read(server, &planned, located, options),
            Err(_) if self.config.version == Version::Old && options.stream_endpoint => {
                Outcome::Found(Found { end: End::Error(OPAQUE.to_owned()), ..Found::empty(planned.columns) })
            }
            Err(refusal) => Outcome::Refused(refusal),
        }
    }

    /// The columns that a SELECT asks for; empty if there is one that does not exist.
    pub fn columns(&self, select: &Select) -> Vec<(Column, bool)> {
        let source = self.catalogue.source(&select.from);
        source.and_then(|s| plan::columns(s, select).ok()).map(|(columns, _)| columns).unwrap_or_default()
    }

    /// What the client of a query sees that failed while it was executed, after `found` was read.
    pub fn failed(&mut self, server: usize, mut found: Found, keyed: bool, options: &Options) -> Outcome {
        let how =
            if keyed { "Failed to get value from materialized table" } else { "Failed to scan materialized table" };
        let node = self.hosts.get(server).map_or_else(String::new, |h| h.name.clone());
        let chance = self.chance(4);
        let hides = self.config.version.hides_failures() && !options.old_writer;
        match self.config.version {
            // Either the failure beats the subscription, or the queue is closed before the error is known.
            _ if hides && found.rows.is_empty() && chance == 0 => return Outcome::Refused(Refusal::Internal),
            _ if hides && (found.rows.is_empty() || chance < 2) => found.end = End::Clean,
            Version::V7_4 if chance == 0 && found.rows.is_empty() => return Outcome::Refused(Refusal::Internal),
            Version::Old if options.stream_endpoint => {
                found.end = End::Error(OPAQUE.to_owned());
            }
            _ => found.end = End::Error(store_failure(&node, how)),
        }
        Outcome::Found(found)
    }
}
