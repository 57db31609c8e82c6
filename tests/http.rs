//! The `http` directory over real sockets.

mod client;
mod drain;
mod h2c;
mod server;
mod tunnel;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Request, Response};
use ksqldb_sidecar::http::{
    Body, ClientSettings, ConnectionInfo, Drain, Handler, HttpClient, HttpVersion, Pool, Reuse, Server, ServerSettings,
    Upstream,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Long enough for anything on this machine; only failing tests wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

struct Running {
    address: SocketAddr,
    drain: Drain,
}

/// Serves on a free port of the loopback interface until the drain is dropped with the runtime.
fn serve(settings: ServerSettings, handler: impl Handler) -> Running {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), settings).unwrap();
    let address = server.local_addr().unwrap();
    let drain = Drain::new();
    tokio::spawn(server.serve(Arc::new(handler), drain.signal()));
    Running { address, drain }
}

/// Answers with the method, path, version, body length and body of the request.
async fn echo(request: Request<Body>, _: ConnectionInfo) -> Response<Body> {
    let line = format!("{} {} {:?} ", request.method(), request.uri().path(), request.version());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    Response::new(Body::full([line.as_bytes(), body.len().to_string().as_bytes(), b" ", &body].concat()))
}

fn upstream_with(settings: ClientSettings, address: SocketAddr) -> Arc<Upstream> {
    HttpClient::new(settings).unwrap().upstream(&format!("http://{address}").parse().unwrap())
}

fn upstream(address: SocketAddr) -> Arc<Upstream> {
    upstream_with(ClientSettings::default(), address)
}

/// A handler that sends every request on, as the proxy does.
fn forward_to(address: SocketAddr, version: HttpVersion) -> impl Handler {
    let upstream = upstream(address);
    move |request: Request<Body>, _: ConnectionInfo| {
        let upstream = Arc::clone(&upstream);
        async move { upstream.send(Pool::Stream, version, Reuse::Allowed, request).await.unwrap() }
    }
}

fn post(body: &'static str) -> Request<Body> {
    Request::post("/query").body(Body::full(body)).unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("not within ten seconds")
}

/// Reads until `end` has come; gives everything read.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !read.windows(end.len()).any(|window| window == end.as_bytes()) {
        assert_ne!(within(stream.read_buf(&mut read)).await.unwrap(), 0, "closed early: {read:?}");
    }
    String::from_utf8(read).unwrap()
}

/// Accepts one connection, gives what came up to `end`, and answers with `answer`, leaving the connection open.
async fn answer_once(listener: &TcpListener, end: &str, answer: &str) -> (TcpStream, String) {
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    let request = read_until(&mut stream, end).await;
    stream.write_all(answer.as_bytes()).await.unwrap();
    (stream, request)
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A body that never ends and gives no bytes, and the news that it was dropped.
fn endless() -> (Body, tokio::sync::oneshot::Receiver<()>) {
    let (alive, dropped) = tokio::sync::oneshot::channel::<()>();
    let body = Body::stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    (body.on_end(move |_| drop(alive)), dropped)
}
