//! What is put on answers: who served them, and the sidecar's own errors in ksqlDB's shape.

use crate::error::ProxyError;
use crate::http::Body;
use crate::route::Candidate;
use crate::view::HostName;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

const SERVED_BY: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-served-by");
const LAG: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-lag");
const AGE: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-age");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-ksqldb-sidecar-attempts");

/// Who gave an answer.
#[derive(Clone, Debug)]
pub(super) struct Served {
    /// The server that was asked.
    pub host: HostName,
    /// Why, if it was asked as a replica; without it the server may have forwarded the request.
    pub candidate: Option<Candidate>,
}

/// Adds the headers that tell where an answer comes from.
///
/// `-Lag` is in changelog records and `-Age` in milliseconds, both of the replica's newest report when it was chosen.
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
    headers.insert(ATTEMPTS, HeaderValue::from(attempts));
}

/// The sidecar's own error as an answer.
pub(super) fn error(error: &ProxyError) -> Response<Body> {
    let mut response = Response::new(Body::full(error.body()));
    *response.status_mut() = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(after) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}
