//! Open HTTP/2 connections to one server.

use super::body::{Body, BodyEnd};
use super::client::{HttpVersion, Reuse};
use super::connect::{ClientSettings, Connector};
use super::send_error::SendError;
use super::sweep::{self, Sweep};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that a server may send on one stream before they are taken.
///
/// The connection's window is this for every stream, so slow readers cannot stop the others on their connection.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes of a request that may wait for the server to take them, for each stream.
const STREAM_BUFFER_BYTES: usize = 64 * 1024;

/// Largest flow-control window (RFC 9113, 6.9.1).
const MAX_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// Streams that are abandoned on one connection before it is retired: servers take a client that resets many streams for an
/// attacker and cut the connection, Netty after 200 in 30 s.
const MOST_ABANDONED: usize = 100;

/// The connections to one server, each shared by many requests.
#[derive(Debug)]
pub(super) struct H2Pool {
    open: Mutex<Open>,
    dialling: tokio::sync::Mutex<()>,
    /// Twice the failed attempts to connect, and one more while the last of them timed out.
    failures: AtomicU64,
    max_streams: usize,
    idle_timeout: Duration,
    ping: Option<Duration>,
}

#[derive(Debug, Default)]
struct Open {
    connections: Vec<Arc<Shared>>,
    sweeping: bool,
}

#[derive(Debug)]
struct Shared {
    sender: SendRequest<Body>,
    streams: AtomicUsize,
    abandoned: AtomicUsize,
    used_since_sweep: AtomicBool,
}

/// One stream's place on its connection.
#[derive(Debug)]
struct Lease {
    shared: Arc<Shared>,
    /// Whether the exchange came to its end, good or bad; if not, the stream is reset.
    ended: bool,
}

impl Lease {
    fn end(mut self, end: BodyEnd) {
        self.ended = end != BodyEnd::Dropped;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.abandoned.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl H2Pool {
    pub(super) fn new(settings: &ClientSettings) -> Arc<H2Pool> {
        Arc::new(H2Pool {
            open: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
            failures: AtomicU64::new(0),
            max_streams: settings.max_streams.max(1),
            idle_timeout: settings.idle_timeout,
            ping: settings.http2_ping,
        })
    }

    /// Sends as a stream of an open connection, or of a new one if there is none with room.
    pub(super) async fn send(
        self: &Arc<Self>,
        connector: &Connector,
        target: &Uri,
        reuse: Reuse,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        loop {
            let open = if reuse == Reuse::Allowed { self.take() } else { None };
            let (mut lease, reused) = match open {
                Some(lease) => (lease, true),
                None => Box::pin(self.dial(connector, target, reuse)).await?, // rare, and large for every request otherwise
            };
            let mut sender = lease.shared.sender.clone();
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => {
                    return Ok(response.map(|body| Body::from(body).on_end(move |end| lease.end(end))));
                }
                Err(failed) => failed,
            };
            lease.ended = true;
            match failed.take_message() {
                Some(unsent) if reused => request = unsent,
                Some(_) => return Err(SendError::unsent(failed.into_error())),
                None => return Err(SendError::after_write(failed.into_error(), reused, sender.is_closed())),
            }
        }
    }

    fn take(&self) -> Option<Lease> {
        let mut open = self.lock();
        open.connections.retain(|shared| !shared.sender.is_closed() && !shared.is_worn());
        open.connections
            .iter()
            .find(|shared| shared.streams.load(Ordering::Relaxed) < self.max_streams)
            .map(|shared| shared.lease())
    }

    /// Opens a connection; of many requests that need one at the same time, one opens it and the others share it, or its failure.
    ///
    /// A connection that must be fresh also retires the open ones: they finish their streams and get no more.
    async fn dial(
        self: &Arc<Self>,
        connector: &Connector,
        target: &Uri,
        reuse: Reuse,
    ) -> Result<(Lease, bool), SendError> {
        let failures = self.failures.load(Ordering::Acquire);
        let _turn = self.dialling.lock().await;
        if reuse == Reuse::Allowed {
            if let Some(lease) = self.take() {
                return Ok((lease, true));
            }
            let now = self.failures.load(Ordering::Acquire);
            if now != failures {
                return Err(SendError::shared_connect(now % 2 == 1));
            }
        }
        let sender = self.handshake(connector, target).await.inspect_err(|error| self.note_failure(error))?;
        let shared = Arc::new(Shared {
            sender,
            streams: AtomicUsize::new(0),
            abandoned: AtomicUsize::new(0),
            used_since_sweep: AtomicBool::new(true),
        });
        let lease = shared.lease();
        let mut open = self.lock();
        if reuse == Reuse::Never {
            open.connections.clear();
        }
        open.connections.push(shared);
        if !std::mem::replace(&mut open.sweeping, true) {
            sweep::start(self, self.idle_timeout);
        }
        Ok((lease, false))
    }

    fn note_failure(&self, error: &SendError) {
        let next = (self.failures.load(Ordering::Relaxed) / 2 + 1) * 2 + u64::from(error.is_timeout());
        self.failures.store(next, Ordering::Release);
    }

    async fn handshake(&self, connector: &Connector, target: &Uri) -> Result<SendRequest<Body>, SendError> {
        let io = connector.connect(target, HttpVersion::Http2).await?;
        let streams = u32::try_from(self.max_streams).unwrap_or(u32::MAX);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_send_buf_size(STREAM_BUFFER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(STREAM_WINDOW_BYTES.saturating_mul(streams).min(MAX_WINDOW_BYTES));
        if let Some(ping) = self.ping {
            builder.keep_alive_interval(ping).keep_alive_timeout(ping).keep_alive_while_idle(true);
        }
        let (sender, connection) = builder.handshake(io).await.map_err(SendError::connect)?;
        let counted = connector.count(HttpVersion::Http2);
        tokio::spawn(async move {
            let _counted = counted;
            // Its errors reach the requests on it; an unused connection's end needs no telling.
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn lease(self: &Arc<Self>) -> Lease {
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.used_since_sweep.store(true, Ordering::Relaxed);
        Lease { shared: Arc::clone(self), ended: false }
    }

    /// Whether so many streams were abandoned on it that the server may soon cut it.
    fn is_worn(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) >= MOST_ABANDONED
    }

    fn in_use(&self) -> bool {
        let used = self.used_since_sweep.swap(false, Ordering::Relaxed);
        !self.sender.is_closed() && (used || self.streams.load(Ordering::Relaxed) > 0)
    }
}

impl Sweep for H2Pool {
    fn sweep(&self) -> bool {
        let mut open = self.lock();
        open.connections.retain(|shared| shared.in_use());
        open.sweeping = !open.connections.is_empty();
        open.sweeping
    }
}
