//! Connections that can be stopped and reset.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Stops every connection of a server, as SIGSTOP does.
#[derive(Debug, Default)]
pub struct Gate {
    closed: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Gate {
    /// Stops or lets go.
    pub fn set(&self, closed: bool) {
        if self.closed.swap(closed, Ordering::AcqRel) && !closed {
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.closed.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(cx.waker().clone());
        // Opened in the meantime: the waker may have been missed.
        if self.closed.load(Ordering::Acquire) { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// A connection behind a gate; it is reset instead of closed if its server's life has ended.
pub struct Connection {
    stream: TcpStream,
    gate: Arc<Gate>,
    life: CancellationToken,
}

impl Connection {
    /// Wraps an accepted stream.
    pub fn new(stream: TcpStream, gate: Arc<Gate>, life: CancellationToken) -> Self {
        Connection { stream, gate, life }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.life.is_cancelled() {
            _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.gate.poll(cx));
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.gate.poll(cx));
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.gate.poll(cx));
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
