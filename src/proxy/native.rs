//! Pull queries that the servers route themselves: the plain request, at another server when one cannot answer.

use super::Proxy;
use super::attempt::{Answer, Failure};
use super::race::{Finish, Rules, Settled, Step, race};
use super::reply::Served;
use super::request::QueryRequest;
use super::trail::Trail;
use super::versions;
use crate::error::ProxyError;
use crate::route::native_order;
use crate::view::{ClusterView, HostState};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How much longer than a lookup a scan may take before another server is asked beside it.
const SCAN_FACTOR: u32 = 4;

impl Proxy {
    /// Answers a pull query without a pin.
    ///
    /// Unless the client sets one, there is no deadline while an attempt is under way: a long scan is answered through the
    /// sidecar whenever it would be answered without.
    pub(super) async fn pull(
        &self,
        request: &QueryRequest,
        deadline: Option<Duration>,
        trail: &mut Trail,
    ) -> Result<(Answer, Served), ProxyError> {
        let view = self.published.load();
        let traffic = self.hosts.traffic(&view, None);
        let order = native_order(&view, &traffic, self.clock.now());
        let steps: Vec<Step> = order.iter().filter_map(|host| self.step(&view, *host)).collect();
        self.metrics.routing_decisions.with(["native"]).inc();
        let latency = *self.pull_latency.lock().unwrap_or_else(PoisonError::into_inner);
        let ceiling = self.settings.attempt_ceiling * SCAN_FACTOR;
        let rules = Rules {
            now: &|| self.clock.now(),
            limit: latency.limit(self.settings.attempt_floor * SCAN_FACTOR, ceiling),
            deadline: Instant::now() + deadline.unwrap_or(Duration::MAX).min(self.settings.deadline),
            patience: Instant::now() + self.settings.patience,
            outlasts: deadline.is_none(),
            budget: &self.budget,
            hedge: None,
            metrics: &self.metrics,
        };
        let finish = loop {
            let finish = race(steps.clone(), &rules, trail, |step| self.attempt_pull(request, step, &view)).await;
            if !matches!(finish, Finish::Exhausted) || !trail.met_only_limits() {
                break finish;
            }
            self.room(rules.deadline).await?;
        };
        match finish {
            Finish::Answered(answer, step) => Ok((answer, Served::by(step.host.name.clone()))),
            Finish::Exhausted | Finish::Deadline => match trail.take_last() {
                Some((answer, host)) => Ok((answer, Served::by(host))),
                None => Err(ProxyError::Exhausted { message: format!("no server answered; met {}", trail.describe()) }),
            },
        }
    }

    async fn attempt_pull(&self, request: &QueryRequest, step: Step, view: &ClusterView) -> (Step, Settled) {
        let Some(_place) = step.host.admit() else { return (step, Settled::Failed(Failure::AT_LIMIT)) };
        let version = versions::upstream(request, view.host(step.index).and_then(|host| host.version));
        let body = request.envelope.body();
        let took = |took| self.pull_latency.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        let exchanged = self.exchange(&step.host, version, request, body, self.settings.held_answer, took).await;
        (step, Settled::from(exchanged))
    }

    /// The attempt to make at a host of the view.
    pub(super) fn step(&self, view: &ClusterView, index: u16) -> Option<Step> {
        let server = view.host(index)?;
        let (host, dead) = (self.hosts.get(server, view)?, server.state == HostState::Dead);
        Some(Step { host: Arc::clone(&host), index, pin: None, candidate: None, ties: false, hedge: false, dead })
    }
}
