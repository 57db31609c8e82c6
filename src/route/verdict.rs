//! What an attempt's answer means: good, final, or worth asking another replica.

use serde::Deserialize;
use std::borrow::Cow;

/// Why an answer is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The server does not hold, or cannot read, the partition just now.
    NoReplica,
    /// The server is shutting down.
    Closing,
    /// The server is starting.
    NotReady,
    /// The table "isn't queryable": what a closing server says of every table; final if a second server says it too.
    NotQueryable,
    /// A rate, concurrency or bandwidth limit.
    Limited,
    /// An internal error in the words that servers use while they rebalance.
    Internal,
    /// A 500, 502 or 504 in words of no known kind.
    Unexpected,
    /// An error row after the header.
    ErrorRow,
}

impl Retry {
    /// The label in metrics, access records and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Retry::NoReplica => "no_replica",
            Retry::Closing => "closing",
            Retry::NotReady => "not_ready",
            Retry::NotQueryable => "not_queryable",
            Retry::Limited => "limited",
            Retry::Internal => "internal",
            Retry::Unexpected => "unexpected",
            Retry::ErrorRow => "error_row",
        }
    }

    /// Whether the whole server is unfit, not only for this partition.
    pub fn condemns_host(self) -> bool {
        matches!(self, Retry::Closing | Retry::NotReady | Retry::NotQueryable)
    }

    /// Whether the condition passes by itself, so that asking the same servers again after a while makes sense.
    pub fn passes(self) -> bool {
        !matches!(self, Retry::Limited | Retry::Unexpected)
    }
}

/// What to do about an error answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client's to see, unchanged: every other server would say the same.
    Final,
    /// Another replica may do better.
    Retry(Retry),
}

/// The server's words for conditions that pass, and what they mean. Sources: contract section 10.1 and `observed.md`.
const TRANSIENT: [(&str, Retry); 26] = [
    ("KafkaStreams is not running", Retry::Closing),
    ("State is PENDING_SHUTDOWN", Retry::Closing),
    ("State is NOT_RUNNING", Retry::Closing),
    ("Worker executor closed", Retry::Closing),
    ("Materializing query has been stopped", Retry::NotQueryable),
    ("table isn't queryable", Retry::NotQueryable),
    ("not a materialized table", Retry::NotQueryable),
    ("failed to find valid host", Retry::NoReplica),
    ("All nodes are dead or exceed max allowed lag", Retry::NoReplica),
    ("is not available yet. Please try again later", Retry::NoReplica),
    ("KeyQueryMetadata not available for state store", Retry::NoReplica),
    ("Cannot determine which host contains the required partitions", Retry::NoReplica),
    ("Exhausted standby hosts to try", Retry::NoReplica),
    ("the request has already been forwarded and failed", Retry::NoReplica),
    ("Unable to execute pull query", Retry::NoReplica),
    ("Failed to get value from materialized table", Retry::NoReplica),
    ("Failed to scan materialized table", Retry::NoReplica),
    ("Failed to range scan materialized table", Retry::NoReplica),
    ("State store currently unavailable", Retry::NoReplica),
    ("The query was not in a running state", Retry::NoReplica),
    ("Should only be one active host per partition", Retry::NoReplica),
    ("Failed to find state store", Retry::NoReplica),
    ("Error forwarding query to node", Retry::NoReplica),
    ("Forwarding pull query request [", Retry::NoReplica),
    ("Error in processing query. Check server logs for details", Retry::Internal),
    ("The server encountered an internal error when processing the query", Retry::Internal),
];

/// The server's words for its limits. Source: contract section 10.3.
const LIMITS: [&str; 4] = [
    "Host is at rate limit for pull queries",
    "Host is at concurrency limit for pull queries",
    "Host is at bandwidth rate limit for pull queries",
    "Pull query rejected: the",
];

/// Words that make a 500 final.
const FINAL_500: &str = "Not recognizable as ksql, streams, consumer, or producer property";

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(default)]
    error_code: i64,
}

/// Reads an answer whose status is not 200; `sql` is the request's statement, whose words are not the server's.
pub fn read_error(status: u16, body: &[u8], sql: &str) -> Verdict {
    match status {
        429 => return Verdict::Retry(Retry::Limited),
        502 | 504 => return Verdict::Retry(Retry::Unexpected),
        400 | 500 | 503 => {}
        _ => return Verdict::Final,
    }
    let error: Option<ErrorBody<'_>> = serde_json::from_slice(body).ok();
    let by_text = error.as_ref().and_then(|error| by_text(&error.message, sql));
    match (status, by_text) {
        (_, Some(retry)) => Verdict::Retry(retry),
        (503, None) => Verdict::Retry(match error.as_ref().map(|e| e.error_code) {
            Some(50303 | 50304) => Retry::Closing,
            _ => Retry::NotReady,
        }),
        (500, None) if !error.is_some_and(|error| says(&error.message, FINAL_500, sql)) => {
            Verdict::Retry(Retry::Unexpected)
        }
        _ => Verdict::Final,
    }
}

