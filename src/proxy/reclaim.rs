//! A request body that can be taken back from an attempt which never touched it.

use super::forward::Outgoing;
use crate::http::{Body, BodyError};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Lends a body to one attempt after the other until one begins to read it.
#[derive(Debug)]
pub(super) struct Reclaim {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Held(Bytes),
    Streaming(Arc<Mutex<Loan>>),
}

#[derive(Debug)]
struct Loan {
    body: Body,
    touched: bool,
}

impl Reclaim {
    pub fn new(body: Outgoing) -> Self {
        Reclaim {
            source: match body {
                Outgoing::Held(bytes) => Source::Held(bytes),
                Outgoing::Streaming(body) => Source::Streaming(Arc::new(Mutex::new(Loan { body, touched: false }))),
            },
        }
    }

    /// The body for one attempt.
    pub fn take(&mut self) -> Body {
        match &self.source {
            Source::Held(bytes) => Body::full(bytes.clone()),
            Source::Streaming(loan) => Body::boxed(Borrowed(Arc::clone(loan))),
        }
    }

    /// Whether another attempt would send the same bytes.
    pub fn is_whole(&self) -> bool {
        match &self.source {
            Source::Held(_) => true,
            Source::Streaming(loan) => !loan.lock().unwrap_or_else(PoisonError::into_inner).touched,
        }
    }
}

/// The body as one attempt sees it.
#[derive(Debug)]
struct Borrowed(Arc<Mutex<Loan>>);

impl HttpBody for Borrowed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut loan = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loan.touched = true;
        Pin::new(&mut loan.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.size_hint()
    }
}
