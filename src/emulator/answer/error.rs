//! Errors in the shapes of each endpoint and version.

use super::{Answer, JSON};
use crate::emulator::config::Version;
use crate::emulator::query::Refusal;
use serde_json::Value;

/// The text of unexpected failures.
const INTERNAL: &str = "The server encountered an internal error when processing the query. Please consult the server logs for more information.";

/// The body of a `generic_error`.
pub fn generic(code: u32, message: &str) -> String {
    format!(r#"{{"@type":"generic_error","error_code":{code},"message":{}}}"#, Value::from(message))
}

/// The body of a `statement_error`.
pub fn statement_error(message: &str, statement: &str) -> String {
    let (message, statement) = (Value::from(message), Value::from(statement));
    format!(
        r#"{{"@type":"statement_error","error_code":40001,"message":{message},"statementText":{statement},"entities":[]}}"#
    )
}

/// The answer to a query that was refused; `content_type` is that of its rows.
pub fn refusal(version: Version, stream: bool, refusal: &Refusal, text: &str, content_type: &'static str) -> Answer {
    let old = version == Version::Old && !stream;
    let bad = |message: String, plain: bool| Answer {
        content_type: plain.then_some(JSON),
        chunked: !plain,
        ..Answer::json(400, statement_error(&message, text))
    };
    let server = |status, body, chunked, content_type| Answer { content_type, chunked, ..Answer::json(status, body) };
    let starting = if old { "" } else { "Error starting pull query: " };
    match refusal {
        Refusal::Parse(message) if stream => bad(format!("{message}\nStatement: {text}"), false),
        Refusal::Parse(message) => {
            let place = message.split(": ").next().unwrap_or_default();
            bad(format!("{message}\nStatement: {text}\nCaused by: {place}: Syntax error at {place}"), true)
        }
        Refusal::Prepare(message) => bad(message.clone(), !stream),
        Refusal::Plan(message) => bad(message.clone(), old),
        Refusal::Locate(message) => bad(format!("{starting}{message}"), old),
        Refusal::NoHost(message) if version == Version::V8_0_1 => server(503, generic(50000, message), true, None),
        Refusal::NoHost(message) => bad(format!("{starting}{message}"), old),
        Refusal::NotReady => server(503, generic(50302, "KSQL is not yet ready to serve requests."), false, None),
        Refusal::WorkersClosed => server(500, generic(50000, "Worker executor closed"), false, None),
        Refusal::Internal => {
            server(500, generic(50000, INTERNAL), true, version.names_content_type().then_some(content_type))
        }
    }
}
