//! The control port: faults, writes and the truth over HTTP, for curl and for tests in other languages.

use super::answer::{Answer, generic};
use super::cluster::Cluster;
use super::datum::Datum;
use super::fault::Fault;
use super::http::{AnswerBody, Never, Shared, parameter, reply};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running control port; it ends with this value.
pub struct Control {
    /// Its address.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Control {
    /// Listens on a port of the loopback interface; 0 is any.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub async fn start(cluster: &Cluster, port: u16) -> io::Result<Self> {
        let named = |cause: io::Error| io::Error::new(cause.kind(), format!("cannot listen on port {port}: {cause}"));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(named)?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, cluster.shared().clone()));
        Ok(Control { address, task })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = shared.clone();
        let service = service_fn(move |request| answer(shared.clone(), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<AnswerBody>, Never> {
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let outcome = match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/fault") => fault(&shared, &bytes),
        (&Method::POST, "/write") => write(&shared, &bytes),
        (&Method::GET, "/state") => Ok(state(&shared)),
        (&Method::GET, "/queries") => Ok(json!(shared.push_ids()).to_string()),
        (&Method::GET, "/truth") => truth(&shared, parts.uri.query().unwrap_or_default()),
        _ => return Ok(reply(Answer::json(404, generic(40400, "try /state, /queries, /fault, /write or /truth")))),
    };
    Ok(reply(match outcome {
        Ok(body) => Answer::json(200, body),
        Err(message) => Answer::json(400, generic(40000, &message)),
    }))
}

fn fault(shared: &Arc<Shared>, body: &[u8]) -> Result<String, String> {
    let fault: Fault =
        serde_json::from_slice(body).map_err(|error| format!("{error}; try one of: {}", Fault::EXAMPLES))?;
    let servers = shared.model().hosts.len();
    if let Some(server) = fault.servers().into_iter().find(|server| *server >= servers) {
        return Err(format!("there is no server {server}; they count from 0 to {}", servers.saturating_sub(1)));
    }
    shared.model().inject(fault);
    shared.follow();
    Ok(state(shared))
}

/// `{"stream":"S","key":"k1","value":5}`; stream and value may be left out.
fn write(shared: &Arc<Shared>, body: &[u8]) -> Result<String, String> {
    let value: Value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let stream = value["stream"].as_str().unwrap_or("S");
    let position = shared.model().put(stream, &value["key"], value["value"].as_i64()).map_err(|e| e.to_string())?;
    Ok(json!({"partition": position.partition, "offset": position.offset, "value": position.value}).to_string())
}

fn truth(shared: &Arc<Shared>, query: &str) -> Result<String, String> {
    let text = |name| parameter(query, name).and_then(|v| String::from_utf8(v).ok());
    let table = text("table").unwrap_or_else(|| "TL".to_owned());
    let key = text("key").ok_or("key is missing")?;
    let key: Value = serde_json::from_str(&key).unwrap_or(Value::String(key));
    let model = shared.model();
    let rows = model.truth(&table, &Datum::key_from_json(&key));
    let rows: Vec<Value> = rows
        .iter()
        .map(|t| json!({"at_ms": t.at.as_millis() as u64, "V": t.v, "C": t.c, "exists": t.exists}))
        .collect();
    Ok(json!({"now_ms": model.now().as_millis() as u64, "rows": rows}).to_string())
}

fn state(shared: &Arc<Shared>) -> String {
    let model = shared.model();
    let servers: Vec<Value> = model
        .hosts
        .iter()
        .map(|h| json!({"name": h.name, "state": format!("{:?}", h.state), "paused": h.paused, "replicas": h.replicas.len()}))
        .collect();
    let now = model.now().as_millis() as u64;
    json!({"now_ms": now, "version": model.config.version.as_str(), "servers": servers}).to_string()
}
