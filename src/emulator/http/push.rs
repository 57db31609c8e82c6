//! Push queries, and `/close-query`.

use super::Shared;
use super::body::AnswerBody;
use super::route::reply as plain;
use crate::emulator::answer::{Answer, Shape, generic, header, row};
use crate::emulator::envelope::Envelope;
use crate::emulator::exchange::refused;
use crate::emulator::model::Written;
use crate::emulator::query::Selection;
use crate::emulator::statement::Select;
use bytes::Bytes;
use http::Response;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

/// How often a quiet push query sends a blank line.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// A running push query; counted and closable while it lives.
pub struct Push {
    shared: Arc<Shared>,
    /// Its id.
    pub id: String,
    /// Ends it.
    pub closed: CancellationToken,
}

impl Push {
    /// Registers a push query on a source.
    pub fn start(shared: &Arc<Shared>, source: &str) -> Self {
        let number = shared.next_id.fetch_add(1, Ordering::Relaxed) + 5_455_897_107_611_917_610;
        let id = format!("transient_{source}_{number}");
        let closed = CancellationToken::new();
        shared.running.fetch_add(1, Ordering::Relaxed);
        shared.pushes.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), closed.clone());
        Push { shared: shared.clone(), id, closed }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::Relaxed);
        self.shared.pushes.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The streaming answer to a push query.
pub fn reply(
    shared: &Arc<Shared>,
    server: usize,
    select: &Select,
    envelope: &Envelope,
    shape: Shape,
) -> Response<AnswerBody> {
    let (selection, version) = {
        let model = shared.model();
        let selection = Selection::new(&model, select).map_err(|why| refused(&model, &why, envelope, shape));
        (selection, model.config.version)
    };
    let selection = match selection {
        Ok(selection) => selection,
        Err(answer) => return plain(answer),
    };
    let (sender, receiver) = mpsc::channel(16);
    let records = shared.written.subscribe();
    let old = if envelope.earliest { shared.model().history(&selection.source) } else { Vec::new() };
    let push = Push::start(shared, &selection.source);
    tokio::spawn(run(push, server, selection, shape, old, records, sender));
    let content_type = version.names_content_type().then_some(shape.media_type());
    let head = Answer { content_type, ..Answer::chunked(200, String::new()) };
    plain(head).map(|_| AnswerBody::Stream(receiver))
}

async fn run(
    push: Push,
    server: usize,
    selection: Selection,
    shape: Shape,
    old: Vec<Written>,
    mut records: broadcast::Receiver<Arc<Written>>,
    sender: mpsc::Sender<io::Result<Bytes>>,
) {
    let catalogue = push.shared.model().catalogue.clone();
    let Some(source) = catalogue.source(&selection.source) else { return };
    let mut left = selection.select.limit.unwrap_or(usize::MAX);
    let mut out = String::new();
    header(shape, &push.id, &selection.columns, &mut out);
    let mut old = old.into_iter();
    loop {
        if !out.is_empty() && sender.send(Ok(Bytes::from(std::mem::take(&mut out)))).await.is_err() {
            return;
        }
        if left == 0 {
            _ = sender.send(Ok(Bytes::from_static(end(shape)))).await;
            return;
        }
        let record = match old.next() {
            Some(record) => Some(Arc::new(record)),
            None => tokio::select! {
                () = sender.closed() => return,
                () = push.closed.cancelled() => {
                    _ = sender.send(Ok(Bytes::from_static(closing(shape)))).await;
                    return;
                }
                next = tokio::time::timeout(KEEP_ALIVE, records.recv()) => match next {
                    Ok(Ok(record)) => Some(record),
                    Ok(Err(broadcast::error::RecvError::Closed)) => return,
                    Ok(Err(broadcast::error::RecvError::Lagged(_))) => None,
                    Err(_) => {
                        out.push('\n');
                        None
                    }
                },
            },
        };
        if let Some(values) = record.and_then(|r| selection.values(source, &r)) {
            left -= 1;
            out.push_str(shape.separator());
            row(shape, &values, None, &mut out);
        }
        if !push.shared.model().hosts.get(server).is_some_and(|h| h.state.open()) {
            return;
        }
    }
}

fn end(shape: Shape) -> &'static [u8] {
    match shape {
        Shape::V1Json => b",\n{\"finalMessage\":\"Limit Reached\"}]",
        Shape::Delimited => b"",
        _ => b"]",
    }
}

fn closing(shape: Shape) -> &'static [u8] {
    if shape == Shape::Delimited { b"" } else { b"]" }
}

/// `/close-query`.
pub fn close(shared: &Arc<Shared>, body: &[u8]) -> Answer {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let id = value["queryId"].as_str().unwrap_or_default();
    let found = shared.pushes.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
    match found {
        Some(token) => {
            token.cancel();
            Answer { content_type: None, ..Answer::json(200, String::new()) }
        }
        None => Answer { content_type: None, ..Answer::json(400, generic(40001, &format!("No query with id {id}"))) },
    }
}
