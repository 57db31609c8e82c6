//! `POST /drain`, `DELETE /drain`, `GET /drain/ready`: stopping a server without a request noticing.

use super::{Admin, json as reply, millis, refuse};
use crate::http::Body;
use crate::view::{Ask, DrainView};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How long `POST /drain` waits unless `?wait=` says otherwise.
const WAIT: Duration = Duration::from_secs(30);

/// The longest wait that may be asked for.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// How long a sidecar may be silent and still be waited for: five heartbeats at default settings.
const SILENCE: Duration = Duration::from_secs(1);

impl Admin {
    /// Has no query sent to the own server any more, by any sidecar, and waits until it may be stopped.
    pub(super) async fn drain(&self, query: Option<&str>) -> Response<Body> {
        let wait = match query.and_then(|query| query.strip_prefix("wait=")).map(humantime::parse_duration) {
            None if query.is_none() => WAIT,
            Some(Ok(wait)) if wait <= MAX_WAIT => wait,
            _ => return refuse(StatusCode::BAD_REQUEST, "expects no query, or ?wait=30s, of 10 minutes at most"),
        };
        let until = Instant::now() + wait;
        let mut changes = self.shown.published.changes();
        if self.asks.send(Ask::Drain(true)).await.is_err() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "the sidecar is ending");
        }
        loop {
            let (done, detail) = self.drained();
            if done {
                return reply(StatusCode::OK, &detail);
            }
            // snapshots are made with every probe, so that requests that end are noticed as well
            let told = tokio::time::timeout_at(until, changes.changed()).await;
            if !matches!(told, Ok(Ok(()))) {
                return reply(StatusCode::SERVICE_UNAVAILABLE, &detail);
            }
        }
    }

    /// Takes a drain back.
    pub(super) async fn undrain(&self) -> Response<Body> {
        match self.asks.send(Ask::Drain(false)).await {
            Ok(()) => reply(StatusCode::OK, &json!({"draining": false})),
            Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the sidecar is ending"),
        }
    }

    /// Whether it is safe to restart the own server now: others hold what it holds, and none of them is down.
    pub(super) fn drain_ready(&self) -> Response<Body> {
        let (_, detail) = self.drained();
        let ready = detail["safe"] == true;
        reply(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &detail)
    }

    /// Whether the own server is drained, and what speaks against stopping it.
    fn drained(&self) -> (bool, Value) {
        let (view, now) = (self.shown.published.load(), self.shown.clock.now());
        let DrainView { lacking, unfit, choosing } = view.drained(now.back(SILENCE));
        let own = view.local().map(|(_, host)| self.shown.published.in_flight(&host.name).load(Ordering::Relaxed));
        let safe = lacking.is_empty() && unfit.is_empty() && view.catalogue_known && own.is_some();
        let drained = safe && choosing.is_empty() && own == Some(0) && view.draining.is_some();
        let lacking: Vec<Value> = lacking.iter().map(|(table, p)| json!({"table": table, "partition": p})).collect();
        let detail = json!({
            "draining": view.draining.is_some(),
            "drained": drained,
            "safe": safe,
            "withoutCurrentStandby": lacking,
            "otherServersNotLive": unfit.iter().map(|host| &**host).collect::<Vec<_>>(),
            "sidecarsThatChooseIt": choosing.iter().map(|host| &**host).collect::<Vec<_>>(),
            "inFlight": own,
            "drainingForMs": view.draining.map(|since| millis(now.since(since))),
        });
        (drained, detail)
    }
}
