//! Bodies with a length, without one, and without an end.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// A response body.
pub enum AnswerBody {
    /// Sent with a Content-Length.
    Sized(Option<Bytes>),
    /// Sent in chunks.
    Chunked(Option<Bytes>),
    /// Whatever is sent on the channel; an error breaks it off.
    Stream(mpsc::Receiver<io::Result<Bytes>>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            AnswerBody::Sized(bytes) | AnswerBody::Chunked(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            AnswerBody::Stream(receiver) => receiver.poll_recv(cx).map(|next| next.map(|r| r.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Sized(None) | AnswerBody::Chunked(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Sized(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            _ => SizeHint::default(),
        }
    }
}

/// The error type of handlers that cannot fail.
pub type Never = Infallible;
