//! `GET /events`: the overview, the traffic and the decisions as server-sent events.
//!
//! An event comes every second, and at once when a server or a sidecar changes its state or a table comes or goes. A stream
//! that is not read is not written either: nothing piles up.

use super::{Shown, decisions, overview};
use crate::http::{Body, DrainSignal};
use crate::telemetry::{SECONDS, second_of};
use crate::view::{HostName, HostState, PeerSidecar, TableInfo};
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

/// Streams open at the same time, at most.
pub(super) const AT_ONCE: usize = 16;

/// Time between two events while nothing changes.
const EVERY: Duration = Duration::from_secs(1);

/// How long an overview that was written for one stream is good for another.
const SHARED: Duration = Duration::from_millis(200);

/// What is worth an event at once when it changes.
#[derive(Clone, Debug)]
struct Face {
    hosts: Vec<(HostName, HostState)>,
    sidecars: Arc<Vec<PeerSidecar>>,
    tables: Arc<HashMap<String, Arc<TableInfo>>>,
}

impl PartialEq for Face {
    fn eq(&self, other: &Self) -> bool {
        self.hosts == other.hosts
            && Arc::ptr_eq(&self.sidecars, &other.sidecars)
            && Arc::ptr_eq(&self.tables, &other.tables)
    }
}

/// An overview as text, for every stream that wants it soon.
#[derive(Debug)]
pub(super) struct Written {
    at: Instant,
    face: Face,
    text: Bytes,
}

/// One stream.
struct Stream {
    shown: Arc<Shown>,
    changes: watch::Receiver<u64>,
    drain: DrainSignal,
    /// What the last event showed; `None` before the first.
    face: Option<Face>,
    next: Instant,
    /// The newest decision that was sent.
    number: u64,
    /// The newest second that was sent; it may have grown since.
    second: u64,
    _place: OwnedSemaphorePermit,
}

/// A stream of events; `None` if too many are open.
pub(super) fn stream(shown: &Arc<Shown>, drain: DrainSignal) -> Option<Body> {
    let place = Arc::clone(&shown.streams).try_acquire_owned().ok()?;
    let stream = Stream {
        shown: Arc::clone(shown),
        changes: shown.published.changes(),
        drain,
        face: None,
        next: Instant::now(),
        number: 0,
        second: second_of(SystemTime::now()).saturating_sub(SECONDS as u64),
        _place: place,
    };
    Some(Body::stream(futures_util::stream::unfold(stream, Stream::event)))
}

impl Stream {
    /// The next event; `None` when the process ends.
    async fn event(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while self.face.is_some() {
            tokio::select! {
                () = self.drain.draining() => return None,
                () = tokio::time::sleep_until(self.next) => break,
                changed = self.changes.changed() => {
                    changed.ok()?;
                    if self.face != Some(face(&self.shown)) {
                        break;
                    }
                }
            }
        }
        if self.drain.is_draining() {
            return None;
        }
        self.next = Instant::now() + EVERY;
        let retry = if self.face.is_none() { "retry: 1000\n" } else { "" };
        let face = face(&self.shown);
        self.face = Some(face.clone());
        let shown = Arc::clone(&self.shown);
        // a large cluster takes milliseconds, which no request should wait
        let overview = tokio::task::spawn_blocking(move || shown.written(&face)).await.ok()?;
        let traffic = self.traffic();
        let mut text = String::with_capacity(overview.len() + 1024);
        // writing to a String cannot fail
        let _ = write!(text, "{retry}event: overview\ndata: {}\n\n", String::from_utf8_lossy(&overview));
        let _ = write!(text, "event: traffic\ndata: {traffic}\n\n");
        Some((Ok(Bytes::from(text)), self))
    }

    /// Traffic and decisions since the last event.
    fn traffic(&mut self) -> Value {
        let mut traffic = overview::traffic(&self.shown.recent, self.second);
        let new = self.shown.recent.decisions_after(self.number);
        self.second = traffic.get("second").and_then(Value::as_u64).unwrap_or(self.second).saturating_sub(1);
        self.number = new.first().map_or(self.number, |(number, _)| *number);
        traffic.insert("most".to_owned(), self.shown.recent.most().into());
        traffic.insert(
            "decisions".to_owned(),
            new.iter().map(|(number, decision)| decisions::one(*number, decision)).collect(),
        );
        Value::Object(traffic)
    }
}

fn face(shown: &Shown) -> Face {
    let view = shown.published.load();
    let hosts = view.hosts.iter().map(|host| (Arc::clone(&host.name), host.state)).collect();
    Face { hosts, sidecars: shown.published.sidecars(), tables: Arc::clone(&view.tables) }
}

impl Shown {
    /// The overview as text: a fresh one, or one that shows the same and was written a moment ago.
    fn written(&self, face: &Face) -> Bytes {
        let mut last = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = last.as_ref().filter(|last| last.face == *face && last.at.elapsed() < SHARED) {
            return written.text.clone();
        }
        let text = Bytes::from(overview::overview(self, self.clock.now()).to_string());
        *last = Some(Written { at: Instant::now(), face: face.clone(), text: text.clone() });
        text
    }
}
