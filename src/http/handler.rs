//! Between the listener and what answers: the limits, the handler, and what it learns of the connection.

use super::body::Body;
use super::drain::DrainSignal;
use crate::telemetry::Counted;
use hyper::{Request, Response};
use prometheus::IntGauge;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How client connections are accepted and limited.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Connections open at the same time, tunnels included; at the limit, more wait unaccepted. Default 10,000.
    pub max_connections: usize,
    /// Connections that the kernel queues before they are accepted. Default 1024.
    pub backlog: u32,
    /// TCP keep-alive probes after this silence, to notice vanished clients of quiet push queries. Default 15 s.
    pub tcp_keepalive: Duration,
    /// Longest time to the first bytes, and from then, or from the end of the previous request, to the end of a request's
    /// head: so it also ends idle HTTP/1.1 connections. Default 75 s.
    pub head_timeout: Duration,
    /// Largest request head; a larger one is answered with 431. Default 64 KiB.
    pub max_head_bytes: u32,
    /// HTTP/2 streams open at the same time on one connection. Default 200.
    pub max_streams: u32,
    /// Pings over HTTP/2 connections at this interval; unanswered for as long, the connection is closed. Default none.
    pub http2_ping: Option<Duration>,
    /// Largest body of an `Upgrade: h2c` request that is upgraded, as it is held in memory; a larger one is served as
    /// HTTP/1.1. Default 1 MiB.
    pub max_upgrade_body_bytes: usize,
    /// How long an idle HTTP/1.1 connection stays open when the end has begun, so that a client that is just sending its next
    /// request gets an answer, and with it the word to close, instead of a broken connection. Default none.
    pub linger: Duration,
    /// Whether another process may listen on the same port, to take over from this one. Default no.
    pub reuse_port: bool,
    /// Where open connections are counted. Default nowhere.
    pub connections: Option<IntGauge>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            max_connections: 10_000,
            backlog: 1024,
            tcp_keepalive: Duration::from_secs(15),
            head_timeout: Duration::from_secs(75),
            max_head_bytes: 64 * 1024,
            max_streams: 200,
            http2_ping: None,
            max_upgrade_body_bytes: 1024 * 1024,
            linger: Duration::ZERO,
            reuse_port: false,
            connections: None,
        }
    }
}

/// Answers requests; errors are answers too.
///
/// When the client leaves before the answer is complete, the future, or the body it gave, is dropped.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Body>, connection: ConnectionInfo)
    -> impl Future<Output = Response<Body>> + Send;
}

impl<F, A> Handler for F
where
    F: Fn(Request<Body>, ConnectionInfo) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send,
{
    fn handle(
        &self,
        request: Request<Body>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        self(request, connection)
    }
}

/// The connection that a request came over; cheap to clone.
///
/// It counts against the limit of connections until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct ConnectionInfo(Arc<Info>);

#[derive(Debug)]
struct Info {
    peer: SocketAddr,
    drain: DrainSignal,
    _slot: Option<OwnedSemaphorePermit>,
    _counted: Option<Counted>,
}

impl ConnectionInfo {
    pub(super) fn new(
        peer: SocketAddr,
        drain: DrainSignal,
        slot: Option<OwnedSemaphorePermit>,
        counted: Option<Counted>,
    ) -> ConnectionInfo {
        ConnectionInfo(Arc::new(Info { peer, drain, _slot: slot, _counted: counted }))
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// Tells when the process is ending; for answers that would otherwise last.
    pub fn drain(&self) -> &DrainSignal {
        &self.0.drain
    }
}
