//! `GET /`: the status page, one document with its style and scripts, all of it in this binary.

use crate::http::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response};

/// Nothing from elsewhere, nothing inline, in nobody's frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

const SAME_ORIGIN_ONLY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The files of the page: path, type, text.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", JAVASCRIPT, include_str!("page/page.js")),
    ("/page/dom.js", JAVASCRIPT, include_str!("page/dom.js")),
    ("/page/cluster.js", JAVASCRIPT, include_str!("page/cluster.js")),
    ("/page/traffic.js", JAVASCRIPT, include_str!("page/traffic.js")),
    ("/page/decisions.js", JAVASCRIPT, include_str!("page/decisions.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Whether a file of the page has this path.
pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|(known, _, _)| *known == path)
}

/// The file of that path.
pub(super) fn file(path: &str) -> Option<Response<Body>> {
    let (_, kind, text) = FILES.iter().find(|(known, _, _)| *known == path)?;
    let mut response = Response::new(Body::full(*text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(response)
}

/// Puts on an answer what keeps browsers from using it for anything but the page.
pub(super) fn protect(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(SAME_ORIGIN_ONLY, HeaderValue::from_static("same-origin"));
}
