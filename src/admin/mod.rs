//! The admin port: what peers, Prometheus and the kubelet ask, and explanations for people.
//!
//! Reads snapshots and metrics only; what peers send goes to `control` by a channel. Statements are shown to loopback
//! only.

mod decisions;
mod drain;
mod events;
mod explain;
mod guard;
mod overview;
mod page;
mod status;
mod tables;

use crate::clock::Clock;
use crate::config::Freshness;
use crate::http::{Body, ConnectionInfo, Handler, ReadBody, read_up_to};
use crate::telemetry::{Metrics, Recent};
use crate::view::{Ask, Heartbeat, HostState, MESSAGE_VERSION, PeerLag, Published};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Largest body that the admin port reads: a statement, or a heartbeat.
const BODY_BYTES: usize = 64 * 1024;

/// What shows statements or decisions; the page's own files besides.
const LOOPBACK_ONLY: [&str; 5] = ["/decisions", "/drain", "/explain", "/events", "/overview"];

/// Answers the admin port.
#[derive(Debug)]
pub struct Admin {
    shown: Arc<Shown>,
    asks: mpsc::Sender<Ask>,
    metrics: Arc<Metrics>,
    lag_poll_interval: Duration,
    /// This sidecar's incarnation, told to peers.
    incarnation: String,
}

/// What the page shows.
#[derive(Debug)]
struct Shown {
    clock: Clock,
    published: Arc<Published>,
    recent: Arc<Recent>,
    /// The bounds of requests that set none.
    freshness: Freshness,
    /// Whether queries that are no lookups are asked partition by partition.
    scatters: bool,
    stopping: AtomicBool,
    /// Places for streams of events.
    streams: Arc<Semaphore>,
    written: Mutex<Option<events::Written>>,
}

impl Admin {
    /// `incarnation` is new after each start.
    pub fn new(
        clock: Clock,
        published: Arc<Published>,
        asks: mpsc::Sender<Ask>,
        (metrics, recent): (Arc<Metrics>, Arc<Recent>),
        (freshness, lag_poll_interval, scatters): (Freshness, Duration, bool),
        incarnation: String,
    ) -> Self {
        let shown = Shown {
            clock,
            published,
            recent,
            freshness,
            scatters,
            stopping: AtomicBool::new(false),
            streams: Arc::new(Semaphore::new(events::AT_ONCE)),
            written: Mutex::default(),
        };
        Admin { shown: Arc::new(shown), asks, metrics, lag_poll_interval, incarnation }
    }

    /// From now on `/readyz` says no: the process is shutting down.
    pub fn stop(&self) {
        self.shown.stopping.store(true, Ordering::Relaxed);
    }

