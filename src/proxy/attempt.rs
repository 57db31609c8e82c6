//! One exchange with one server, and what it brought back.

use super::Proxy;
use super::answer::{AnswerScanner, End};
use super::guarded::Guarded;
use super::hosts::Host;
use super::request::QueryRequest;
use crate::http::{Body, HttpVersion, Pool, ReadBody, Reuse, SendError, read_up_to};
use crate::route::{Retry, Verdict, read_error, read_error_row};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::response::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An answer that was held to its end, or to the limit and then guarded.
#[derive(Debug)]
pub(super) struct Answer {
    head: Parts,
    body: Body,
}

/// What an exchange with a server came to.
#[derive(Debug)]
pub(super) enum Exchange {
    /// An answer with rows.
    Rows(Answer),
    /// A whole answer without rows and without an error; the bytes are those of the body.
    Empty(Answer),
    /// An error that every server would give.
    Final(Answer),
    /// An error that another replica may not give.
    Retry(Retry, Answer),
    /// No answer, or not a whole one.
    Failed(Failure),
}

/// Why there was no whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The label in metrics, access records and error messages.
    pub label: &'static str,
    /// Whether nothing of the request was sent.
    pub unsent: bool,
    /// Whether a reused connection ended before the answer began, which most often says nothing about the server.
    pub stale_connection: bool,
}

impl Failure {
    /// The server has as much to do as it can.
    pub const AT_LIMIT: Failure = Failure { label: "at_limit", unsent: true, stale_connection: false };
    /// The body ended early, is empty, or is of no known form.
    pub const TRUNCATED: Failure = Failure { label: "truncated", unsent: false, stale_connection: false };
}

impl From<&SendError> for Failure {
    fn from(error: &SendError) -> Self {
        Failure {
            label: error.label(),
            unsent: error.is_connect(),
            stale_connection: error.is_closed_before_response(),
        }
    }
}

impl Answer {
    /// Whether the answer has been read to its end.
    pub fn is_whole(&self) -> bool {
        self.body.size_hint().exact().is_some()
    }

    /// The answer's bytes, if it has been read to its end.
    pub fn at_hand(&self) -> Option<&Bytes> {
        self.body.at_hand()
    }

    /// How long the server asks to be left alone.
    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.head.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// The response for the client.
    pub fn into_response(self) -> Response<Body> {
        Response::from_parts(self.head, self.body)
    }
}

/// Largest error answer that is read for its words; more is an answer of no known form.
const ERROR_BYTES: usize = 64 * 1024;

/// Longest time for which a server is asked last because it says so itself.
const LONGEST_SHUNNED: Duration = Duration::from_secs(30);

/// Sends one request and reads the answer to its end, or to `hold` bytes of it.
///
/// The caller counts it as under way. `sql` is the statement, whose words are not the server's own in an error message.
pub(super) async fn exchange(
    host: &Arc<Host>,
    version: HttpVersion,
    reuse: Reuse,
    request: Request<Body>,
    sql: &str,
    hold: usize,
    took: impl FnOnce(Duration),
) -> Exchange {
    let sent = Instant::now();
    let response = match host.upstream.send(Pool::Pull, version, reuse, request).await {
        Ok(response) => response,
        Err(error) => return Exchange::Failed(Failure::from(&error)),
    };
    let (mut head, body) = response.into_parts();
    let limit = if head.status == StatusCode::OK { hold } else { ERROR_BYTES };
    let read = read_up_to(body, limit).await;
    let elapsed = sent.elapsed();
    host.answered(elapsed);
    took(elapsed);
    match read {
        Err(_) => Exchange::Failed(Failure::TRUNCATED),
        Ok(ReadBody::TooLarge { prefix, rest }) if head.status == StatusCode::OK => {
            head.headers.remove(CONTENT_LENGTH); // so that breaking the stream off is seen whatever came before
            Exchange::Rows(Answer { head, body: Body::boxed(Guarded::new(prefix, rest)) })
        }
        Ok(ReadBody::Whole { bytes, trailers: None }) => judge(head, bytes, sql),
        Ok(other) => Exchange::Final(Answer { head, body: other.into_body() }),
    }
}

