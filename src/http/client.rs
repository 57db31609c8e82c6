//! Requests to servers, over connections that are kept.
//!
//! The pools are our own instead of hyper-util's, because a proxy needs what those cannot do: send the client's host to
//! another address over HTTP/2, open a connection because the known ones are suspect, tell a reused connection's end from a
//! new one's, and open a second HTTP/2 connection when the first is full of streams that never end.

use super::body::Body;
use super::connect::{ClientSettings, Connector, Target};
use super::headers;
use super::pool_h1::H1Pool;
use super::pool_h2::H2Pool;
use super::send_error::SendError;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri, Version};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The protocol version spoken to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by prior knowledge, or by ALPN over TLS.
    Http2,
}

impl From<HttpVersion> for Version {
    fn from(version: HttpVersion) -> Version {
        match version {
            HttpVersion::Http1 => Version::HTTP_11,
            HttpVersion::Http2 => Version::HTTP_2,
        }
    }
}

/// Which connections a request may share, so that streams which never end do not crowd out short answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    /// Answers that end soon.
    Pull,
    /// Push queries and inserts.
    Stream,
}

/// Whether a request may go over a connection that was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It may.
    Allowed,
    /// It gets a new connection; for retries, when the known ones are suspect.
    Never,
}

/// Connections to every server; cheap to share behind an `Arc`, and needs a tokio runtime only when sending.
#[derive(Debug)]
pub struct HttpClient {
    settings: ClientSettings,
    connector: Arc<Connector>,
    upstreams: Mutex<HashMap<Target, Arc<Upstream>>>,
}

impl HttpClient {
    /// A client without connections; fails only if the TLS library rejects its own defaults.
    pub fn new(settings: ClientSettings) -> Result<HttpClient, rustls::Error> {
        let connector = Arc::new(Connector::new(&settings)?);
        Ok(HttpClient { settings, connector, upstreams: Mutex::default() })
    }

    /// One server's connections: the same for every caller that names the same target.
    pub fn upstream(&self, target: &Target) -> Arc<Upstream> {
        let mut upstreams = self.upstreams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = upstreams.get(target) {
            return Arc::clone(known);
        }
        let upstream = Arc::new(Upstream::new(target.clone(), Arc::clone(&self.connector), &self.settings));
        upstreams.insert(target.clone(), Arc::clone(&upstream));
        upstream
    }

    /// Forgets the servers for which `keep` is false; requests under way finish.
    pub fn retain(&self, mut keep: impl FnMut(&Target) -> bool) {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner).retain(|target, _| keep(target));
    }
}

/// One server and the connections to it, apart by [`HttpVersion`] and [`Pool`].
#[derive(Debug)]
pub struct Upstream {
    pub(super) target: Target,
    pub(super) uri: Uri,
    pub(super) connector: Arc<Connector>,
    http1_pull: Arc<H1Pool>,
    http1_stream: Arc<H1Pool>,
    http2_pull: Arc<H2Pool>,
    http2_stream: Arc<H2Pool>,
}

impl Upstream {
    fn new(target: Target, connector: Arc<Connector>, settings: &ClientSettings) -> Upstream {
        let mut parts = hyper::http::uri::Parts::default();
        parts.scheme = Some(target.scheme.clone());
        parts.authority = Some(target.authority.clone());
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        Upstream {
            uri: Uri::from_parts(parts).unwrap_or_default(),
            target,
            connector,
            http1_pull: H1Pool::new(settings),
            http1_stream: H1Pool::new(settings),
            http2_pull: H2Pool::new(settings),
            http2_stream: H2Pool::new(settings),
        }
    }

    /// The server's address.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request and gives the response when its head has come; dropping the future abandons the request.
    ///
    /// The request's head is fitted to the version by [`headers::prepare_request`], the response's hop-by-hop fields are
    /// removed. There is no limit of time but the one for connecting. What a reused connection did not take at all is sent
    /// again on another; everything else is an error for the caller to judge.
    pub async fn send(
        &self,
        pool: Pool,
        version: HttpVersion,
        reuse: Reuse,
        request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        let (mut head, body) = request.into_parts();
        headers::prepare_request(&mut head, version.into(), &self.target.scheme, &self.target.authority);
        let request = Request::from_parts(head, body);
        let (connector, uri) = (&*self.connector, &self.uri);
        let mut response = match (version, pool) {
            (HttpVersion::Http1, Pool::Pull) => self.http1_pull.send(connector, uri, reuse, request).await,
            (HttpVersion::Http1, Pool::Stream) => self.http1_stream.send(connector, uri, reuse, request).await,
            (HttpVersion::Http2, Pool::Pull) => self.http2_pull.send(connector, uri, reuse, request).await,
            (HttpVersion::Http2, Pool::Stream) => self.http2_stream.send(connector, uri, reuse, request).await,
        }?;
        headers::strip_hop_by_hop(response.headers_mut());
        Ok(response)
    }
}
