//! Streams: push queries, inserts, websockets.

use super::good;
use super::harness::{Fake, Reply, Stage, until, within};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::ready;
use futures_util::stream::{once, pending, repeat_with};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ksqldb_sidecar::http::{Body, ConnectionInfo};
use std::io::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const PUSH: &str = r#"{"sql":"SELECT * FROM S EMIT CHANGES;"}"#;

/// A server that answers every request with the lines the test sends, and whether its client has left.
fn lines() -> (Fake, mpsc::Sender<&'static str>, Arc<AtomicBool>) {
    let (sender, receiver) = mpsc::channel::<&'static str>(16);
    let (receiver, left) = (Arc::new(Mutex::new(Some(receiver))), Arc::new(AtomicBool::new(false)));
    let gone = Arc::clone(&left);
    let fake = Fake::streaming(move |_: Request<Body>, _: ConnectionInfo| {
        let mut lines = receiver.lock().unwrap().take().expect("asked once");
        let gone = Arc::clone(&gone);
        async move {
            let stream = futures_util::stream::poll_fn(move |cx| lines.poll_recv(cx));
            let body = Body::stream(stream.map(|line| Ok::<_, Error>(Bytes::from(line))));
            Response::new(body.on_end(move |_| gone.store(true, Ordering::SeqCst)))
        }
    });
    (fake, sender, left)
}

