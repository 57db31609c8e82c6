//! Bytes <-> requests: listener, HTTP/1.1 and HTTP/2, bodies, headers, upgrades, drain, upstream connections.
//!
//! Knows nothing of ksqlDB. A request comes in through [`Server`], is handed to a [`Handler`] and leaves by
//! [`Upstream::send`] or, for a websocket, by [`tunnel::forward`].

mod body;
mod client;
mod connect;
mod connection;
mod drain;
mod h2c;
mod handler;
pub mod headers;
mod listener;
mod pool_h1;
mod pool_h2;
mod read;
mod rewind;
mod send_error;
mod sweep;
pub mod tunnel;

pub use body::{Body, BodyEnd, BodyError};
pub use client::{HttpClient, HttpVersion, Pool, Reuse, Upstream};
pub use connect::{ClientSettings, NotATarget, Target};
pub use drain::{Drain, DrainSignal, Drained};
pub use handler::{ConnectionInfo, Handler, ServerSettings};
pub use listener::Server;
pub use read::{ReadBody, read_up_to};
pub use send_error::SendError;
