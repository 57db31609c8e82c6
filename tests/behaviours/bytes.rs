//! Where the bytes of a connection matter: how answers end, and what passes through as it came.

use super::harness::{Fake, Reply, Stage, settings, within};
use super::{LOOKUP, good};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ksqldb_sidecar::proxy::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads one request with a content length; `None` once the peer has closed.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}

fn whole(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn b05_b06_answers_that_do_not_arrive_whole_go_to_the_next_replica() {
    let rows = Reply::rows(&[r#"["x",1]"#]).body;
    let chunk = format!("{:x}\r\n{rows}\r\n", rows.len());
    for (what, bytes) in [
        ("closed at once", String::new()),
        ("closed within the head", "HTTP/1.1 200".to_owned()),
        ("a body shorter than its length", whole(&rows).trim_end_matches(']').to_owned()),
        ("no terminating chunk", format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}")),
        ("an empty body", whole("")),
        ("no HTTP", "SSH-2.0-x\r\n\r\n".to_owned()),
    ] {
        let bad = Fake::raw(move |mut stream, _| {
            let bytes = bytes.clone();
            async move {
                if request(&mut stream).await.is_some() {
                    let _ = stream.write_all(bytes.as_bytes()).await;
                }
            }
        });
        let (bad, other) = (bad.await, good());
        let stage = Stage::set(&[&bad, &other], Some("0.29.0"), "K STRING");
        let (status, body) = within(what, stage.query(LOOKUP)).await;
        assert_eq!((status, body), (200, rows.clone()), "{what}");
        assert_eq!(other.asked().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn b05_a_head_and_then_silence_costs_one_limit() {
    let silent = Fake::raw(|mut stream, _| async move {
        while request(&mut stream).await.is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
        }
    });
    let (silent, other) = (silent.await, good());
    let stage = Stage::set(&[&silent, &other], Some("0.29.0"), "K STRING");
    let begun = std::time::Instant::now();
    assert_eq!(within("the answer", stage.query(LOOKUP)).await.0, 200);
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn b08_a_reused_connection_that_was_closed_is_replaced_by_a_fresh_one() {
    let connections = Arc::new(AtomicUsize::new(0));
    let server = Fake::raw({
        let connections = Arc::clone(&connections);
        move |mut stream, number| {
            connections.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(request(&mut stream).await.is_some());
                stream.write_all(whole(&Reply::rows(&[&format!("[\"x\",{number}]")]).body).as_bytes()).await.unwrap();
                let _ = request(&mut stream).await; // and closes without a byte
            }
        }
    });
    let stage = Stage::set(&[&server.await], Some("0.29.0"), "K STRING");
    for number in 0..2 {
        let (status, body) = within("the answer", stage.query(LOOKUP)).await;
        assert_eq!((status, body.contains(&format!("[\"x\",{number}]"))), (200, true), "{body}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    assert_eq!(
        stage.counted("attempts_total{reason=\"closed\",result=\"failed\"}"),
        0,
        "it says nothing of the server"
    );
}

#[tokio::test]
async fn b09_a_push_query_is_not_repeated_on_a_fresh_connection_once_it_was_written() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = Fake::raw({
        let asked = Arc::clone(&asked);
        move |mut stream, _| {
            let asked = Arc::clone(&asked);
            async move {
                while request(&mut stream).await.is_some() {
                    if asked.fetch_add(1, Ordering::SeqCst) == 1 {
                        return;
                    }
                    stream.write_all(whole("{\"queryId\":\"q\"}\n").as_bytes()).await.unwrap();
                }
            }
        }
    });
    let (server, other) = (server.await, good());
    let stage = Stage::set(&[&server, &other], Some("0.29.0"), "K STRING");
    let push = || r#"{"sql":"SELECT * FROM S EMIT CHANGES;"}"#.to_owned();
    let first = within("the first", stage.post("/query-stream", push())).await;
    assert_eq!(first.text().await.unwrap(), "{\"queryId\":\"q\"}\n");
    let second = within("the second", stage.post("/query-stream", push())).await;
    assert_eq!(second.status(), 502);
    let message = second.text().await.unwrap();
    assert!(
        message.contains(&server.address.to_string()) && message.contains("may have been carried out"),
        "{message}"
    );
    assert_eq!((asked.load(Ordering::SeqCst), other.asked().len()), (2, 0));
}

#[tokio::test]
async fn b04_a_limit_of_every_server_comes_with_the_servers_own_headers() {
    let limited = || {
        Fake::raw(|mut stream, _| async move {
            while request(&mut stream).await.is_some() {
                let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}";
                stream.write_all(head.as_bytes()).await.unwrap();
            }
        })
    };
    let stage = Stage::set(&[&limited().await, &limited().await], Some("0.29.0"), "K STRING");
    let response = within("the answer", stage.post("/query", format!(r#"{{"ksql":"{LOOKUP}"}}"#))).await;
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"7".parse().unwrap()));
    assert_eq!(response.text().await.unwrap(), "{}");
}

#[tokio::test]
async fn b24_answers_pass_byte_for_byte() {
    let odd = "[ {\"header\" : {\"queryId\":\"q\",\"schema\":\"`K` STRING KEY\"}},\n\n {\"row\":{\"columns\":[\"\\u00e9\",1.50E+2]}} ]\n";
    let server = Fake::start(move |_| Reply::new(200, odd));
    let (status, body) = Stage::set(&[&server], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body.as_str()), (200, odd));
}

#[tokio::test]
async fn b25_bodies_that_are_too_large_or_not_understood_go_to_the_local_server_as_they_came() {
    let (local, other) = (good(), good());
    let small = Settings { max_inspected_body: 1000, ..settings() };
    let stage = Stage::with(&[&local, &other], Some("0.29.0"), "K STRING", small);
    let large = format!(r#"{{"ksql":"{LOOKUP}","x":"{}"}}"#, "y".repeat(300_000));
    for body in [
        large.as_str(),
        "",
        "not json",
        r#"{"ksql":"SELECT 1;","ksql":"SELECT 2;"}"#,
        r#"{"ksql":"SELECT K, V FROM T WHERE K='x'; SELECT 2;"}"#,
    ] {
        let response = within("the answer", stage.post("/query", body.to_owned())).await;
        assert_eq!((response.status().as_u16(), local.asked().last().unwrap().body.as_str()), (200, body));
    }
    assert_eq!(other.asked().len(), 0);
    let escaped = "  {\"x\":{\"ksql\":1}, \"ksql\" : \"SELECT K, V FROM T\\nWHERE K=\\u0027x\\u0027;\"}";
    assert_eq!(stage.post("/query", escaped.to_owned()).await.status(), 200);
    assert!(local.asked().last().unwrap().body.contains("pull.partition"), "understood, so pinned");
}

#[tokio::test]
async fn b30_other_methods_and_paths_get_the_servers_own_answer() {
    let server = Fake::start(|asked| Reply::error(if asked.path == "/query" { 200 } else { 404 }, 40400, &asked.path));
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (method, path, status) in [
        (reqwest::Method::OPTIONS, "/query", 200),
        (reqwest::Method::HEAD, "/nowhere", 404),
        (reqwest::Method::GET, "/chc/live?x=%20y", 404),
        (reqwest::Method::DELETE, "/query/q", 404),
    ] {
        let request = client.request(method.clone(), format!("http://{}{path}", stage.client));
        let response = within(path, request.header("origin", "http://o").send()).await.unwrap();
        assert_eq!(response.status(), status, "{method} {path}");
        let asked = server.asked().pop().unwrap();
        assert_eq!(
            (asked.path.as_str(), &asked.headers["origin"]),
            (path.split('?').next().unwrap(), &"http://o".parse().unwrap())
        );
        assert_eq!(response.text().await.unwrap().is_empty(), method == reqwest::Method::HEAD);
    }
}

#[tokio::test]
async fn b23_a_lookup_over_http2_is_asked_over_http2() {
    let versions = Arc::new(std::sync::Mutex::new(Vec::new()));
    let server = Fake::streaming({
        let versions = Arc::clone(&versions);
        move |request: Request<ksqldb_sidecar::http::Body>, _| {
            versions.lock().unwrap().push(request.version());
            async { http::Response::new(ksqldb_sidecar::http::Body::full(Reply::rows(&[r#"["x",1]"#]).body)) }
        }
    });
    for (version, expected) in [("0.29.0", http::Version::HTTP_2), ("7.1.0", http::Version::HTTP_11)] {
        let stage = Stage::set(&[&server], Some(version), "K STRING");
        let client: Client<_, Full<::bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let body = Full::from(format!(r#"{{"ksql":"{LOOKUP}"}}"#));
        let request = Request::post(format!("http://{}/query", stage.client)).body(body).unwrap();
        let response = within("the answer", client.request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, Reply::rows(&[r#"["x",1]"#]).body);
        assert_eq!(versions.lock().unwrap().pop(), Some(expected), "{version}");
    }
}
