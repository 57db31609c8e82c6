//! Bodies of `/query`, `/query-stream` and `/ksql`, with the servers' own pickiness.

use super::answer::{Answer, Shape, generic, statement_error};
use super::query::Options;
use serde_json::{Map, Value};

/// What a body asks for.
#[derive(Debug, Default)]
pub struct Envelope {
    /// The statement.
    pub text: String,
    /// Whether a push query begins at the oldest record.
    pub earliest: bool,
    /// Options of a pull query.
    pub options: Options,
    /// `request.ksql.internal.request`.
    pub internal: bool,
}

const SKIP: &str = "request.ksql.query.pull.skip.forwarding";
const PARTITION: &str = "request.ksql.query.pull.partition";
const DEBUG: &str = "request.ksql.debug.request";
const INTERNAL: &str = "request.ksql.internal.request";
const MAX_LAG: &str = "ksql.query.pull.max.allowed.offset.lag";

/// Reads a body; the error is the answer.
pub fn read(body: &[u8], stream: bool) -> Result<Envelope, Box<Answer>> {
    if body.is_empty() {
        let message = r#"Cannot invoke "io.vertx.core.buffer.Buffer.getBytes()" because "buffer" is null"#;
        return Err(plain(500, generic(50000, message)));
    }
    let value: Value = serde_json::from_slice(body).map_err(|error| bad_json(body, &error))?;
    let (text, properties) = if stream { ("sql", "properties") } else { ("ksql", "streamsProperties") };
    let text = value[text].as_str().unwrap_or_default().to_owned();
    if text.trim().is_empty() && !stream {
        return Err(Box::new(Answer::json(400, generic(40000, "\"ksql\" field must be populated"))));
    }
    let empty = Map::new();
    let request = value["requestProperties"].as_object().unwrap_or(&empty);
    let streams = value[properties].as_object().unwrap_or(&empty);
    let mut envelope = Envelope { text, ..Envelope::default() };
    envelope.options.stream_endpoint = stream;
    match stream {
        true => raw(&mut envelope, request, streams)?,
        false => coerced(&mut envelope, request, streams)?,
    }
    let truth = |name: &str| request.get(name).is_some_and(|v| v == &Value::Bool(true) || v == "true");
    envelope.options.debug = truth(DEBUG);
    envelope.internal = truth(INTERNAL);
    let reset = ["ksql.streams.auto.offset.reset", "auto.offset.reset"]
        .iter()
        .any(|n| streams.get(*n).is_some_and(|v| v == "earliest"));
    envelope.earliest = reset;
    let migrate = streams.get("ksql.endpoint.migrate.query");
    envelope.options.old_writer = !stream && migrate.is_some_and(|v| v == &Value::Bool(false) || v == "false");
    Ok(envelope)
}

/// `/query`: values are coerced to their types, unknown names are a 500.
fn coerced(
    envelope: &mut Envelope,
    request: &Map<String, Value>,
    streams: &Map<String, Value>,
) -> Result<(), Box<Answer>> {
    let known = |n: &&String| n.starts_with("request.ksql.");
    let setting = |n: &&String| {
        n.starts_with("ksql.") || n.starts_with("auto.") || n.starts_with("consumer.") || n.contains("commit")
    };
    if let Some(name) = request.keys().find(|n| !known(n)).or_else(|| streams.keys().find(|n| !setting(n))) {
        let message = format!("Not recognizable as ksql, streams, consumer, or producer property: '{name}'");
        return Err(Box::new(Answer::json(500, generic(50000, &message))));
    }
    envelope.options.skip_forwarding = match request.get(SKIP) {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(Value::String(s)) if s.eq_ignore_ascii_case("true") => true,
        Some(Value::String(s)) if s.eq_ignore_ascii_case("false") => false,
        Some(_) => return Err(Box::new(Answer::json(500, generic(50000, "Invalid value for a boolean")))),
    };
    let numbers = |text: &str| text.split(',').map(|n| n.trim().parse().ok()).collect::<Option<Vec<u32>>>();
    let pins = match request.get(PARTITION) {
        None | Some(Value::Null) => None,
        Some(Value::String(s)) if s.is_empty() => None,
        Some(Value::String(s)) => Some(numbers(s)),
        Some(Value::Number(n)) => Some(numbers(&n.to_string())),
        Some(Value::Array(all)) => {
            let texts: Vec<String> =
                all.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
            Some(numbers(&texts.join(",")))
        }
        Some(_) => Some(None),
    };
    envelope.options.partitions = match pins {
        Some(None) => return Err(Box::new(Answer::json(500, generic(50000, "Internal request got a bad partition")))),
        Some(Some(pins)) if pins.is_empty() => None,
        Some(pins) => pins,
        None => None,
    };
    if let Some(lag) = streams.get(MAX_LAG) {
        envelope.options.max_lag = Some(max_lag(lag)?);
    }
    Ok(())
}