impl Proxy {
    /// One exchange for a client, and notes what it says of the server; repeated on a new connection where a kept one
    /// turned out to be dead. Up to `hold` bytes of the answer are held.
    pub(super) async fn exchange(
        &self,
        host: &Arc<Host>,
        version: HttpVersion,
        request: &QueryRequest,
        body: &Bytes,
        hold: usize,
        took: impl Fn(Duration),
    ) -> Exchange {
        let sql = request.envelope.sql();
        let mut reuse = Reuse::Allowed;
        let exchanged = loop {
            let outgoing = request.head.with_bytes(body.clone());
            match exchange(host, version, reuse, outgoing, sql, hold, &took).await {
                Exchange::Failed(failure) if failure.stale_connection && reuse == Reuse::Allowed => {
                    reuse = Reuse::Never
                }
                other => break other,
            }
        };
        match &exchanged {
            Exchange::Failed(failure) => self.note_failure(host, *failure),
            Exchange::Retry(retry, answer) => {
                self.note_retry(host, *retry);
                if let Some(span) = answer.retry_after() {
                    host.shun_for(span.min(LONGEST_SHUNNED), self.clock.now());
                }
            }
            Exchange::Rows(_) | Exchange::Empty(_) | Exchange::Final(_) => host.heard(self.clock.now()),
        }
        exchanged
    }
}

fn judge(head: Parts, bytes: Bytes, sql: &str) -> Exchange {
    let answer = |head, bytes| Answer { head, body: Body::full(bytes) };
    if head.status != StatusCode::OK {
        return match read_error(head.status.as_u16(), &bytes, sql) {
            Verdict::Final => Exchange::Final(answer(head, bytes)),
            Verdict::Retry(retry) => Exchange::Retry(retry, answer(head, bytes)),
        };
    }
    let mut scanner = AnswerScanner::default();
    scanner.push(&bytes);
    match scanner.end() {
        End::Broken => Exchange::Failed(Failure::TRUNCATED),
        End::Error => {
            let place = scanner.error().unwrap_or_default();
            let retry = read_error_row(error_object(bytes.get(place).unwrap_or_default()), sql);
            Exchange::Retry(retry, answer(head, bytes))
        }
        End::Clean if scanner.rows() > 0 => Exchange::Rows(answer(head, bytes)),
        End::Clean => Exchange::Empty(answer(head, bytes)),
    }
}

/// The error itself: some formats wrap it as `{"errorMessage":{...}}`.
fn error_object(element: &[u8]) -> &[u8] {
    let wrapped = element.trim_ascii().strip_prefix(b"{\"errorMessage\":").and_then(|rest| rest.strip_suffix(b"}"));
    wrapped.unwrap_or(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, body: &str) -> String {
        let (mut head, ()) = Response::new(()).into_parts();
        head.status = StatusCode::from_u16(status).expect("a status");
        match judge(head, Bytes::copy_from_slice(body.as_bytes()), "SELECT * FROM T WHERE K='x';") {
            Exchange::Rows(_) => "rows".into(),
            Exchange::Empty(_) => "empty".into(),
            Exchange::Final(_) => "final".into(),
            Exchange::Retry(retry, _) => retry.as_str().into(),
            Exchange::Failed(failure) => failure.label.into(),
        }
    }

    #[test]
    fn answers_are_judged_by_their_end() {
        let error = r#"{"@type":"generic_error","error_code":50000,"message":"Unable to execute pull query: x"}"#;
        for (status, body, expected) in [
            (200, "", "truncated"),
            (200, r#"[{"header":{"queryId":"q"}}]"#, "empty"),
            (200, "[{\"header\":{\"queryId\":\"q\"}},\n{\"row\":{\"columns\":[1]}}]", "rows"),
            (200, r#"[{"header":{"queryId":"q"}}"#, "truncated"),
            (200, &format!("[{{\"header\":{{}}}},\n{{\"errorMessage\":{error}}}]"), "no_replica"),
            (200, &format!("{{\"queryId\":null}}\n{error}\n"), "no_replica"),
            (400, error, "no_replica"),
            (400, r#"{"message":"T does not exist."}"#, "final"),
            (401, "", "final"),
            (503, "", "not_ready"),
        ] {
            assert_eq!(verdict(status, body), expected, "{status} {body}");
        }
    }
}
