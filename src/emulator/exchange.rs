//! One request and its answer, without sockets: what the skin serves and what a simulation asks.

use super::answer::{self, Answer, Arrives, JSON, Shape, generic, refusal, render};
use super::config::Version;
use super::envelope::{self, Envelope};
use super::model::{Model, State};
use super::query::{End, Found, Options, Outcome, Refusal};
use super::statement::{Emit, Select, Statement, parse_all};
use std::time::Duration;

/// A request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path, without a query string.
    pub path: &'a str,
    /// The `Accept` header.
    pub accept: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// What comes of it.
#[derive(Clone, Debug)]
pub enum Exchange {
    /// An answer; its delay is still to be waited for.
    Answered(Answer),
    /// Nobody listens.
    Refused,
    /// The connection is accepted and nothing is said.
    Silent,
    /// The server waits for another one; the same question is to be asked again when that one is back.
    Waits {
        /// That server.
        on: usize,
        /// Never answered before the forwarding timeout.
        lost: bool,
    },
    /// A stream, which only the skin can serve: push queries, inserts, websockets.
    Streams,
}

/// Asks a server now.
pub fn exchange(model: &mut Model, server: usize, ask: &Ask<'_>) -> Exchange {
    let Some(host) = model.hosts.get(server).filter(|h| h.state.open()) else { return Exchange::Refused };
    if host.paused {
        return Exchange::Silent;
    }
    if host.state == State::Starting {
        return Exchange::Answered(plain(model, server, ask));
    }
    let stream = ask.path == "/query-stream";
    match (ask.method, ask.path) {
        ("POST", "/query" | "/query-stream") => match read_query(model.config.version, ask.accept, ask.body, stream) {
            Err(answer) => Exchange::Answered(*answer),
            Ok((_, _, Ok(select))) if select.emit == Emit::Changes => Exchange::Streams,
            Ok((envelope, shape, Ok(select))) => pull(model, server, &select, &envelope, shape),
            Ok((envelope, shape, Err(why))) => Exchange::Answered(refused(model, &why, &envelope, shape)),
        },
        ("POST", "/ksql") => Exchange::Answered(ksql(model, server, ask.body)),
        (_, "/inserts-stream" | "/close-query" | "/ws/query") => Exchange::Streams,
        _ => Exchange::Answered(plain(model, server, ask)),
    }
}

/// A query's envelope, format and statement; the error is the answer.
pub type ReadQuery = (Envelope, Shape, Result<Select, Refusal>);

/// Reads the body of `/query` or `/query-stream`.
pub fn read_query(version: Version, accept: Option<&str>, body: &[u8], stream: bool) -> Result<ReadQuery, Box<Answer>> {
    let unacceptable = || Box::new(status_only(406));
    // Before 7.2 `/query` had one format, and `*/*` got it.
    let accept = accept.filter(|a| stream || version != Version::Old || !a.contains("*/*"));
    let shape = envelope::shape(accept, stream).ok_or_else(unacceptable)?;
    let envelope = envelope::read(body, stream)?;
    let select = one_select(&envelope.text, stream);
    Ok((envelope, shape, select))
}

/// The one SELECT of a text.
pub fn one_select(text: &str, stream: bool) -> Result<Select, Refusal> {
    let mut statements = parse_all(text).map_err(Refusal::Parse)?;
    let count = statements.len();
    match (statements.pop(), count) {
        (Some((_, Statement::Select(select))), 1) => Ok(select),
        (_, 1) => Err(Refusal::Prepare("Neither a query nor a print statement".to_owned())),
        _ => {
            let echo = if stream { format!("\nStatement: {text}") } else { String::new() };
            Err(Refusal::Prepare(format!("Expected exactly one KSQL statement; found {count} instead{echo}")))
        }
    }
}

/// A request of statements.
pub fn ksql(model: &mut Model, server: usize, body: &[u8]) -> Answer {
    match envelope::read(body, false) {
        Ok(envelope) => answer::ksql(model, server, &envelope.text, envelope.internal),
        Err(answer) => *answer,
    }
}

/// A refusal as the client of a query sees it.
pub fn refused(model: &Model, why: &Refusal, envelope: &Envelope, shape: Shape) -> Answer {
    refusal(
        model.config.version,
        envelope.options.stream_endpoint,
        why,
        &envelope.text,
        media_type(model, &envelope.options, shape),
    )
}

fn media_type(model: &Model, options: &Options, shape: Shape) -> &'static str {
    let old = model.config.version == Version::Old && !options.stream_endpoint;
    if old || options.old_writer { JSON } else { shape.media_type() }
}

/// A pull query on a table or a stream.
pub fn pull(model: &mut Model, server: usize, select: &Select, envelope: &Envelope, shape: Shape) -> Exchange {
    match model.pull(server, select, &envelope.text, &envelope.options) {
        Outcome::Waits { on, lost } => Exchange::Waits { on, lost },
        done => Exchange::Answered(pull_answer(model, server, done, envelope, shape)),
    }
}

/// What a query answers that waited for another server until the forwarding timeout.
pub fn timed_out(model: &mut Model, server: usize, select: &Select, envelope: &Envelope, shape: Shape) -> Answer {
    let columns = model.columns(select);
    let outcome = model.failed(server, Found::empty(columns), true, &envelope.options);
    pull_answer(model, server, outcome, envelope, shape)
}

/// What the old writer waits for before an answer without rows (`observed.md`).
const OLD_WRITER_WAIT: Duration = Duration::from_secs(1);

