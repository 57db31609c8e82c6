//! `/ws/query`.

use super::body::AnswerBody;
use super::push::Push;
use super::route::reply as plain;
use super::{Shared, pull};
use crate::emulator::answer::{Answer, Shape, delimited_value, fields_json, generic, refusal};
use crate::emulator::envelope;
use crate::emulator::exchange::one_select;
use crate::emulator::query::{End, Outcome, Refusal, Selection};
use crate::emulator::statement::{Emit, Select};
use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::sync::Arc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The longest reason of a close frame, in bytes.
const MAX_REASON: usize = 123;

/// Switches protocols and runs the query of the URL.
pub fn reply(shared: &Arc<Shared>, server: usize, mut request: Request<Incoming>) -> Response<AnswerBody> {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY).map(|k| derive_accept_key(k.as_bytes())) else {
        return plain(Answer::json(400, generic(40000, "Can \"Upgrade\" only to \"WebSocket\".")));
    };
    let body = request.uri().query().and_then(|q| parameter(q, "request")).unwrap_or_default();
    let upgrade = hyper::upgrade::on(&mut request);
    let shared = shared.clone();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        // A client that left in the middle is no fault of the server.
        _ = run(&shared, server, &body, &mut socket).await;
    });
    let mut response = Response::new(AnswerBody::Sized(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers: [(HeaderName, Result<HeaderValue, _>); 3] = [
        (CONNECTION, Ok(HeaderValue::from_static("Upgrade"))),
        (UPGRADE, Ok(HeaderValue::from_static("websocket"))),
        (SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&key)),
    ];
    for (name, value) in headers {
        if let Ok(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

async fn run(shared: &Arc<Shared>, server: usize, body: &[u8], socket: &mut Socket) -> Result<(), Error> {
    let envelope = match envelope::read(body, false) {
        Ok(envelope) => envelope,
        Err(answer) => return fail(socket, &message(&answer.body)).await,
    };
    let text = envelope.text.clone();
    match one_select(&text, false) {
        Ok(select) if select.emit == Emit::Changes => push(shared, server, &select, envelope.earliest, socket).await,
        Ok(select) => match pull::rows(shared, server, &select, &text, &envelope.options).await {
            Some(Outcome::Found(found)) => {
                socket.send(Message::text(fields_json(&found.columns, true))).await?;
                for (values, _) in &found.rows {
                    socket.send(row(values)).await?;
                }
                match found.end {
                    End::Clean => done(socket).await,
                    End::Error(message) => fail(socket, &message).await,
                }
            }
            Some(Outcome::Refused(why)) => fail(socket, &refused(shared, &why, &text)).await,
            Some(Outcome::Waits { .. }) | None => fail(socket, "timed out").await,
        },
        Err(why) => fail(socket, &refused(shared, &why, &text)).await,
    }
}

async fn push(
    shared: &Arc<Shared>,
    server: usize,
    select: &Select,
    earliest: bool,
    socket: &mut Socket,
) -> Result<(), Error> {
    let mut records = shared.written.subscribe();
    let (selection, catalogue, old) = {
        let model = shared.model();
        let old = if earliest { model.history(&select.from) } else { Vec::new() };
        (Selection::new(&model, select), model.catalogue.clone(), old)
    };
    let selection = match selection {
        Ok(selection) => selection,
        Err(why) => return fail(socket, &refused(shared, &why, "")).await,
    };
    let Some(source) = catalogue.source(&select.from) else { return Ok(()) };
    let running = Push::start(shared, &source.name);
    socket.send(Message::text(fields_json(&selection.columns, false))).await?;
    let mut left = select.limit.unwrap_or(usize::MAX);
    let mut old = old.into_iter().map(Arc::new);
    while left > 0 && shared.model().hosts.get(server).is_some_and(|h| h.state.open()) {
        let record = match old.next() {
            Some(record) => record,
            None => tokio::select! {
                () = running.closed.cancelled() => break,
                received = socket.next() => match received {
                    None | Some(Err(_) | Ok(Message::Close(_))) => return Ok(()),
                    Some(Ok(_)) => continue,
                },
                record = records.recv() => match record {
                    Ok(record) => record,
                    Err(_) => continue,
                },
            },
        };
        if let Some(values) = selection.values(source, &record) {
            socket.send(row(&values)).await?;
            left -= 1;
        }
    }
    done(socket).await
}

fn row(values: &[crate::emulator::datum::Datum]) -> Message {
    Message::text(format!(r#"{{"row":{{"columns":{}}}}}"#, delimited_value(values)))
}

async fn done(socket: &mut Socket) -> Result<(), Error> {
    socket.send(Message::text(r#"{"error":"done"}"#)).await?;
    close(socket, CloseCode::Normal, "done").await
}

async fn fail(socket: &mut Socket, message: &str) -> Result<(), Error> {
    socket.send(Message::text(format!(r#"{{"error":{}}}"#, Value::from(message)))).await?;
    close(socket, CloseCode::Unsupported, message).await
}

async fn close(socket: &mut Socket, code: CloseCode, reason: &str) -> Result<(), Error> {
    let end = (0..=reason.len().min(MAX_REASON)).rev().find(|i| reason.is_char_boundary(*i)).unwrap_or(0);
    let reason = reason.get(..end).unwrap_or_default().to_owned().into();
    socket.close(Some(CloseFrame { code, reason })).await
}

fn refused(shared: &Arc<Shared>, why: &Refusal, text: &str) -> String {
    let version = shared.model().config.version;
    let message = message(&refusal(version, false, why, text, Shape::V1Json.media_type()).body);
    match why {
        Refusal::Parse(_) | Refusal::Prepare(_) => format!("Error parsing query: {message}"),
        _ => message,
    }
}

fn message(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    value["message"].as_str().unwrap_or_default().to_owned()
}

/// A parameter of a query string, its escapes undone.
pub fn parameter(query: &str, name: &str) -> Option<Vec<u8>> {
    let (_, value) = query.split('&').filter_map(|p| p.split_once('=')).find(|(n, _)| *n == name)?;
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}
