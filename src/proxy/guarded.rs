//! The rest of an answer that is too large to hold: passed on as it comes, broken off if it does not end well.

use super::answer::{AnswerScanner, End};
use crate::http::{Body, BodyError};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Passes an answer on and reads it on the way.
///
/// An answer cut short, or one with an error row at its end, must not reach the client as a clean, shorter one: then the
/// stream is broken, which clients of every format notice.
#[derive(Debug)]
pub(super) struct Guarded {
    rest: Body,
    scanner: AnswerScanner,
    failed: bool,
}

impl Guarded {
    /// `prefix` was read already and is given first.
    pub fn new(prefix: Bytes, rest: Body) -> Self {
        Guarded { rest: rest.prepend(prefix), scanner: AnswerScanner::default(), failed: false }
    }
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.failed {
            return Poll::Ready(None);
        }
        match ready!(Pin::new(&mut self.rest).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.scanner.push(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            None if self.scanner.end() != End::Clean => {
                self.failed = true;
                Poll::Ready(Some(Err(BodyError::Source("the answer ended with an error or before its end".into()))))
            }
            end => Poll::Ready(end),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
