//! Which request goes where.

use super::body::{AnswerBody, Never};
use super::{Shared, insert, pull, push, websocket};
use crate::emulator::answer::{Answer, Arrives};
use crate::emulator::config::Version;
use crate::emulator::exchange::{Ask, ksql, plain, read_query, refused, status_only};
use crate::emulator::model::State;
use crate::emulator::statement::Emit;
use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

type Reply = Response<AnswerBody>;

/// Answers one request of a server.
pub async fn route(shared: Arc<Shared>, server: usize, request: Request<Incoming>) -> Result<Reply, Never> {
    let starting = shared.model().hosts.get(server).is_none_or(|h| h.state == State::Starting);
    let method = request.method().clone();
    Ok(match (&method, request.uri().path()) {
        (&Method::POST, "/query") if !starting => query(&shared, server, request, false).await,
        (&Method::POST, "/query-stream") if !starting => query(&shared, server, request, true).await,
        (&Method::POST, "/inserts-stream") if !starting => insert::reply(&shared, request),
        (&Method::GET, "/ws/query") if !starting => websocket::reply(&shared, server, request),
        (&Method::POST, "/ksql") if !starting => {
            let body = collect(request).await;
            let answer = ksql(&mut shared.model(), server, &body);
            tokio::time::sleep(answer.delay).await;
            reply(answer)
        }
        (&Method::POST, "/close-query") if !starting => {
            let body = collect(request).await;
            reply(push::close(&shared, &body))
        }
        _ => {
            let path = request.uri().path().to_owned();
            let body = collect(request).await;
            let ask = Ask { method: method.as_str(), path: &path, accept: None, body: &body };
            with_headers(reply(plain(&shared.model(), server, &ask)), &method)
        }
    })
}

/// An answer as a response.
pub fn reply(answer: Answer) -> Reply {
    let body = Some(Bytes::from(answer.body)).filter(|b| !b.is_empty());
    let body = if answer.chunked { AnswerBody::Chunked(body) } else { AnswerBody::Sized(body) };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(media) = answer.content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    }
    response
}

/// The headers that a status asks for.
fn with_headers(mut response: Reply, asked: &Method) -> Reply {
    match response.status() {
        StatusCode::TEMPORARY_REDIRECT => {
            _ = response.headers_mut().insert(LOCATION, HeaderValue::from_static("/info"))
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let allowed = if *asked == Method::POST { "GET" } else { "POST" };
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        _ => {}
    }
    response
}

async fn collect(request: Request<Incoming>) -> Bytes {
    request.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default()
}

async fn query(shared: &Arc<Shared>, server: usize, request: Request<Incoming>, stream: bool) -> Reply {
    let accept = request.headers().get(ACCEPT).cloned();
    let http2 = request.version() == http::Version::HTTP_2;
    let version = shared.version;
    if http2 && !stream && version == Version::Old {
        return reply(status_only(405));
    }
    let body = collect(request).await;
    let accept = accept.as_ref().and_then(|v| v.to_str().ok());
    let answer = match read_query(version, accept, &body, stream) {
        Err(answer) => return reply(*answer),
        Ok((envelope, shape, Ok(select))) if select.emit == Emit::Changes => {
            return push::reply(shared, server, &select, &envelope, shape);
        }
        Ok((envelope, shape, Ok(select))) => pull::answer(shared, server, &select, &envelope, shape).await,
        Ok((envelope, shape, Err(why))) => refused(&shared.model(), &why, &envelope, shape),
    };
    if !answer.delay.is_zero() {
        tokio::time::sleep(answer.delay).await;
    }
    if answer.arrives == Arrives::Whole { reply(answer) } else { broken(answer) }
}

/// How long the first half of a broken answer has to go out before the connection breaks.
const HALF: Duration = Duration::from_millis(20);

/// The head of an answer and half its body, or nothing of it.
fn broken(answer: Answer) -> Reply {
    let (sender, receiver) = mpsc::channel(2);
    let bytes = Bytes::from(answer.body.clone());
    let stalls = answer.arrives == Arrives::Head;
    tokio::spawn(async move {
        if stalls {
            return sender.closed().await;
        }
        _ = sender.send(Ok(bytes.slice(..bytes.len() / 2))).await;
        tokio::time::sleep(HALF).await;
        _ = sender.send(Err(io::ErrorKind::ConnectionAborted.into())).await;
    });
    reply(answer).map(|_| AnswerBody::Stream(receiver))
}
