//! One request from its arrival to its answer.

use super::demand::{BadDemand, Said};
use super::envelope::Envelope;
use super::forward::Outgoing;
use super::lookup::Lookup;
use super::record::Record;
use super::reply::{self, Served};
use super::request::{Head, Inbound, QueryRequest};
use super::request_id::RequestId;
use super::story::{PUSH, Story};
use super::trail::Trail;
use super::{Endpoint, Proxy};
use crate::config::Tokens;
use crate::error::ProxyError;
use crate::http::{Body, ConnectionInfo, Handler, Pool, tunnel};
use crate::route::{PassReason, locate};
use crate::sql::{Class, classify};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use std::sync::{Arc, PoisonError};

impl Handler for Proxy {
    async fn handle(&self, mut request: Request<Body>, connection: ConnectionInfo) -> Response<Body> {
        let id = RequestId::settle(request.headers_mut());
        let telemetry = (Arc::clone(&self.metrics), Arc::clone(&self.recent));
        let mut record = Record::begin(&request, id, connection.peer(), telemetry);
        let response = match self.answer(request, &connection, &mut record).await {
            Ok((mut response, served)) => {
                if self.settings.headers {
                    reply::decorate(&mut response, &served, record.attempts);
                }
                reply::tell(&mut response, &served);
                record.served_by = Some(served.host);
                record.lag = served.candidate.and_then(|candidate| candidate.lag);
                record.age = served.candidate.and_then(|candidate| candidate.age);
                response
            }
            Err(error) => {
                record.refused = Some(error.label());
                reply::error(&error)
            }
        };
        record.finish(response)
    }
}

/// The ways are boxed, so that no future is large: each is moved into the place where it is polled.
impl Proxy {
    async fn answer(
        &self,
        request: Request<Body>,
        connection: &ConnectionInfo,
        record: &mut Record,
    ) -> Result<(Response<Body>, Served), ProxyError> {
        if tunnel::is_asked_by(&request) {
            self.said(request.headers(), None)?.none_for("a websocket").map_err(refuse)?;
            return Box::pin(self.websocket(request, connection)).await;
        }
        if self.is_internal(&request) {
            return Err(ProxyError::InternalEndpoint);
        }
        let inbound = Inbound::read(request, self.settings.max_inspected_body).await;
        match inbound.map_err(|error| ProxyError::RequestBody(error.to_string()))? {
            Inbound::Query(query) => Box::pin(self.query(*query, connection, record)).await,
            Inbound::Held(head, body) if head.path() == "/close-query" => Box::pin(self.close_query(&head, body)).await,
            Inbound::Held(head, body) if head.path() == "/ksql" => Box::pin(self.statements(&head, body)).await,
            Inbound::Held(head, body) => {
                let pool = pool_of(&head);
                self.unread(&head)?;
                Box::pin(self.forward(&head, Outgoing::Held(body), pool)).await
            }
            Inbound::Streaming(head, body) => {
                self.unread(&head)?;
                Box::pin(self.forward(&head, Outgoing::Streaming(body), Pool::Stream)).await
            }
        }
    }

    /// What a request says about freshness.
    fn said(&self, headers: &HeaderMap, envelope: Option<&Envelope>) -> Result<Said, ProxyError> {
        Said::read(headers, envelope, self.settings.freshness.tokens == Tokens::Cookie).map_err(refuse)
    }

    /// Refuses bounds on a query whose body was not looked into.
    fn unread(&self, head: &Head) -> Result<(), ProxyError> {
        const WHAT: &str = "a query whose body is not understood, or is larger than listen.max_inspected_body";
        match Endpoint::of(head.path()) {
            Some(_) => self.said(&head.headers, None)?.none_for(WHAT).map_err(refuse),
            None => Ok(()),
        }
    }

    /// Whether only servers may ask this: they come here only if the local server advertises this port as its listener.
    fn is_internal(&self, request: &Request<Body>) -> bool {
        if request.method() != Method::POST || !matches!(request.uri().path(), "/heartbeat" | "/lag") {
            return false;
        }
        let view = self.published.load();
        let advertised = view.local().and_then(|(_, host)| host.name.rsplit(':').next()?.parse::<u16>().ok());
        advertised != Some(self.settings.client_port)
    }

    /// Sends a query the way that its statement allows.
    async fn query(
        &self,
        request: QueryRequest,
        connection: &ConnectionInfo,
        record: &mut Record,
    ) -> Result<(Response<Body>, Served), ProxyError> {
        let statement = classify(request.envelope.sql());
        record.classify(statement.class.as_str());
        let said = self.said(&request.head.headers, Some(&request.envelope))?;
        match statement.class {
            Class::Push => {
                record.story.why = PUSH;
                said.none_for("a push query").map_err(refuse)?;
                return Box::pin(self.push(&request.head, request.envelope.body().clone(), connection)).await;
            }
            Class::Other | Class::Unsure => {
                said.none_for("a statement that is not certainly a pull query").map_err(refuse)?;
                return self.untouched(&request, Pool::Stream).await;
            }
            Class::Lookup | Class::LookupMany | Class::LookupMultiColumn | Class::Pull => {}
        }
        if request.envelope.client_pinned() {
            said.none_for(PassReason::ClientPinned.describe()).map_err(refuse)?;
            self.metrics.passed_through.with([PassReason::ClientPinned.as_str()]).inc();
            record.story.passed(PassReason::ClientPinned);
            return self.untouched(&request, Pool::Pull).await;
        }
        let (view, now) = (self.published.load(), self.clock.now());
        for budget in [&self.budget, &self.hedges] {
            budget.lock().unwrap_or_else(PoisonError::into_inner).deposit(now);
        }
        let story = Story::new(record.story.is_kept());
        let mut trail = Trail::new(view.hosts.len(), story, Arc::clone(&self.metrics));
        let answered = match locate(&statement, &view) {
            Ok(located) => {
                record.locate(&located.table, located.partition);
                let _entered = self.enter(&view, now)?;
                let lookup = Lookup::new(self, &request, &statement, located, said, &view)?;
                let answered = Box::pin(self.lookup(lookup, &mut trail)).await;
                answered.map(|(answer, served)| (answer.into_response(), served))
            }
            Err(reason) => Box::pin(self.many(&request, &statement, said, reason, &mut trail)).await,
        };
        record.walked(trail);
        answered
    }

    async fn untouched(&self, request: &QueryRequest, pool: Pool) -> Result<(Response<Body>, Served), ProxyError> {
        let body: Bytes = request.envelope.body().clone();
        Box::pin(self.forward(&request.head, Outgoing::Held(body), pool)).await
    }
}

pub(super) fn refuse(bad: BadDemand) -> ProxyError {
    ProxyError::BadDemand(bad.to_string())
}

/// What was not understood on a query endpoint may be a push query.
fn pool_of(head: &Head) -> Pool {
    match Endpoint::of(head.path()) {
        Some(_) => Pool::Stream,
        None => Pool::Pull,
    }
}
