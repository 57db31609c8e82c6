//! One emulated server's port: opened, closed, reset and stopped as the model says.

use super::io::{Connection, Gate};
use super::{Shared, route};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A server's port.
pub struct Port {
    /// Its address.
    pub address: SocketAddr,
    /// Stops its connections.
    pub gate: Arc<Gate>,
    /// The bound socket while it does not listen: refuses connections, and keeps the port from others.
    reserved: Mutex<Option<Socket>>,
    life: Mutex<Option<CancellationToken>>,
}

impl Port {
    /// Binds a port of the loopback interface without listening.
    pub fn reserve(port: u16) -> io::Result<Self> {
        let socket = bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Port { address, gate: Arc::default(), reserved: Mutex::new(Some(socket)), life: Mutex::new(None) })
    }

    /// Listens, or resets everything and refuses connections.
    pub fn set_open(self: &Arc<Self>, open: bool, shared: &Arc<Shared>, index: usize) {
        let mut life = lock(&self.life);
        match (open, life.take()) {
            (true, None) => *life = self.listen(shared, index),
            (false, Some(token)) => token.cancel(),
            (_, other) => *life = other,
        }
    }

    fn listen(self: &Arc<Self>, shared: &Arc<Shared>, index: usize) -> Option<CancellationToken> {
        // The old listener may not be gone yet; the next tick tries again.
        let socket = lock(&self.reserved).take()?;
        let listener = socket.listen(BACKLOG).and_then(|()| TcpListener::from_std(socket.into()));
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, address = %self.address, "the emulated server cannot listen");
                return None;
            }
        };
        let token = CancellationToken::new();
        tokio::spawn(self.clone().accept(listener, shared.clone(), index, token.clone()));
        Some(token)
    }

    async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        shared: Arc<Shared>,
        index: usize,
        life: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = life.cancelled() => break,
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else { continue };
                    _ = stream.set_nodelay(true);
                    let connection = Connection::new(stream, self.gate.clone(), life.clone());
                    tokio::spawn(serve(connection, shared.clone(), index, life.clone()));
                }
            }
        }
        drop(listener);
        *lock(&self.reserved) = bind(self.address).ok();
    }
}

async fn serve(connection: Connection, shared: Arc<Shared>, index: usize, life: CancellationToken) {
    let service = service_fn(move |request| route::route(shared.clone(), index, request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().auto_date_header(false);
    builder.http2().auto_date_header(false).max_concurrent_streams(100);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(connection), service);
    tokio::select! {
        () = life.cancelled() => {}
        _ = serving => {}
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    let named = |cause: io::Error| io::Error::new(cause.kind(), format!("cannot listen on {address}: {cause}"));
    socket.bind(&address.into()).map_err(named)?;
    Ok(socket)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
