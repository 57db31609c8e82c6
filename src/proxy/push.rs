//! Streams that last: told of the end when the sidecar shuts down, and remembered so that they can be closed.

use crate::http::{Body, BodyError, DrainSignal};
use crate::view::HostName;
use bytes::Bytes;
use dashmap::DashMap;
use http::{Response, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use serde::Deserialize;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Queries remembered at the same time; more are not, and their `/close-query` goes to the local server.
const REMEMBERED: usize = 10_000;

/// As much of a stream's beginning as is searched for its query id.
const SEARCHED: usize = 4096;

/// What a stream ends with when the sidecar shuts down: the error row that ksqlDB itself ends a stream with.
const FAREWELL: &str =
    r#"{"@type":"generic_error","error_code":50303,"message":"the sidecar is shutting down; ask again"}"#;

/// Which server runs which push query.
#[derive(Debug, Default)]
pub(super) struct Queries(DashMap<String, HostName>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CloseQuery {
    query_id: String,
}

impl Queries {
    /// The server that runs the query which a `/close-query` body names, if it came through here.
    pub fn host_of(&self, body: &[u8]) -> Option<HostName> {
        let close: CloseQuery = serde_json::from_slice(body).ok()?;
        self.0.get(&close.query_id).map(|host| Arc::clone(&host))
    }

    fn remember(&self, id: &str, host: &HostName) -> bool {
        let room = self.0.len() < REMEMBERED;
        if room {
            self.0.insert(id.to_owned(), Arc::clone(host));
        }
        room
    }
}

/// Passes a push query's answer on until either side leaves or the drain begins.
pub(super) fn stream(
    response: Response<Body>,
    host: &HostName,
    queries: &Arc<Queries>,
    drain: &DrainSignal,
) -> Response<Body> {
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let farewell = match content_type {
        Some(kind) if kind.contains("delimited") => Some(format!("{FAREWELL}\n")),
        Some(kind) if kind.contains("vnd.ksql.v1") => Some(format!(",\n{{\"errorMessage\":{FAREWELL}}}]")),
        _ => None,
    };
    let drain = drain.clone();
    response.map(|body| {
        Body::boxed(PushBody {
            body,
            draining: Box::pin(async move { drain.draining().await }),
            farewell: farewell.map(Bytes::from),
            ended: false,
            beginning: Some(Vec::new()),
            remembered: None,
            host: Arc::clone(host),
            queries: Arc::clone(queries),
        })
    })
}

struct PushBody {
    body: Body,
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
    farewell: Option<Bytes>,
    ended: bool,
    /// What came before the query id was found; `None` once it was, or is not looked for any longer.
    beginning: Option<Vec<u8>>,
    remembered: Option<String>,
    host: HostName,
    queries: Arc<Queries>,
}

impl PushBody {
    fn search(&mut self, data: &[u8]) {
        let Some(mut beginning) = self.beginning.take() else { return };
        beginning.extend_from_slice(data.get(..data.len().min(SEARCHED)).unwrap_or_default());
        match query_id(&beginning) {
            Some(id) if self.queries.remember(&id, &self.host) => self.remembered = Some(id),
            None if beginning.len() < SEARCHED => self.beginning = Some(beginning),
            _ => {}
        }
    }
}

fn query_id(beginning: &[u8]) -> Option<String> {
    const MEMBER: &[u8] = b"\"queryId\":\"";
    let at = memchr::memmem::find(beginning, MEMBER)? + MEMBER.len();
    let rest = beginning.get(at..)?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(rest.get(..end)?).ok().map(str::to_owned)
}

impl HttpBody for PushBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.search(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending if this.draining.as_mut().poll(cx).is_ready() => {
                this.ended = true;
                Poll::Ready(Some(match this.farewell.take() {
                    Some(farewell) => Ok(Frame::data(farewell)),
                    None => Err(BodyError::Source("the sidecar is shutting down".into())),
                }))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for PushBody {
    fn drop(&mut self) {
        if let Some(id) = self.remembered.take() {
            self.queries.0.remove(&id);
        }
    }
}