fn max_lag(lag: &Value) -> Result<u64, Box<Answer>> {
    let text = lag.as_str().map_or_else(|| lag.to_string(), str::to_owned);
    let failed = format!("Failed to coerce type of value '{text}' for key '{MAX_LAG}'");
    let message = match text.parse::<i64>() {
        Ok(n) if n >= 0 => return Ok(n.unsigned_abs()),
        Ok(n) => format!("{failed}\nCaused by: Invalid value {n} for configuration\n\t{MAX_LAG}: Not >= 0"),
        Err(_) => failed,
    };
    Err(Box::new(Answer::json(400, generic(40000, &message))))
}

/// `/query-stream`: raw types reach the casts of the router.
fn raw(envelope: &mut Envelope, request: &Map<String, Value>, streams: &Map<String, Value>) -> Result<(), Box<Answer>> {
    let cast = |from: &str, to: &str| {
        let message = format!(
            "Error starting pull query: class java.lang.{from} cannot be cast to class java.lang.{to} (java.lang.{from} and \
             java.lang.{to} are in module java.base of loader 'bootstrap')"
        );
        let body = statement_error(&message, &envelope.text);
        Box::new(Answer::chunked(400, body))
    };
    let skip = match request.get(SKIP) {
        None => false,
        Some(Value::Bool(skip)) => *skip,
        Some(other) => return Err(cast(java_type(other), "Boolean")),
    };
    let pins = match request.get(PARTITION) {
        None => None,
        Some(Value::Array(all)) => {
            let texts: Option<Vec<u32>> = all.iter().map(|v| v.as_str().and_then(|s| s.parse().ok())).collect();
            Some(texts.ok_or_else(|| cast("Integer", "String"))?)
        }
        Some(other) => return Err(cast(java_type(other), "List")),
    };
    let lag = match streams.get(MAX_LAG) {
        Some(Value::Number(n)) if n.as_i64().is_some_and(|n| n > i64::from(i32::MAX)) => n.as_u64(),
        Some(other) => return Err(cast(java_type(other), "Long")),
        None => None,
    };
    envelope.options.skip_forwarding = skip;
    envelope.options.partitions = pins.filter(|p| !p.is_empty());
    envelope.options.max_lag = lag;
    Ok(())
}

fn java_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "String",
        Value::Bool(_) => "Boolean",
        Value::Number(n) if n.is_f64() => "Double",
        _ => "Integer",
    }
}

fn plain(status: u16, body: String) -> Box<Answer> {
    Box::new(Answer { content_type: None, ..Answer::json(status, body) })
}

fn bad_json(body: &[u8], error: &serde_json::Error) -> Box<Answer> {
    let what =
        if error.is_eof() { "Unexpected end-of-input within/between Object entries" } else { "Unexpected character" };
    let source = String::from_utf8_lossy(body);
    let message = format!(
        "Invalid JSON in request: {what}\n at [Source: (byte[])\"{source}\"; line: {}, column: {}]",
        error.line(),
        error.column() + 1
    );
    plain(400, generic(40000, &message))
}

/// The format that `Accept` asks for; `None` if none is offered.
pub fn shape(accept: Option<&str>, stream: bool) -> Option<Shape> {
    let Some(accept) = accept else { return Some(if stream { Shape::Delimited } else { Shape::V1Json }) };
    accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim()).find_map(|media| match media {
        "*/*" | "application/*" => Some(Shape::Delimited),
        "application/json" => Some(if stream { Shape::JsonArray } else { Shape::V1Json }),
        _ => [Shape::V1Json, Shape::Delimited, Shape::Protobuf].into_iter().find(|s| s.media_type() == media),
    })
}
