//! Which HTTP version a server takes a request in.

use super::envelope::Endpoint;
use super::request::QueryRequest;
use crate::http::HttpVersion;
use crate::view::ServerVersion;

/// The client's version, unless the server does not answer the endpoint in it (contract section 1.2).
pub(super) fn upstream(request: &QueryRequest, server: Option<ServerVersion>) -> HttpVersion {
    match (request.envelope.endpoint(), server) {
        (Endpoint::Query, Some(server)) if !server.query_over_http2() => HttpVersion::Http1,
        (Endpoint::QueryStream, Some(server)) if !server.pins_on_query_stream() => HttpVersion::Http2,
        _ => request.head.version,
    }
}
