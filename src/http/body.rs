//! The one body type: what a peer streams, what was read ahead of it, and what is made here.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::HeaderMap;
use hyper::body::Incoming;
use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A request or response body: some bytes at hand, then a source, then trailers; each may be missing.
///
/// Dropping it before its end tells the source's peer to stop: the HTTP/1.1 connection closes, the HTTP/2 stream is reset.
pub struct Body {
    prefix: Bytes,
    source: Source,
    trailers: Option<Box<HeaderMap>>,
    on_end: EndHook,
}

enum Source {
    Done,
    Incoming(Incoming),
    Boxed(UnsyncBoxBody<Bytes, BodyError>),
}

/// How a body ended, as its end hook is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// Every byte was handed on; they may still stand in the receiver's buffers.
    Complete,
    /// The source failed.
    Failed,
    /// The body was dropped before its end: the receiver has gone or lost interest.
    Dropped,
}

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection closed before the body's declared or framed end.
    #[error("body ended early")]
    Incomplete(#[source] hyper::Error),
    /// The transport failed, or the peer broke the protocol or reset the stream.
    #[error("body could not be read")]
    Transport(#[source] hyper::Error),
    /// A body made in this process failed.
    #[error("body source failed")]
    Source(#[source] Box<dyn StdError + Send + Sync>),
}

impl From<hyper::Error> for BodyError {
    fn from(error: hyper::Error) -> BodyError {
        if error.is_incomplete_message() { BodyError::Incomplete(error) } else { BodyError::Transport(error) }
    }
}

impl Body {
    /// A body without bytes.
    pub fn empty() -> Body {
        Body::full(Bytes::new())
    }

    /// A body whose bytes are all at hand.
    pub fn full(bytes: impl Into<Bytes>) -> Body {
        Body { prefix: bytes.into(), source: Source::Done, trailers: None, on_end: EndHook(None) }
    }

    /// Wraps any other body; its errors become [`BodyError::Source`] unless they are a [`BodyError`] already.
    pub fn boxed<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let typed = body.map_err(|error| match error.into().downcast::<BodyError>() {
            Ok(error) => *error,
            Err(other) => BodyError::Source(other),
        });
        Body { source: Source::Boxed(UnsyncBoxBody::new(typed)), ..Body::empty() }
    }

    /// Makes a body of a stream of chunks; the stream is polled only as fast as the receiver takes them.
    pub fn stream<S, E>(chunks: S) -> Body
    where
        S: futures_util::Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        Body::boxed(StreamBody::new(futures_util::StreamExt::map(chunks, |chunk| chunk.map(Frame::data))))
    }

    /// A body that fails at once.
    pub fn failed(error: BodyError) -> Body {
        Body::stream(futures_util::stream::iter([Err::<Bytes, _>(error)]))
    }

    /// The bytes of a body that has all of them at hand, and no trailers.
    pub fn at_hand(&self) -> Option<&Bytes> {
        (matches!(self.source, Source::Done) && self.trailers.is_none()).then_some(&self.prefix)
    }

    /// Puts bytes before everything this body still has to give.
    ///
    /// Without a copy unless a body already read ahead is given more.
    #[must_use]
    pub fn prepend(mut self, bytes: Bytes) -> Body {
        if self.prefix.is_empty() {
            self.prefix = bytes;
        } else if !bytes.is_empty() {
            self.prefix = [bytes, self.prefix].concat().into();
        }
        self
    }

    /// Sends these trailers after the last byte, unless the source brings its own.
    #[must_use]
    pub fn with_trailers(mut self, trailers: Option<Box<HeaderMap>>) -> Body {
        self.trailers = trailers;
        self
    }

    /// Calls `hook` once, when the body has ended or is dropped; at once if it is at its end already.
    ///
    /// Hooks given earlier run first.
    #[must_use]
    pub fn on_end(mut self, hook: impl FnOnce(BodyEnd) + Send + 'static) -> Body {
        let earlier = self.on_end.0.take();
        self.on_end.0 = Some(match earlier {
            None => Box::new(hook),
            Some(earlier) => Box::new(move |end| {
                earlier(end);
                hook(end);
            }),
        });
        if self.is_end_stream() {
            self.on_end.fire(BodyEnd::Complete);
        }
        self
    }
}