/// Reads an error row, the JSON of a `KsqlErrorMessage` that ended an answer whose status was 200.
///
/// Parsing and planning were over when the header was sent, so the cause lies with the server and not with the statement.
pub fn read_error_row(error: &[u8], sql: &str) -> Retry {
    let Ok(error) = serde_json::from_slice::<ErrorBody<'_>>(error) else { return Retry::ErrorRow };
    if error.error_code == 42900 {
        return Retry::Limited;
    }
    by_text(&error.message, sql).unwrap_or(Retry::ErrorRow)
}

fn by_text(message: &str, sql: &str) -> Option<Retry> {
    if message.starts_with("line ") {
        return None; // a syntax error: `line 1:30: ...`, the rest quotes the statement
    }
    let message = message.split("\nStatement: ").next().unwrap_or(message);
    if LIMITS.iter().any(|limit| says(message, limit, sql)) {
        return Some(Retry::Limited);
    }
    TRANSIENT.iter().find(|(text, _)| says(message, text, sql)).map(|(_, retry)| *retry)
}

/// Whether the server itself says `text`: in its message, and not only where that quotes the statement.
fn says(message: &str, text: &str, sql: &str) -> bool {
    if !message.contains(text) || !sql.contains(text) {
        return message.contains(text);
    }
    let whole = sql.trim().trim_end_matches(';');
    let echoes = std::iter::once(whole).chain(quoted_parts(sql)).filter(|echo| echo.contains(text));
    echoes.fold(message.to_owned(), |words, echo| words.replace(echo, "")).contains(text)
}

/// The texts between quotes in a statement, string literals and quoted names alike.
fn quoted_parts(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        let open = rest.find(['\'', '"', '`'])?;
        let quote = *rest.as_bytes().get(open)? as char;
        let after = rest.get(open + 1..)?;
        let close = after.find(quote).unwrap_or(after.len());
        rest = after.get(close + 1..).unwrap_or("");
        after.get(..close)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(message: &str) -> Vec<u8> {
        serde_json::json!({"@type": "statement_error", "error_code": 40001, "message": message})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn every_transient_text_is_retried_as_any_status_and_in_band() {
        for (text, retry) in TRANSIENT {
            let message = format!("Error starting pull query: {text} and a tail");
            for status in [400, 500, 503] {
                assert_eq!(read_error(status, &body(&message), "SELECT 1;"), Verdict::Retry(retry), "{status} {text}");
            }
            assert_eq!(read_error_row(&body(&message), "SELECT 1;"), retry);
        }
    }

    #[test]
    fn words_echoed_from_the_statement_are_not_the_servers() {
        let sql = "SELECT * FROM T WHERE ID='Exhausted standby hosts to try.';";
        for message in [
            format!("line 1:8: Syntax Error\nmismatched input 'x'\nStatement: {sql}"),
            format!("line 1:8: Exhausted standby hosts to try. {sql}"),
            "'Exhausted standby hosts to try.' can not be converted to the type of the key column: ID INTEGER KEY"
                .into(),
            format!("Something about {sql} is wrong"),
        ] {
            assert_eq!(read_error(400, &body(&message), sql), Verdict::Final, "{message}");
        }
        let short = "SELECT * FROM T WHERE ID='table' AND `is`='a';";
        let closing = body("The `T` table isn't queryable. To derive a queryable table, you can do 'CREATE TABLE'");
        assert_eq!(read_error(400, &closing, short), Verdict::Retry(Retry::NotQueryable));
        let real = format!("Unable to execute pull query: {sql} Exhausted standby hosts to try.");
        assert_eq!(read_error(400, &body(&real), sql), Verdict::Retry(Retry::NoReplica));
    }

    #[test]
    fn statuses_decide_where_texts_do_not() {
        let cases: [(u16, &str, Verdict); 11] = [
            (401, "Unauthorized", Verdict::Final),
            (403, "KafkaStreams is not running", Verdict::Final),
            (406, "", Verdict::Final),
            (421, "", Verdict::Final),
            (400, "T does not exist.", Verdict::Final),
            (429, "anything", Verdict::Retry(Retry::Limited)),
            (400, "Host is at rate limit for pull queries. Currently set to 1 qps.", Verdict::Retry(Retry::Limited)),
            (503, "KSQL is not yet ready to serve requests.", Verdict::Retry(Retry::NotReady)),
            (500, "whatever", Verdict::Retry(Retry::Unexpected)),
            (500, "Not recognizable as ksql, streams, consumer, or producer property: 'x'", Verdict::Final),
            (502, "", Verdict::Retry(Retry::Unexpected)),
        ];
        for (status, message, expected) in cases {
            assert_eq!(read_error(status, &body(message), "SELECT 1;"), expected, "{status} {message}");
        }
        let shutting_down = br#"{"error_code":50303,"message":"The server is shutting down"}"#;
        assert_eq!(read_error(503, shutting_down, ""), Verdict::Retry(Retry::Closing));
        assert_eq!(read_error(400, b"not json", "SELECT 1;"), Verdict::Final);
        assert_eq!(read_error(503, b"", ""), Verdict::Retry(Retry::NotReady));
    }
}