    async fn route(&self, request: Request<Body>, connection: &ConnectionInfo) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let private = LOOPBACK_ONLY.contains(&path) || page::has(path);
        if let Some(reason) = guard::refusal(&head, private, connection.peer().ip()) {
            return refuse(StatusCode::FORBIDDEN, reason);
        }
        let mut response = self.answer(&head, body, connection).await;
        if private {
            page::protect(&mut response);
        }
        response
    }

    async fn answer(&self, head: &Parts, body: Body, connection: &ConnectionInfo) -> Response<Body> {
        let Shown { published, recent, freshness, clock, .. } = &*self.shown;
        let method = if head.method == Method::HEAD { &Method::GET } else { &head.method };
        match (method, head.uri.path()) {
            (&Method::GET, "/healthz") => text(StatusCode::OK, "ok\n"),
            (&Method::GET, "/readyz") => self.ready(),
            (&Method::GET, "/metrics") => self.scrape(),
            (&Method::GET, "/lag") => self.lag(),
            (&Method::GET, "/clusterStatus") => {
                json(StatusCode::OK, &status::cluster_status(&published.load(), clock.now()))
            }
            (&Method::GET, "/tables") => {
                json(StatusCode::OK, &tables::tables(&published.load(), freshness, clock.now()))
            }
            (&Method::GET, "/decisions") => match decisions::answer(recent, head.uri.query().unwrap_or_default()) {
                Ok(decisions) => json(StatusCode::OK, &decisions),
                Err(problem) => refuse(StatusCode::BAD_REQUEST, &problem),
            },
            (&Method::GET, "/overview") => self.overview().await,
            (&Method::GET, "/events") => self.events(connection),
            (&Method::POST, "/heartbeat") => self.heartbeat(body).await,
            (&Method::POST, "/explain") => self.explain(body).await,
            (&Method::POST, "/drain") => self.drain(head.uri.query()).await,
            (&Method::DELETE, "/drain") => self.undrain().await,
            (&Method::GET, "/drain/ready") => self.drain_ready(),
            (_, "/drain") => not_allowed("POST, DELETE"),
            (_, "/drain/ready") => not_allowed("GET"),
            (_, "/heartbeat" | "/explain") => not_allowed("POST"),
            (_, "/healthz" | "/readyz" | "/metrics" | "/lag" | "/clusterStatus" | "/tables") => not_allowed("GET"),
            (_, "/decisions" | "/overview" | "/events") => not_allowed("GET"),
            (&Method::GET, path) => page::file(path).unwrap_or_else(not_found),
            (_, path) if page::has(path) => not_allowed("GET"),
            _ => not_found(),
        }
    }

    /// What the page shows at first, for programs.
    async fn overview(&self) -> Response<Body> {
        let shown = Arc::clone(&self.shown);
        let written = tokio::task::spawn_blocking(move || {
            let mut overview = overview::overview(&shown, shown.clock.now());
            overview["traffic"] = Value::Object(overview::traffic(&shown.recent, 0));
            Bytes::from(overview.to_string())
        });
        match written.await {
            Ok(overview) => typed(StatusCode::OK, overview),
            Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("the overview cannot be made: {error}")),
        }
    }

    fn events(&self, connection: &ConnectionInfo) -> Response<Body> {
        let Some(body) = events::stream(&self.shown, connection.drain().clone()) else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "16 streams of events are open; close one");
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }

    /// Ready: not shutting down, and some server answers. The detail says what the servers' settings keep from working.
    fn ready(&self) -> Response<Body> {
        let view = self.shown.published.load();
        let live = view.hosts.iter().filter(|host| host.state == HostState::Live).count();
        let stopping = self.shown.stopping.load(Ordering::Relaxed);
        let ready = live > 0 && !stopping;
        let detail = json!({
            "ready": ready,
            "stopping": stopping,
            "liveServers": live,
            "servers": view.hosts.len(),
            "catalogueKnown": view.catalogue_known,
            "viewAgeMs": millis(self.shown.clock.now().since(view.made)),
            "advice": view.advice(),
        });
        json(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &detail)
    }

    fn scrape(&self) -> Response<Body> {
        let view = self.shown.published.load();
        self.metrics.view_age.set(self.shown.clock.now().since(view.made).as_secs_f64());
        match self.metrics.encode() {
            Ok(metrics) => {
                let mut response = Response::new(Body::full(metrics));
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("metrics cannot be encoded: {error}")),
        }
    }

    /// What the own server last said, for the other sidecars.
    fn lag(&self) -> Response<Body> {
        let Some(own) = self.shown.published.own() else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "the own server has not answered /clusterStatus yet");
        };
        let head = PeerLag {
            version: MESSAGE_VERSION,
            server: own.server.to_string(),
            age_ms: millis(self.shown.clock.now().since(own.received)),
            took_ms: millis(own.took),
            report_age_ms: own.report_age.map(millis),
            cluster_status: RawValue::NULL,
        };
        // the own server's answer was read when it came; to look through it for every peer costs more than all else here
        match serde_json::to_string(&head).ok().as_deref().and_then(|head| head.strip_suffix("null}")) {
            Some(head) => typed(StatusCode::OK, Bytes::from([head.as_bytes(), &own.body, b"}"].concat())),
            None => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the message cannot be written"),
        }
    }

    /// Takes in a peer's heartbeat and answers with the own.
    async fn heartbeat(&self, body: Body) -> Response<Body> {
        let Some(heartbeat) = read(body).await.and_then(|bytes| serde_json::from_slice::<Heartbeat>(&bytes).ok())
        else {
            return refuse(
                StatusCode::BAD_REQUEST,
                "not a heartbeat: expects JSON with version, incarnation, server, state",
            );
        };
        let clock_ms = Some(millis(self.shown.clock.now().since_epoch()));
        let answer = Heartbeat::of(&self.shown.published, &self.incarnation, clock_ms, &heartbeat.server);
        let _ = self.asks.try_send(Ask::Heard(heartbeat)); // the next one comes soon
        json(StatusCode::OK, &json!(answer))
    }

    async fn explain(&self, body: Body) -> Response<Body> {
        let Some(bytes) = read(body).await else {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the statement is larger than 64 KiB");
        };
        match explain::Question::read(&bytes) {
            Ok(question) => json(
                StatusCode::OK,
                &question.answer(
                    &self.shown.published.load(),
                    (&self.shown.freshness, self.lag_poll_interval, self.shown.scatters),
                    self.shown.clock.now(),
                ),
            ),
            Err(problem) => refuse(StatusCode::BAD_REQUEST, problem),
        }
    }
}

impl Handler for Admin {
    async fn handle(&self, request: Request<Body>, connection: ConnectionInfo) -> Response<Body> {
        self.route(request, &connection).await
    }
}

async fn read(body: Body) -> Option<Bytes> {
    match read_up_to(body, BODY_BYTES).await {
        Ok(ReadBody::Whole { bytes, .. }) => Some(bytes),
        Ok(ReadBody::TooLarge { .. }) | Err(_) => None,
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn text(status: StatusCode, body: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, body: &Value) -> Response<Body> {
    typed(status, Bytes::from(body.to_string()))
}

fn typed(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    let code = u32::from(status.as_u16()) * 100;
    json(status, &json!({"@type": "generic_error", "error_code": code, "message": message}))
}

fn not_found() -> Response<Body> {
    refuse(StatusCode::NOT_FOUND, "no such page; see the README's list of admin endpoints")
}

fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &format!("expects {allow}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