#[tokio::test]
async fn b24_b27_lines_of_a_push_query_come_at_once_and_its_end_reaches_the_server() {
    let (server, line, left) = lines();
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    line.send("{\"queryId\":\"q\"}\n").await.unwrap();
    let mut response = within("the head", stage.post("/query-stream", PUSH.into())).await;
    assert_eq!(within("the header", response.chunk()).await.unwrap().unwrap(), "{\"queryId\":\"q\"}\n");
    for next in ["\n", "[\"a\",1]\n", "\n"] {
        line.send(next).await.unwrap();
        assert_eq!(within("a line", response.chunk()).await.unwrap().unwrap(), next);
    }
    assert!(!left.load(Ordering::SeqCst), "a quiet query stays open");
    drop(response);
    let begun = std::time::Instant::now();
    until("the server is left", || left.load(Ordering::SeqCst)).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn b28_a_client_that_does_not_read_slows_the_server_down() {
    let made = Arc::new(AtomicUsize::new(0));
    let server = Fake::streaming({
        let made = Arc::clone(&made);
        move |_: Request<Body>, _: ConnectionInfo| {
            let made = Arc::clone(&made);
            async move {
                let line = Bytes::from(format!("[\"{}\"]\n", "v".repeat(1 << 16)));
                let lines = repeat_with(move || {
                    made.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Error>(line.clone())
                });
                Response::new(Body::stream(lines))
            }
        }
    });
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let mut response = within("the head", stage.post("/query-stream", PUSH.into())).await;
    let stalled = || async {
        let mut before = usize::MAX;
        while before != made.load(Ordering::SeqCst) {
            before = made.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        before
    };
    let held = within("the stall", stalled()).await;
    assert!(held < 512, "{held} lines of 64 KiB are under way: more than the buffers of three sockets");
    while made.load(Ordering::SeqCst) <= held {
        within("a line", response.chunk()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn b32_close_query_goes_to_the_server_that_runs_the_query() {
    let closed = Arc::new(Mutex::new(Vec::new()));
    let running = Fake::streaming({
        let closed = Arc::clone(&closed);
        move |request: Request<Body>, _: ConnectionInfo| {
            let closed = Arc::clone(&closed);
            async move {
                if request.uri().path() == "/close-query" {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    closed.lock().unwrap().push(body);
                    return Response::new(Body::full("closed"));
                }
                let header = once(ready(Ok::<_, Error>(Bytes::from("{\"queryId\":\"q7\"}\n"))));
                Response::new(Body::stream(header.chain(pending())))
            }
        }
    });
    let other = Fake::start(|_| Reply::error(400, 40001, "No query with id"));
    let stage = Stage::set(&[&running, &other], Some("0.29.0"), "K STRING");
    let mut response = within("the head", stage.post("/query-stream", PUSH.into())).await;
    within("the header", response.chunk()).await.unwrap().unwrap();
    stage.see(&[&other, &running]); // another server is the local one now: only the query's id leads to the first
    let close = |id: &str| stage.post("/close-query", format!(r#"{{"queryId":"{id}"}}"#));
    let answer = within("the answer", close("q7")).await.text().await.unwrap();
    assert_eq!((answer.as_str(), other.asked().len()), ("closed", 0));
    assert_eq!(closed.lock().unwrap().as_slice(), [r#"{"queryId":"q7"}"#]);
    let unknown = within("the answer", close("nope")).await;
    assert_eq!((unknown.status().as_u16(), other.asked().len()), (400, 1), "the local server's to refuse");
    drop(response);
    let left = "requests_total{class=\"push\",outcome=\"client_gone\"}";
    until("the query has ended", || stage.counted(left) == 1).await;
    assert_eq!(within("the answer", close("q7")).await.status(), 400, "an ended query is forgotten");
    assert_eq!(closed.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn b26_inserts_stream_both_ways_without_waiting_for_either_end() {
    let server = Fake::streaming(|request: Request<Body>, _: ConnectionInfo| async move {
        let data = request.into_body().into_data_stream();
        let data = data.filter(|data| ready(!data.as_ref().is_ok_and(Bytes::is_empty))); // HTTP/2 may end with one
        let echo = data.map(|data| {
            let line = String::from_utf8(data.map_err(Error::other)?.to_vec()).unwrap();
            Ok::<_, Error>(Bytes::from(format!("ack {line}")))
        });
        Response::new(Body::stream(echo))
    });
    let other = good();
    let stage = Stage::set(&[&server, &other], Some("0.29.0"), "K STRING");
    let client: Client<_, StreamBody<_>> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let (line, mut lines) = mpsc::channel::<&'static str>(1);
    let body = StreamBody::new(
        futures_util::stream::poll_fn(move |cx| lines.poll_recv(cx))
            .map(|line| Ok::<_, Error>(Frame::data(Bytes::from(line)))),
    );
    let request = Request::post(format!("http://{}/inserts-stream", stage.client)).body(body).unwrap();
    line.send("{\"target\":\"S\"}\n").await.unwrap();
    let mut response = within("the head", client.request(request)).await.unwrap();
    let mut next = async || loop {
        let data = within("an acknowledgement", response.body_mut().frame()).await?.unwrap().into_data().unwrap();
        if !data.is_empty() {
            return Some(String::from_utf8(data.to_vec()).unwrap());
        }
    };
    assert_eq!(next().await.unwrap(), "ack {\"target\":\"S\"}\n");
    for insert in ["{\"K\":\"a\"}\n", "{\"K\":\"b\"}\n"] {
        line.send(insert).await.unwrap();
        assert_eq!(next().await.unwrap(), format!("ack {insert}"));
    }
    drop(line);
    assert_eq!(next().await, None, "ended by its client, ended by the server");
    assert_eq!(other.asked().len(), 0);
}

#[tokio::test]
async fn b26_a_websocket_is_tunnelled_and_half_closed() {
    let server = Fake::raw(|mut stream: TcpStream, _| async move {
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(switching.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream.write_all(&all).await.unwrap();
    });
    let server = server.await;
    let breaking = Fake::raw(|mut stream: TcpStream, _| async move {
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    });
    let breaking = breaking.await; // a handshake is a query, so it may be asked again
    let stage = Stage::set(&[&Fake::refusing(), &breaking, &server], Some("0.29.0"), "K STRING");
    let mut client = TcpStream::connect(stage.client).await.unwrap();
    let head = "GET /ws/query?request=x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        assert!(within("the switch", client.read_buf(&mut answer)).await.unwrap() > 0);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    client.write_all(b"frames").await.unwrap();
    client.shutdown().await.unwrap();
    let mut echoed = Vec::new();
    within("the echo", client.read_to_end(&mut echoed)).await.unwrap();
    assert_eq!(echoed, b"frames");
}
