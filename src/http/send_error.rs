//! Why a request got no answer, as the questions a retry decision asks.

use super::body::BodyError;
use std::error::Error as StdError;
use std::fmt;
use std::io;

type Cause = Box<dyn StdError + Send + Sync>;

/// A request that got no response head.
#[derive(Debug)]
pub struct SendError {
    kind: Kind,
    reused: bool,
    cause: Option<Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Connect,
    ConnectTimeout,
    Unsent,
    Closed,
    RequestBody,
    Protocol,
}

impl SendError {
    pub(super) fn connect(cause: impl Into<Cause>) -> SendError {
        SendError { kind: Kind::Connect, reused: false, cause: Some(cause.into()) }
    }

    pub(super) fn connect_timeout() -> SendError {
        SendError { kind: Kind::ConnectTimeout, reused: false, cause: None }
    }

    pub(super) fn unsent(cause: impl Into<Cause>) -> SendError {
        SendError { kind: Kind::Unsent, reused: false, cause: Some(cause.into()) }
    }

    /// Sorts what hyper says after some of the request may have been written; `closed`: the connection is gone.
    pub(super) fn after_write(error: hyper::Error, reused: bool, closed: bool) -> SendError {
        let kind = if caused_by::<BodyError>(&error) {
            Kind::RequestBody
        } else if error.is_parse() {
            Kind::Protocol
        } else if closed || error.is_incomplete_message() || error.is_canceled() || caused_by::<io::Error>(&error) {
            Kind::Closed
        } else {
            Kind::Protocol
        };
        SendError { kind, reused, cause: Some(error.into()) }
    }

    /// Repeats a failed connection attempt's outcome for another request that waited for it.
    pub(super) fn shared_connect(timed_out: bool) -> SendError {
        if timed_out {
            SendError::connect_timeout()
        } else {
            SendError::connect("a concurrent attempt to connect failed")
        }
    }

    /// Whether nothing of the request was sent, so that repeating it is safe whatever it does.
    pub fn is_connect(&self) -> bool {
        matches!(self.kind, Kind::Connect | Kind::ConnectTimeout | Kind::Unsent)
    }

    /// Whether a reused connection ended before a byte of the response came: most often an idle connection that the server
    /// was just closing. The server may have seen the request.
    pub fn is_closed_before_response(&self) -> bool {
        self.kind == Kind::Closed && self.reused
    }

    /// Whether the limit for connecting passed.
    pub fn is_timeout(&self) -> bool {
        self.kind == Kind::ConnectTimeout
    }

    /// Whether the body that was being sent failed, which says nothing against the server.
    pub fn is_request_body(&self) -> bool {
        self.kind == Kind::RequestBody
    }

    /// The kind, for logs and metric labels.
    pub fn label(&self) -> &'static str {
        match self.kind {
            Kind::Connect => "connect",
            Kind::ConnectTimeout => "connect_timeout",
            Kind::Unsent => "unsent",
            Kind::Closed => "closed",
            Kind::RequestBody => "request_body",
            Kind::Protocol => "protocol",
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Connect => "cannot connect",
            Kind::ConnectTimeout => "timed out connecting",
            Kind::Unsent => "connection closed before the request was sent",
            Kind::Closed => "connection closed before the response",
            Kind::RequestBody => "request body failed",
            Kind::Protocol => "no valid response",
        })
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as _)
    }
}

fn caused_by<E: StdError + 'static>(error: &hyper::Error) -> bool {
    std::iter::successors(error.source(), |&cause| cause.source()).any(|cause| cause.is::<E>())
}
