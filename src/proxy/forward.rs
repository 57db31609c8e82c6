//! Everything that is not a pull query: to the local server untouched, to another one while nothing was sent.

use super::hosts::Host;
use super::reclaim::Reclaim;
use super::reply::Served;
use super::request::Head;
use super::{Proxy, push};
use crate::error::ProxyError;
use crate::http::{Body, ConnectionInfo, Pool, Reuse, SendError, tunnel};
use crate::route::native_order;
use crate::view::{ClusterView, HostView};
use bytes::Bytes;
use http::{Method, Request, Response};
use std::fmt::Write;
use std::sync::Arc;

/// A body to forward.
pub(super) enum Outgoing {
    /// All at hand: may be sent to another server as long as none took it.
    Held(Bytes),
    /// Streams: handed on once a server takes it.
    Streaming(Body),
}

impl Proxy {
    /// Forwards a request; `pool` keeps streams that last apart from answers that end.
    ///
    /// # Errors
    /// When no server can be connected to, or the connection broke after the request was written: it may have been
    /// carried out, so it is not repeated.
    pub(super) async fn forward(
        &self,
        head: &Head,
        body: Outgoing,
        pool: Pool,
    ) -> Result<(Response<Body>, Served), ProxyError> {
        let view = self.published.load();
        let traffic = self.hosts.traffic(&view, None);
        let mut reclaim = Reclaim::new(body);
        let mut tried = String::new();
        for index in native_order(&view, &traffic, self.clock.now()) {
            let Some(host) = view.host(index) else { continue };
            let Some(known) = self.hosts.get(host, &view) else { continue };
            match self.forward_to(&known, head, &mut reclaim, pool).await {
                Ok(response) => return Ok((response, Served::by(Arc::clone(&host.name)))),
                Err(error) if error.is_request_body() => return Err(ProxyError::RequestBody(error.to_string())),
                Err(error) if error.is_connect() && reclaim.is_whole() => {
                    note(&mut tried, &known, &error);
                }
                Err(_) => return Err(ProxyError::Broken { host: host.name.to_string() }),
            }
        }
        Err(ProxyError::Unreachable { tried })
    }

    async fn forward_to(
        &self,
        known: &Arc<Host>,
        head: &Head,
        body: &mut Reclaim,
        pool: Pool,
    ) -> Result<Response<Body>, SendError> {
        let safe = head.method == Method::GET || head.method == Method::HEAD || head.method == Method::OPTIONS;
        let mut reuse = Reuse::Allowed;
        loop {
            let request = head.with_body(body.take());
            match known.upstream.send(pool, head.version, reuse, request).await {
                Ok(response) => return Ok(response),
                Err(error)
                    if error.is_closed_before_response() && safe && reuse == Reuse::Allowed && body.is_whole() =>
                {
                    reuse = Reuse::Never;
                }
                Err(error) => {
                    self.note_failure(known, (&error).into());
                    return Err(error);
                }
            }
        }
    }

    /// Runs a push query: streams until either side leaves or the sidecar shuts down.
    pub(super) async fn push(
        &self,
        head: &Head,
        body: Bytes,
        connection: &ConnectionInfo,
    ) -> Result<(Response<Body>, Served), ProxyError> {
        let (response, served) = self.forward(head, Outgoing::Held(body), Pool::Stream).await?;
        Ok((push::stream(response, &served.host, &self.queries, connection.drain()), served))
    }

    /// Tunnels a websocket.
    pub(super) async fn websocket(
        &self,
        request: Request<Body>,
        connection: &ConnectionInfo,
    ) -> Result<(Response<Body>, Served), ProxyError> {
        let view = self.published.load();
        let traffic = self.hosts.traffic(&view, None);
        let (mut request, mut tried) = (request, String::new());
        for index in native_order(&view, &traffic, self.clock.now()) {
            let Some(known) = view.host(index).and_then(|host| self.hosts.get(host, &view)) else { continue };
            match tunnel::forward(request, &known.upstream, connection).await {
                Ok(response) => return Ok((response, Served::by(Arc::clone(&known.name)))),
                Err(failed) => {
                    self.note_failure(&known, (&failed.error).into());
                    note(&mut tried, &known, &failed.error);
                    request = *failed.request;
                }
            }
        }
        Err(ProxyError::Unreachable { tried })
    }

    /// Sends `/close-query` to the server that runs the query, if it is not the local one.
    pub(super) async fn close_query(&self, head: &Head, body: Bytes) -> Result<(Response<Body>, Served), ProxyError> {
        let view = self.published.load();
        let runs_at = self.queries.host_of(&body).and_then(|name| host_named(&view, &name));
        let Some(host) = runs_at.and_then(|host| self.hosts.get(host, &view)) else {
            return self.forward(head, Outgoing::Held(body), Pool::Pull).await;
        };
        let mut reclaim = Reclaim::new(Outgoing::Held(body));
        match self.forward_to(&host, head, &mut reclaim, Pool::Pull).await {
            Ok(response) => Ok((response, Served::by(Arc::clone(&host.name)))),
            Err(error) => Err(ProxyError::Unreachable { tried: format!("{}: {error}", host.name) }),
        }
    }
}

/// Adds a server and what its connection met.
fn note(tried: &mut String, host: &Host, error: &SendError) {
    let separator = if tried.is_empty() { "" } else { ", " };
    let _ = write!(tried, "{separator}{}: {error}", host.name); // writing to a String cannot fail
}

fn host_named<'v>(view: &'v ClusterView, name: &str) -> Option<&'v HostView> {
    view.hosts.iter().find(|host| *host.name == *name)
}
