//! Idle HTTP/1.1 connections to one server.

use super::body::{Body, BodyEnd};
use super::client::{HttpVersion, Reuse};
use super::connect::{ClientSettings, Connector};
use super::send_error::SendError;
use super::sweep::{self, Sweep};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Largest read or write buffer of a connection, and so of a response head. ksqlDB's own limit for heads is 8 KiB.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// The connections to one server that wait for a request, the last used on top.
///
/// Last in, first out keeps few connections busy and lets the rest age out.
#[derive(Debug)]
pub(super) struct H1Pool {
    idle: Mutex<IdleList>,
    max_idle: usize,
    idle_timeout: Duration,
}

#[derive(Debug, Default)]
struct IdleList {
    connections: Vec<Idle>,
    sweeping: bool,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

impl H1Pool {
    pub(super) fn new(settings: &ClientSettings) -> Arc<H1Pool> {
        Arc::new(H1Pool { idle: Mutex::default(), max_idle: settings.max_idle, idle_timeout: settings.idle_timeout })
    }

    /// Sends on an idle connection or a new one; a request that an idle connection did not take goes to the next.
    pub(super) async fn send(
        self: &Arc<Self>,
        connector: &Connector,
        target: &Uri,
        reuse: Reuse,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        loop {
            let idle = if reuse == Reuse::Allowed { self.take() } else { None };
            let reused = idle.is_some();
            let mut sender = match idle {
                Some(sender) => sender,
                None => Box::pin(dial(connector, target)).await?, // rare, and large for every request otherwise
            };
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.lease(response, sender)),
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(unsent) if reused => request = unsent,
                Some(_) => return Err(SendError::unsent(failed.into_error())),
                None => return Err(SendError::after_write(failed.into_error(), reused, sender.is_closed())),
            }
        }
    }

    /// Lets the response's body bring the connection back when it has been read to its end.
    fn lease(self: &Arc<Self>, response: Response<hyper::body::Incoming>, sender: SendRequest<Body>) -> Response<Body> {
        let pool = Arc::clone(self);
        response.map(|incoming| {
            Body::from(incoming).on_end(move |end| {
                if end == BodyEnd::Complete {
                    pool.give_back(sender);
                }
            })
        })
    }

    fn give_back(self: Arc<Self>, mut sender: SendRequest<Body>) {
        if sender.is_ready() {
            self.put(sender);
        } else if !sender.is_closed() {
            // The response ended before the request did, or the connection's task has not run yet.
            tokio::spawn(async move {
                if sender.ready().await.is_ok() {
                    self.put(sender);
                }
            });
        }
    }

    fn put(self: &Arc<Self>, sender: SendRequest<Body>) {
        let mut idle = self.lock();
        if idle.connections.len() < self.max_idle {
            idle.connections.push(Idle { sender, since: Instant::now() });
            if !std::mem::replace(&mut idle.sweeping, true) {
                sweep::start(self, self.idle_timeout / 2);
            }
        }
    }

    fn take(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.lock();
        while let Some(top) = idle.connections.pop() {
            if top.since.elapsed() >= self.idle_timeout {
                // All below are older still.
                idle.connections.clear();
            } else if top.sender.is_ready() {
                return Some(top.sender);
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, IdleList> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sweep for H1Pool {
    fn sweep(&self) -> bool {
        let mut idle = self.lock();
        idle.connections.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < self.idle_timeout);
        idle.sweeping = !idle.connections.is_empty();
        idle.sweeping
    }
}

async fn dial(connector: &Connector, target: &Uri) -> Result<SendRequest<Body>, SendError> {
    let io = connector.connect(target, HttpVersion::Http1).await?;
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER_BYTES)
        .writev(false)
        .handshake(io)
        .await
        .map_err(SendError::connect)?;
    let counted = connector.count(HttpVersion::Http1);
    tokio::spawn(async move {
        let _counted = counted;
        // Its errors reach whoever waits for a response; an idle connection's end needs no telling.
        let _ = connection.await;
    });
    Ok(sender)
}
