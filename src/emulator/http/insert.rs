//! `/inserts-stream`: rows in, acknowledgements out, both as they come.

use super::Shared;
use super::body::AnswerBody;
use super::route::reply as plain;
use crate::emulator::answer::{Answer, Shape, generic};
use crate::emulator::datum::Datum;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Map, Value};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The streaming answer.
pub fn reply(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<AnswerBody> {
    let (sender, receiver) = mpsc::channel(16);
    let version = shared.version;
    tokio::spawn(run(shared.clone(), request.into_body(), sender));
    let content_type = version.names_content_type().then_some(Shape::Delimited.media_type());
    let head = Answer { content_type, ..Answer::chunked(200, String::new()) };
    plain(head).map(|_| AnswerBody::Stream(receiver))
}

async fn run(shared: Arc<Shared>, mut body: Incoming, sender: mpsc::Sender<io::Result<Bytes>>) {
    let mut pending = BytesMut::new();
    let mut target: Option<String> = None;
    let mut sequence = 0;
    loop {
        let frame = body.frame().await;
        let ended = !matches!(frame, Some(Ok(_)));
        if let Some(Ok(frame)) = frame
            && let Ok(data) = frame.into_data()
        {
            pending.extend_from_slice(&data);
        }
        if ended && !pending.is_empty() {
            pending.extend_from_slice(b"\n");
        }
        while let Some(end) = pending.iter().position(|b| *b == b'\n') {
            let line = pending.split_to(end + 1);
            let Ok(value) = serde_json::from_slice::<Value>(&line) else { continue };
            let Some(into) = &target else {
                target = Some(value["target"].as_str().unwrap_or_default().to_uppercase());
                continue;
            };
            let ack = insert(&shared, into, value.as_object().unwrap_or(&Map::new()), sequence);
            sequence += 1;
            if sender.send(Ok(Bytes::from(ack + "\n"))).await.is_err() {
                return;
            }
        }
        if ended {
            return;
        }
    }
}

fn insert(shared: &Arc<Shared>, into: &str, row: &Map<String, Value>, sequence: u64) -> String {
    let mut model = shared.model();
    let catalogue = model.catalogue.clone();
    let given = |name: &str| row.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| Datum::from_json(v));
    let key: Vec<Datum> = match catalogue.source(into) {
        Some(source) => source.key.iter().map(|c| given(&c.name).unwrap_or(Datum::Null)).collect(),
        None => Vec::new(),
    };
    let value = match given("V") {
        Some(Datum::Int(v)) => Some(v),
        _ => None,
    };
    match model.write(into, &key, Some(value)) {
        Ok(_) => format!(r#"{{"status":"ok","seq":{sequence}}}"#),
        Err(error) => {
            let body = generic(40001, &error.to_string());
            format!(r#"{{"status":"error","seq":{sequence},{}"#, body.trim_start_matches('{'))
        }
    }
}