fn pull_answer(model: &Model, server: usize, outcome: Outcome, envelope: &Envelope, shape: Shape) -> Answer {
    let options = &envelope.options;
    let media = media_type(model, options, shape);
    let slow = model.hosts.get(server).map_or(Duration::ZERO, |h| h.slow);
    match outcome {
        Outcome::Found(found) => {
            let empty = found.rows.is_empty() && found.end == End::Clean;
            let wait = if empty && options.old_writer { OLD_WRITER_WAIT } else { Duration::ZERO };
            let typed = model.config.version.names_content_type() || media == JSON && !options.stream_endpoint;
            let names: Option<Vec<String>> =
                options.debug.then(|| model.hosts.iter().map(|h| h.name.clone()).collect());
            let last = found.limited.then_some("Limit Reached");
            let id = found.id.clone().unwrap_or_else(|| format!("query_{}", model.clock_ms(server)));
            let body = render(shape, &id, &found, names.as_deref(), last);
            let arrives = match model.hosts.get(server) {
                Some(host) if host.stall => Arrives::Head,
                Some(host) if host.truncate => Arrives::Half,
                _ => Arrives::Whole,
            };
            let delay = wait + found.delay + slow;
            Answer { content_type: typed.then_some(media), delay, arrives, ..Answer::chunked(200, body) }
        }
        Outcome::Refused(why) => Answer { delay: slow, ..refused(model, &why, envelope, shape) },
        Outcome::Waits { .. } => refused(model, &Refusal::Internal, envelope, shape),
    }
}

/// Everything that is neither a statement nor a stream.
pub fn plain(model: &Model, server: usize, ask: &Ask<'_>) -> Answer {
    if ask.path.starts_with("/chc/") {
        return Answer::json(200, "{}".to_owned());
    }
    if model.hosts.get(server).is_some_and(|h| h.state == State::Starting) {
        return refusal(model.config.version, true, &Refusal::NotReady, "", JSON);
    }
    let Some(method) = method_of(ask.path) else {
        let body = "<html><body><h1>Resource not found</h1></body></html>".to_owned();
        return Answer { content_type: Some("text/html; charset=utf-8"), ..Answer::json(404, body) };
    };
    if ask.method != method {
        return status_only(405);
    }
    let version = model.config.version.as_str();
    let missing = || Answer::json(404, String::new());
    match ask.path {
        "/" => status_only(307),
        "/info" => Answer::json(200, answer::info(model.config.version_of(server))),
        "/healthcheck" => Answer::json(200, HEALTHY.to_owned()),
        "/clusterStatus" if !model.config.heartbeats => missing(),
        "/clusterStatus" => Answer::json(200, answer::cluster_status(model, server)),
        "/v1/metadata" => Answer::json(200, format!(r#"{{"version":"{version}","clusterId":{CLUSTER_ID}}}"#)),
        "/v1/metadata/id" => Answer::json(200, CLUSTER_ID.to_owned()),
        "/status" => Answer::json(200, r#"{"commandStatuses":{}}"#.to_owned()),
        "/heartbeat" => heartbeat(ask.body, model.config.heartbeats),
        "/lag" if !model.config.lag_reports => missing(),
        "/lag" => Answer::json(200, r#"{"isOk":true}"#.to_owned()),
        _ => Answer::json(200, "true".to_owned()),
    }
}

/// The method of a path that exists.
fn method_of(path: &str) -> Option<&'static str> {
    match path {
        "/query" | "/query-stream" | "/ksql" | "/heartbeat" | "/lag" | "/inserts-stream" | "/close-query" => {
            Some("POST")
        }
        "/" | "/info" | "/healthcheck" | "/clusterStatus" | "/v1/metadata" | "/v1/metadata/id" | "/status" => {
            Some("GET")
        }
        path => path.starts_with("/is_valid_property/").then_some("GET"),
    }
}

const HEALTHY: &str = concat!(
    r#"{"isHealthy":true,"details":{"metastore":{"isHealthy":true},"kafka":{"isHealthy":true},"#,
    r#""commandRunner":{"isHealthy":true}},"serverState":"READY"}"#
);

const CLUSTER_ID: &str =
    r#"{"scope":{"path":[],"clusters":{"kafka-cluster":"MkU3OEVBNTcwNTJENDM2Qg","ksql-cluster":"oracle_"}},"id":""}"#;

/// An answer that is its status.
pub fn status_only(status: u16) -> Answer {
    Answer { content_type: None, ..Answer::json(status, String::new()) }
}

/// The body is read before the setting is looked at, as on a real server.
fn heartbeat(body: &[u8], enabled: bool) -> Answer {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if !value["hostInfo"].is_object() {
        return if enabled {
            Answer::json(200, r#"{"isOk":true}"#.to_owned())
        } else {
            Answer::json(404, String::new())
        };
    }
    let column = body.windows(11).position(|w| w == b"\"hostInfo\":").map_or(15, |at| at + 14);
    let message = format!(
        "Invalid JSON in request: Cannot construct instance of `io.confluent.ksql.rest.entity.KsqlHostInfoEntity` (although at \
         least one Creator exists): cannot deserialize from Object value (no delegate- or property-based Creator)\n at [Source: \
         (byte[])\"{}\"; line: 1, column: {column}] (through reference chain: \
         io.confluent.ksql.rest.entity.HeartbeatMessage[\"hostInfo\"])",
        String::from_utf8_lossy(body)
    );
    Answer { content_type: None, ..Answer::json(400, generic(40000, &message)) }
}
