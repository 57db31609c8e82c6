//! What is not one question and one answer: push queries, inserts, websockets, and the control port.

use super::client::{query, send, until};
use bytes::Bytes;
use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Control, ServeOptions, serve};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

async fn cluster() -> Cluster {
    Cluster::start(ClusterConfig::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_query_streams_rows_and_blank_lines_and_ends_when_its_client_leaves() {
    let cluster = cluster().await;
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let body = json!({"sql": "SELECT * FROM S WHERE K='k7' EMIT CHANGES;", "properties": {}}).to_string();
    let url = format!("{}/query-stream", cluster.servers()[0].url);
    let request = Request::post(url).body(Full::from(body)).unwrap();
    let mut response = client.request(request).await.unwrap();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(5), response.body_mut().frame()).await.unwrap();
        String::from_utf8(frame.unwrap().unwrap().into_data().unwrap().to_vec()).unwrap()
    };
    let head = next().await;
    assert!(
        head.starts_with("{\"queryId\":\"transient_S_")
            && head.ends_with("\"columnTypes\":[\"STRING\",\"INTEGER\"]}\n"),
        "{head}"
    );
    cluster.write("S", &json!("k8"), Some(98)).unwrap();
    cluster.write("S", &json!("k7"), Some(99)).unwrap();
    assert_eq!(next().await, "[\"k7\",99]\n");
    assert_eq!(next().await, "\n");
    assert_eq!(cluster.push_queries(), 1);
    drop(response);
    let took = until("the query has ended", || async { cluster.push_queries() == 0 }).await;
    assert!(took < Duration::from_secs(1));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_query_is_closed_by_its_id() {
    let cluster = cluster().await;
    let url = cluster.servers()[0].url.clone();
    let asked = tokio::spawn({
        let url = url.clone();
        async move { query(&url, "SELECT * FROM S EMIT CHANGES;", json!({})).await.unwrap() }
    });
    until("it runs", || async { cluster.push_queries() == 1 }).await;
    let unknown = send("POST", &format!("{url}/close-query"), &[], b"{\"queryId\":\"nope\"}".to_vec()).await.unwrap();
    assert_eq!(unknown.status, 400);
    let control = Control::start(&cluster, 0).await.unwrap();
    let queries = send("GET", &format!("http://{}/queries", control.address), &[], Vec::new()).await.unwrap();
    let id = serde_json::from_str::<Value>(&queries.body).unwrap()[0].as_str().unwrap().to_owned();
    let body = json!({"queryId": id}).to_string();
    let closed = send("POST", &format!("{url}/close-query"), &[], body.into_bytes()).await.unwrap();
    assert_eq!(closed.status, 200);
    assert!(asked.await.unwrap().body.ends_with(']'));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_are_acknowledged_one_by_one_while_the_request_goes_on() {
    let cluster = cluster().await;
    let (sender, receiver) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(4);
    let body = StreamBody::new(Box::pin(tokio_stream(receiver)));
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let url = format!("{}/inserts-stream", cluster.servers()[1].url);
    let send_line = async |line: &str| sender.send(Ok(Frame::data(Bytes::from(line.to_owned() + "\n")))).await.unwrap();
    send_line(r#"{"target":"S","properties":{}}"#).await;
    let mut response = client.request(Request::post(url).body(body).unwrap()).await.unwrap();
    for n in 0..3 {
        send_line(&json!({"K": "k5", "V": 1000 + n}).to_string()).await;
        let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, format!("{{\"status\":\"ok\",\"seq\":{n}}}\n"));
    }
    assert_eq!(cluster.truth("TL", &json!("k5")).last().unwrap().v, Some(1002));
    cluster.shutdown().await;
}

fn tokio_stream<T>(receiver: mpsc::Receiver<T>) -> impl futures_util::Stream<Item = T> {
    futures_util::stream::unfold(
        receiver,
        |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) },
    )
}

/// The frames of `/ws/query` for one request.
async fn websocket(cluster: &Cluster, request: &Value) -> Vec<Message> {
    let encoded: String = request.to_string().bytes().map(|b| format!("%{b:02X}")).collect();
    let address = cluster.servers()[0].address;
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let url = format!("ws://{address}/ws/query?request={encoded}");
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    let mut frames = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        frames.push(message);
    }
    _ = socket.close(None).await;
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_frames_are_those_of_a_real_server() {
    let cluster = cluster().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ksqldb-0.29.0/websocket.json");
    let sessions: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for session in sessions {
        let frames = websocket(&cluster, &session["request"]).await;
        let wanted = session["messages"].as_array().unwrap();
        assert_eq!(frames.len(), wanted.len(), "{}: {frames:?}", session["name"]);
        for (frame, wanted) in frames.iter().zip(wanted) {
            match frame {
                Message::Close(Some(close)) => {
                    assert_eq!(wanted["close"], u16::from(close.code));
                    assert_eq!(wanted["reason"], close.reason.as_str());
                }
                Message::Text(text) if text.starts_with("{\"row\"") => {
                    assert!(wanted["text"].as_str().unwrap().starts_with("{\"row\""))
                }
                Message::Text(text) => assert_eq!(wanted["text"], text.as_str(), "{}", session["name"]),
                other => panic!("{other:?}"),
            }
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_port_writes_breaks_and_tells_the_truth() {
    let cluster = cluster().await;
    let control = Control::start(&cluster, 0).await.unwrap();
    let url = |path: &str| format!("http://{}{path}", control.address);
    let written = send("POST", &url("/write"), &[], br#"{"key":"k1"}"#.to_vec()).await.unwrap();
    let value = serde_json::from_str::<Value>(&written.body).unwrap()["value"].clone();
    let truth = send("GET", &url("/truth?table=TL&key=k1"), &[], Vec::new()).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&truth.body).unwrap()["rows"][1]["V"], value);
    let bad = send("POST", &url("/fault"), &[], br#"{"explode":1}"#.to_vec()).await.unwrap();
    assert!(bad.status == 400 && bad.body.contains("explode"), "{bad:?}");
    let broken = send("POST", &url("/fault"), &[], br#"{"crash":2}"#.to_vec()).await.unwrap();
    assert!(broken.body.contains("Down"), "{broken:?}");
    assert!(send("GET", &format!("{}/info", cluster.servers()[2].url), &[], Vec::new()).await.is_err());
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_through_ksql_and_several_statements_in_one_request() {
    let cluster = cluster().await;
    let url = format!("{}/ksql", cluster.servers()[0].url);
    let body = json!({"ksql": "INSERT INTO SM (A,B,V) VALUES ('x',-7,1); SHOW STREAMS; DESCRIBE TM;"}).to_string();
    let got = send("POST", &url, &[], body.into_bytes()).await.unwrap();
    let entities: Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!(entities[0]["@type"], "streams");
    assert_eq!(entities[1]["sourceDescription"]["name"], "TM");
    let sql = "SELECT * FROM TM WHERE B=-7 AND A='x';";
    until("it is counted", || async {
        query(&cluster.servers()[1].url, sql, json!({})).await.is_ok_and(|got| got.body.contains("[\"x\",-7,1]"))
    })
    .await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_runs_until_it_is_stopped() {
    let options = ServeOptions { writes_per_second: 1000, ..ServeOptions::default() };
    serve(options, std::future::ready(())).await.unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = ClusterConfig { ports: vec![taken.local_addr().unwrap().port()], ..ClusterConfig::default() };
    let refused = serve(ServeOptions { cluster, ..ServeOptions::default() }, std::future::pending()).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