impl From<Incoming> for Body {
    fn from(incoming: Incoming) -> Body {
        Body { source: Source::Incoming(incoming), ..Body::empty() }
    }
}

impl Default for Body {
    fn default() -> Body {
        Body::empty()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = if !this.prefix.is_empty() {
            Some(Ok(Frame::data(std::mem::take(&mut this.prefix))))
        } else {
            match ready!(this.source.poll_frame(cx)) {
                None => this.trailers.take().map(|trailers| Ok(Frame::trailers(*trailers))),
                frame => frame,
            }
        };
        match &frame {
            Some(Err(_)) => this.on_end.fire(BodyEnd::Failed),
            Some(Ok(_)) if !this.is_end_stream() => {}
            _ => this.on_end.fire(BodyEnd::Complete),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_empty()
            && self.trailers.is_none()
            && match &self.source {
                Source::Done => true,
                Source::Incoming(incoming) => incoming.is_end_stream(),
                Source::Boxed(body) => body.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.source {
            Source::Done => SizeHint::with_exact(0),
            Source::Incoming(incoming) => incoming.size_hint(),
            Source::Boxed(body) => body.size_hint(),
        };
        let ahead = self.prefix.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(ahead)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match self {
            Source::Done => return Poll::Ready(None),
            Source::Incoming(incoming) => {
                ready!(Pin::new(incoming).poll_frame(cx)).map(|frame| frame.map_err(BodyError::from))
            }
            Source::Boxed(body) => ready!(Pin::new(body).poll_frame(cx)),
        };
        if !matches!(frame, Some(Ok(_))) {
            *self = Source::Done;
        }
        Poll::Ready(frame)
    }
}

/// Runs once: by [`EndHook::fire`], or as [`BodyEnd::Dropped`] when dropped unfired.
struct EndHook(Option<Box<dyn FnOnce(BodyEnd) + Send>>);

impl EndHook {
    fn fire(&mut self, end: BodyEnd) {
        if let Some(hook) = self.0.take() {
            hook(end);
        }
    }
}

impl Drop for EndHook {
    fn drop(&mut self) {
        self.fire(BodyEnd::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn chunks(chunks: &[&'static str]) -> Body {
        let chunks: Vec<_> =
            chunks.iter().map(|chunk| Ok::<_, BodyError>(Bytes::from_static(chunk.as_bytes()))).collect();
        Body::stream(futures_util::stream::iter(chunks))
    }

    fn watched(body: Body) -> (Body, Arc<Mutex<Vec<BodyEnd>>>) {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&ends);
        (body.on_end(move |end| seen.lock().unwrap().push(end)), ends)
    }

    async fn bytes(body: Body) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn the_end_is_told_once_and_how_it_came() {
        let (body, ends) = watched(chunks(&["1", "2"]));
        bytes(body).await;
        assert_eq!(*ends.lock().unwrap(), [BodyEnd::Complete]);

        let (mut body, ends) = watched(chunks(&["1", "2"]));
        body.frame().await.unwrap().unwrap();
        assert!(ends.lock().unwrap().is_empty());
        drop(body);
        assert_eq!(*ends.lock().unwrap(), [BodyEnd::Dropped]);

        let (body, ends) = watched(Body::failed(BodyError::Source("broken".into())));
        assert!(matches!(body.collect().await, Err(BodyError::Source(_))));
        assert_eq!(*ends.lock().unwrap(), [BodyEnd::Failed]);

        let (_body, ends) = watched(Body::empty());
        assert_eq!(*ends.lock().unwrap(), [BodyEnd::Complete]);
    }

    #[tokio::test]
    async fn a_full_body_is_at_its_end_with_its_last_byte() {
        let (mut body, ends) = watched(Body::full("1").prepend(Bytes::from_static(b"0")));
        assert_eq!(body.size_hint().exact(), Some(2));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "01");
        assert_eq!(*ends.lock().unwrap(), [BodyEnd::Complete]);
    }
}
