//! What is put on answers: who served them, and the sidecar's own errors in ksqlDB's shape.

use super::demand::TOKEN_COOKIE;
use crate::error::ProxyError;
use crate::http::Body;
use crate::route::{Candidate, Preference};
use crate::view::HostName;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, SET_COOKIE};
use http::{HeaderValue, Response, StatusCode};
use std::time::Duration;

const SERVED_BY: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-served-by");
const LAG: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-lag");
const AGE: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-age");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-attempts");
const WAITED: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-waited");
const DEGRADED: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-degraded");
const TOKEN: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-token");

/// Who gave an answer.
#[derive(Clone, Debug)]
pub(super) struct Served {
    /// The server that was asked.
    pub host: HostName,
    /// Why, if it was asked as a replica; without it the server may have forwarded the request.
    pub candidate: Option<Candidate>,
    /// What freshness cost and gave.
    pub freshness: Freshness,
}

/// What freshness cost and gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Freshness {
    /// How long the request waited for a replica that keeps its bounds.
    pub waited: Option<Duration>,
    /// The session's token.
    pub token: Option<String>,
    /// Whether the token goes into a cookie too.
    pub cookie: bool,
}

impl Served {
    /// By a host that was asked natively or for nothing in particular.
    pub fn by(host: HostName) -> Self {
        Served { host, candidate: None, freshness: Freshness::default() }
    }
}

/// Adds the headers that tell where an answer comes from.
///
/// `-Lag` is in changelog records and `-Age` in milliseconds, both of the replica's newest report when it was chosen;
/// `-Waited` is in milliseconds.
pub(super) fn decorate(response: &mut Response<Body>, served: &Served, attempts: u32) {
    let headers = response.headers_mut();
    if let Ok(host) = HeaderValue::from_str(&served.host) {
        headers.insert(SERVED_BY, host);
    }
    if let Some(lag) = served.candidate.and_then(|candidate| candidate.lag) {
        headers.insert(LAG, HeaderValue::from(lag));
    }
    if let Some(age) = served.candidate.and_then(|candidate| candidate.age) {
        headers.insert(AGE, HeaderValue::from(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)));
    }
    if attempts > 0 {
        headers.insert(ATTEMPTS, HeaderValue::from(attempts)); // what passes through is sent once, or again unsent
    }
    if let Some(waited) = served.freshness.waited {
        headers.insert(WAITED, HeaderValue::from(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)));
    }
}

/// Adds what the client must be told whatever the configuration says: that a bound was not kept, and its token.
pub(super) fn tell(response: &mut Response<Body>, served: &Served) {
    let headers = response.headers_mut();
    if served.candidate.is_some_and(|candidate| candidate.preference == Preference::Degraded) {
        headers.insert(DEGRADED, HeaderValue::from_static("bound-unmet"));
    }
    let Some(token) = &served.freshness.token else { return };
    if let Ok(value) = HeaderValue::from_str(token) {
        headers.insert(TOKEN, value);
    }
    if served.freshness.cookie
        && let Ok(value) = HeaderValue::from_str(&format!("{TOKEN_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"))
    {
        headers.append(SET_COOKIE, value);
    }
}

/// The sidecar's own error as an answer.
pub(super) fn error(error: &ProxyError) -> Response<Body> {
    let mut response = Response::new(Body::full(error.body()));
    *response.status_mut() = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let ProxyError::BadToken { cookie: true, .. } = error
        && let Ok(value) = HeaderValue::from_str(&format!("{TOKEN_COOKIE}=; Path=/; Max-Age=0"))
    {
        response.headers_mut().append(SET_COOKIE, value);
    }
    if let Some(after) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}
