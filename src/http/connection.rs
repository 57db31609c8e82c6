//! One client connection: which protocol it speaks, and serving it until it ends or is drained.

use super::body::Body;
use super::h2c;
use super::handler::{ConnectionInfo, Handler, ServerSettings};
use super::rewind::Rewind;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::rt::{Read, ReadBuf, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

/// What every HTTP/2 client sends first (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The least buffer that hyper allows a connection.
const LEAST_BUFFER_BYTES: usize = 8 * 1024;

/// How long a connection that is new when the end begins may take to send its first request.
const FIRST_REQUEST: Duration = Duration::from_millis(250);

/// Bytes of an answer that may wait for a client that does not read, for each HTTP/2 stream.
const STREAM_BUFFER_BYTES: usize = 64 * 1024;

/// What serving a connection needs.
pub(super) struct Serving<H> {
    pub(super) handler: Arc<H>,
    pub(super) settings: Arc<ServerSettings>,
    pub(super) info: ConnectionInfo,
}

impl<H: Handler> Serving<H> {
    /// Serves a connection to its end.
    pub(super) async fn run<I>(self, mut io: I)
    where
        I: Read + Write + Unpin + Send + 'static,
    {
        let first_bytes = tokio::time::timeout(self.settings.head_timeout, sniff(&mut io));
        let ending = async {
            self.info.drain().draining().await;
            tokio::time::sleep(FIRST_REQUEST).await;
        };
        let sniffed = tokio::select! {
            biased;
            sniffed = first_bytes => sniffed,
            () = ending => return,
        };
        let serving = Arc::new(self);
        match sniffed {
            Ok(Ok((Protocol::Http1, read))) => serving.http1(Rewind::new(read, io)).await,
            Ok(Ok((Protocol::Http2, read))) => serving.http2(Rewind::new(read, io), |request| request).await,
            Ok(Err(error)) => tracing::debug!(peer = %serving.info.peer(), %error, "connection ended before a request"),
            Err(_) => tracing::debug!(peer = %serving.info.peer(), "connection silent, closed"),
        }
    }

    async fn http1<I>(self: Arc<Self>, io: I)
    where
        I: Read + Write + Unpin + Send + 'static,
    {
        let (head_bytes, linger) = (self.settings.max_head_bytes as usize, self.settings.linger);
        let info = self.info.clone();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .auto_date_header(false) // the upstream's fields stand as they came
            .header_read_timeout(self.settings.head_timeout)
            .max_header_size(head_bytes)
            .max_buf_size(head_bytes.max(LEAST_BUFFER_BYTES))
            .serve_connection(
                io,
                service_fn(move |request: Request<Incoming>| {
                    let serving = Arc::clone(&self);
                    async move { Ok::<_, Infallible>(serving.answer_http1(request.map(Body::from)).await) }
                }),
            )
            .with_upgrades();
        until_done(connection, &info, linger, |connection| connection.graceful_shutdown()).await;
    }

    async fn answer_http1(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let request = match h2c::is_asked_by(&request) {
            false => request,
            true => match Box::pin(h2c::upgrade(request, &self)).await {
                Ok(switching) => return switching,
                Err(request) => *request,
            },
        };
        let mut response = self.answer(request).await;
        if self.info.drain().is_draining() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Serves HTTP/2; `exchange` may put another request in the place of one that came.
    pub(super) async fn http2<I>(
        self: Arc<Self>,
        io: I,
        exchange: impl Fn(Request<Body>) -> Request<Body> + Send + 'static,
    ) where
        I: Read + Write + Unpin + Send + 'static,
    {
        let info = self.info.clone();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .auto_date_header(false)
            .max_concurrent_streams(self.settings.max_streams)
            .max_send_buf_size(STREAM_BUFFER_BYTES)
            .max_header_list_size(self.settings.max_head_bytes);
        if let Some(ping) = self.settings.http2_ping {
            builder.keep_alive_interval(ping).keep_alive_timeout(ping);
        }
        let connection = builder.serve_connection(
            io,
            service_fn(move |request: Request<Incoming>| {
                let serving = Arc::clone(&self);
                let request = exchange(request.map(Body::from));
                async move { Ok::<_, Infallible>(serving.answer(request).await) }
            }),
        );
        // GOAWAY tells a client which of its requests were taken
        until_done(connection, &info, Duration::ZERO, |connection| connection.graceful_shutdown()).await;
    }

    /// Not an `async fn`: that would hold the request twice, and every request's future is moved.
    fn answer(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send {
        let version = request.version();
        let response = self.handler.handle(request, self.info.clone());
        async move {
            let mut response = response.await;
            *response.version_mut() = version;
            response
        }
    }
}

/// Drives a connection to its end; `shut_down` makes it close as soon as the requests on it are answered, and is called
/// `linger` after the end has begun.
async fn until_done<C>(connection: C, info: &ConnectionInfo, linger: Duration, shut_down: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        biased; // a request that has come with the connection is begun, and then counts as under way
        ended = connection.as_mut() => ended,
        () = async {
            info.drain().draining().await;
            tokio::time::sleep(linger).await;
        } => {
            shut_down(connection.as_mut());
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(peer = %info.peer(), %error, "connection failed");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Reads until the HTTP/2 preface is complete or cannot become one; gives what was read.
async fn sniff<I: Read + Unpin>(io: &mut I) -> io::Result<(Protocol, Bytes)> {
    let mut bytes = [0; PREFACE.len()];
    let mut buf = ReadBuf::new(&mut bytes);
    loop {
        let before = buf.filled().len();
        poll_fn(|cx| Pin::new(&mut *io).poll_read(cx, buf.unfilled())).await?;
        let read = buf.filled();
        if read.len() == before {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !PREFACE.starts_with(read) {
            return Ok((Protocol::Http1, Bytes::copy_from_slice(read)));
        }
        if read.len() == PREFACE.len() {
            return Ok((Protocol::Http2, Bytes::from_static(PREFACE)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::drain::DrainSignal;
    use super::*;
    use hyper_util::rt::TokioIo;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

    fn connect(handler: impl Handler) -> DuplexStream {
        let (client, server) = duplex(1024);
        let serving = Serving {
            handler: Arc::new(handler),
            settings: Arc::new(ServerSettings { head_timeout: HEAD_TIMEOUT, ..ServerSettings::default() }),
            info: ConnectionInfo::new(SocketAddr::from(([127, 0, 0, 1], 1)), DrainSignal::default(), None, None),
        };
        tokio::spawn(serving.run(TokioIo::new(server)));
        client
    }

    async fn hello(_: Request<Body>, _: ConnectionInfo) -> Response<Body> {
        Response::new(Body::full("hello"))
    }

    /// Waits for the server to close, on the paused clock; gives what it sent and how long it took.
    async fn closed(mut client: DuplexStream) -> (String, Duration) {
        let start = Instant::now();
        let mut sent = String::new();
        client.read_to_string(&mut sent).await.unwrap();
        (sent, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_closed() {
        let (sent, waited) = closed(connect(hello)).await;
        assert_eq!(sent, "");
        assert!(waited >= HEAD_TIMEOUT && waited < HEAD_TIMEOUT * 2, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_preface_or_a_head_begun_and_not_ended_is_closed() {
        for begun in ["PRI * HT", "G", "GET / HTTP/1.1\r\nHost: x\r\nX"] {
            let mut client = connect(hello);
            client.write_all(begun.as_bytes()).await.unwrap();
            let (sent, waited) = closed(client).await;
            assert!(!sent.contains("200 OK"), "{sent}");
            assert!(waited >= HEAD_TIMEOUT && waited < HEAD_TIMEOUT * 2, "{begun}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_drips_in_is_answered_if_it_ends_in_time() {
        let mut client = connect(hello);
        for byte in b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" {
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.write_all(&[*byte]).await.unwrap();
        }
        let (sent, waited) = closed(client).await;
        assert!(sent.starts_with("HTTP/1.1 200 OK\r\n") && sent.ends_with("hello"), "{sent}");
        assert!(waited >= HEAD_TIMEOUT, "idle after the answer: {waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_stops_the_source() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let mut client = connect(move |_: Request<Body>, _: ConnectionInfo| {
            let count = Arc::clone(&count);
            let chunks = std::iter::repeat_with(move || {
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 1024]))
            });
            async move { Response::new(Body::stream(futures_util::stream::iter(chunks))) }
        });
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let unread = made.load(Ordering::Relaxed);
        assert!((1..1024).contains(&unread), "{unread} KiB");

        let mut taken = vec![0; 4 * 1024 * 1024];
        client.read_exact(&mut taken).await.unwrap();
        assert!(made.load(Ordering::Relaxed) >= 4 * 1000);
    }
}
