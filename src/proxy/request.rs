//! A client's request, as far as the proxy looks into it.

use super::envelope::{Endpoint, Envelope};
use crate::http::{Body, BodyError, HttpVersion, ReadBody, read_up_to};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri, Version, header};

/// What a request is, before its statement is looked at.
#[derive(Debug)]
pub(super) enum Inbound {
    /// A query whose envelope was understood.
    Query(Box<QueryRequest>),
    /// Anything whose body is small enough to be sent again.
    Held(Head, Bytes),
    /// Anything that streams: its body can be sent once.
    Streaming(Head, Body),
}

/// Method, target and headers, in the form in which every attempt sends them.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub method: Method,
    pub uri: Uri,
    pub version: HttpVersion,
    pub headers: HeaderMap,
}

/// A query.
#[derive(Debug)]
pub(super) struct QueryRequest {
    pub head: Head,
    pub envelope: Envelope,
}

impl Head {
    fn new(parts: Parts) -> Self {
        let version = if parts.version == Version::HTTP_2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
        Head { method: parts.method, uri: parts.uri, version, headers: parts.headers }
    }

    /// One attempt's request.
    pub fn with_body(&self, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// One attempt's request with a body that may differ in length from the client's.
    pub fn with_bytes(&self, body: Bytes) -> Request<Body> {
        let mut request = self.with_body(Body::full(body));
        request.headers_mut().remove(header::CONTENT_LENGTH);
        request
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.uri.path()
    }
}

impl Inbound {
    /// Reads as much of a request as routing needs.
    ///
    /// Bodies up to `limit` bytes are held so that they can be sent to another server; a two-way stream never is.
    pub async fn read(request: Request<Body>, limit: usize) -> Result<Inbound, BodyError> {
        let (parts, body) = request.into_parts();
        let mut head = Head::new(parts);
        if head.path() == "/inserts-stream" {
            return Ok(Inbound::Streaming(head, body));
        }
        let bytes = match read_up_to(body, limit).await? {
            ReadBody::Whole { bytes, trailers: None } => bytes,
            whole_or_large => return Ok(Inbound::Streaming(head, whole_or_large.into_body())),
        };
        let endpoint = Endpoint::of(head.path()).filter(|_| head.method == Method::POST);
        Ok(match endpoint.and_then(|endpoint| Envelope::read(endpoint, bytes.clone())) {
            Some(envelope) => {
                if envelope.is_edited() {
                    head.headers.remove(header::CONTENT_LENGTH); // it was the length of the body as it came
                }
                Inbound::Query(Box::new(QueryRequest { head, envelope }))
            }
            None => Inbound::Held(head, bytes),
        })
    }
}
