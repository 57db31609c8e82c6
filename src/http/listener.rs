//! Accepting client connections.

use super::connection::Serving;
use super::drain::DrainSignal;
use super::handler::{ConnectionInfo, Handler, ServerSettings};
use crate::telemetry::Counted;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// First and last wait after an `accept` that failed for want of something (descriptors, memory) that time may free.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// How long connections are accepted when the end has begun: until none has come for the first span, at most for the second.
const QUIET: Duration = Duration::from_millis(10);
const LAST_ACCEPTED: Duration = Duration::from_millis(200);

/// Longer than the kernel takes to establish what it has begun to.
const ESTABLISHED: Duration = Duration::from_millis(5);

/// A bound port that speaks HTTP/1.1, `Upgrade: h2c` and HTTP/2 by prior knowledge.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    settings: Arc<ServerSettings>,
    slots: Arc<Semaphore>,
}

impl Server {
    /// Binds and listens; connections queue in the kernel until [`Server::serve`] runs. Port 0 takes a free one.
    pub fn bind(address: SocketAddr, settings: ServerSettings) -> io::Result<Server> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(settings.reuse_port)?;
        socket.bind(address)?;
        let listener = socket.listen(settings.backlog)?;
        let slots = Arc::new(Semaphore::new(settings.max_connections.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Server { listener, settings: Arc::new(settings), slots })
    }

    /// The bound address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts and serves until the drain begins, then closes the port; open connections are the drain's to await.
    pub async fn serve<H: Handler>(self, handler: Arc<H>, drain: DrainSignal) {
        let _open = drain.hold();
        let accept_one = async || {
            let slot = self.free_slot().await;
            let (stream, peer) = self.accept().await;
            let counted = self.settings.connections.clone().map(Counted::in_gauge);
            let info = ConnectionInfo::new(peer, drain.clone(), slot, counted);
            let serving = Serving { handler: Arc::clone(&handler), settings: Arc::clone(&self.settings), info };
            drain.spawn(serving.run(TokioIo::new(stream)));
        };
        tokio::select! {
            () = drain.draining() => {}
            () = async { loop { accept_one().await } } => {}
        }
        // clients whose connections the kernel has established already may have sent their requests
        let end = Instant::now() + LAST_ACCEPTED;
        while Instant::now() < end && tokio::time::timeout(QUIET, accept_one()).await.is_ok() {}
        if self.settings.reuse_port {
            // What the kernel has begun to establish when the port closes is reset, although another process listens. With
            // an empty queue it begins nothing more: such clients try again by themselves, and reach the other process.
            let _ = SockRef::from(&self.listener).listen(0); // fails on no socket that listens
            tokio::time::sleep(ESTABLISHED).await;
            while tokio::time::timeout(Duration::ZERO, accept_one()).await.is_ok() {}
        }
    }

    /// Waits until one more connection is allowed; `None` cannot come, as the semaphore is never closed.
    async fn free_slot(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        tracing::warn!(max_connections = self.settings.max_connections, "connection limit reached, not accepting");
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        tracing::info!("accepting connections again");
        slot
    }

    async fn accept(&self) -> (TcpStream, SocketAddr) {
        let mut failures = 0_u64;
        let mut wait = ACCEPT_BACKOFF.0;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    if failures > 0 {
                        tracing::info!(failures, "accepting connections again");
                    }
                    self.tune(&stream);
                    return (stream, peer);
                }
                Err(error) if is_of_one_connection(&error) => {
                    tracing::debug!(%error, "connection ended before it was accepted");
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::error!(%error, "cannot accept connections");
                    }
                    failures += 1;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(ACCEPT_BACKOFF.1);
                }
            }
        }
    }

    /// Sets what a connection works without; it fails only on a connection that is already gone.
    fn tune(&self, stream: &TcpStream) {
        let keepalive = TcpKeepalive::new().with_time(self.settings.tcp_keepalive);
        let tuned = stream.set_nodelay(true).and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keepalive));
        if let Err(error) = tuned {
            tracing::debug!(%error, "cannot set socket options");
        }
    }
}

/// Whether `accept` reported the end of the connection it would have given, rather than a lack of resources.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
