//! A client that adds no header of its own.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest wait for anything in these tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A whole answer.
#[derive(Debug)]
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

/// Sends a request and reads the answer to its end.
pub async fn send(method: &str, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Got, String> {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(body)).map_err(|e| e.to_string())?;
    let exchange = async {
        let response = client.request(request).await.map_err(|e| format!("{e:?}"))?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|e| format!("{e:?}"))?.to_bytes();
        Ok(Got { status: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() })
    };
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| "timed out".to_owned())?
}

/// A `/query` of one statement.
pub async fn query(url: &str, sql: &str, properties: Value) -> Result<Got, String> {
    let body = json!({"ksql": sql, "streamsProperties": {}, "requestProperties": properties});
    send("POST", &format!("{url}/query"), &[], body.to_string().into_bytes()).await
}

/// The request properties of a pin.
pub fn pin(partition: u32) -> Value {
    json!({"request.ksql.query.pull.skip.forwarding": true, "request.ksql.query.pull.partition": partition.to_string()})
}

/// Waits until something holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) -> Duration {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}
