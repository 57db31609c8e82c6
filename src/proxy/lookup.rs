//! A keyed pull query on a materialised table: the plan, its attempts, and another round while the cluster moves.

use super::attempt::{Answer, Exchange, Failure, exchange};
use super::prover::{Absence, Proof};
use super::race::{Finish, Rules, Settled, Step, race};
use super::reply::Served;
use super::request::QueryRequest;
use super::stores::Store;
use super::trail::Trail;
use super::{Proxy, versions};
use crate::error::ProxyError;
use crate::http::Reuse;
use crate::route::{Key, Located, Options, Plan, Traffic, key_literals, native_order, plan};
use crate::sql::{Literal, Statement, WindowBound};
use crate::view::{Ask, ClusterView, HostView, Role};
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// First and longest pause between two rounds of attempts, when no new snapshot comes in between.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));

/// Servers that are given the plain request after all replicas: the local one, and another in case that one hangs.
const NATIVE_STEPS: usize = 2;

/// How often an empty answer that turns out to be false is asked again of the same host before the next one's turn.
const ASKED_AGAIN: usize = 1;

/// Everything that stays the same for all attempts of one lookup.
pub(super) struct Lookup<'a, 'sql> {
    pub request: &'a QueryRequest,
    pub located: Located,
    pub options: Options,
    literals: SmallVec<[&'a Literal<'sql>; 2]>,
    windows: &'a [WindowBound<'sql>],
    store: Arc<Store>,
    pinned: Bytes,
}

impl<'a, 'sql> Lookup<'a, 'sql> {
    pub fn new(proxy: &Proxy, request: &'a QueryRequest, statement: &'a Statement<'sql>, located: Located) -> Self {
        let info = &located.table.info;
        let max_offset_lag = request.envelope.max_offset_lag().or(proxy.settings.max_offset_lag);
        Lookup {
            request,
            literals: key_literals(statement, &located.table).unwrap_or_default(),
            options: Options { max_offset_lag },
            windows: &statement.windows,
            store: proxy.stores.get(info),
            pinned: request.envelope.pinned(located.partition),
            located,
        }
    }

    /// The key, made only where it is wanted: for a proof, or as a canary.
    fn key(&self) -> Option<Key> {
        Key::from_literals(&self.located.table.info, &self.literals)
    }

    /// Keeps the key as a canary: it exists, a row came. Windowed rows may vanish by themselves, so theirs are not kept.
    fn learn(&self) {
        let partition = self.located.partition;
        if !self.located.table.info.windowed
            && self.store.wants_canary(partition)
            && let Some(key) = self.key()
        {
            self.store.exists(partition, key);
        }
    }
}

impl Proxy {
    /// Answers a lookup, or says why no replica could.
    pub(super) async fn lookup(
        &self,
        mut lookup: Lookup<'_, '_>,
        trail: &mut Trail,
    ) -> Result<(Answer, Served), ProxyError> {
        let begun = self.clock.now();
        let deadline = self.clock.instant(begun + self.settings.deadline);
        let give_up = begun + self.settings.patience;
        let mut changes = self.published.changes();
        let mut pause = PAUSE.0;
        loop {
            let view = self.published.load();
            let (plan, traffic) = self.plan(&mut lookup, &view);
            if plan.candidates.is_empty() && !plan.native {
                return Err(self.bound_unmet(&lookup, &plan, &view));
            }
            match self.race_lookup(&lookup, (&plan, &traffic), &view, deadline, trail).await {
                Finish::Answered(answer, step) => return Ok((answer, self.served(&lookup, &step, &view))),
                Finish::Deadline => break,
                Finish::Exhausted if !trail.may_pass() || self.clock.now() >= give_up => break,
                Finish::Exhausted => {
                    self.ask(Ask::RefreshCatalogue);
                    tokio::select! {
                        _ = changes.changed() => tokio::time::sleep(PAUSE.0).await,
                        () = tokio::time::sleep(pause) => {}
                        () = tokio::time::sleep_until(deadline) => break,
                    }
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
        self.give_up(&lookup, trail)
    }

    fn plan(&self, lookup: &mut Lookup<'_, '_>, view: &ClusterView) -> (Plan, Traffic) {
        if let Some(table) = view.tables.get(&lookup.located.table.info.name) {
            lookup.located.table = Arc::clone(table);
        }
        let last_served = lookup.store.last_served(lookup.located.partition);
        let traffic = self.hosts.traffic(view, last_served.as_ref());
        let plan = plan(&lookup.located, &lookup.options, view, &traffic, self.clock.now());
        self.metrics
            .routing_decisions
            .with([plan.candidates.first().map_or("native", |c| c.preference.as_str())])
            .inc();
        (plan, traffic)
    }

    async fn race_lookup(
        &self,
        lookup: &Lookup<'_, '_>,
        (plan, traffic): (&Plan, &Traffic),
        view: &ClusterView,
        deadline: tokio::time::Instant,
        trail: &mut Trail,
    ) -> Finish {
        let pinned = plan.candidates.iter().filter_map(|candidate| {
            let pin = Some(lookup.located.partition);
            self.step(view, candidate.host).map(|step| Step { pin, candidate: Some(*candidate), ..step })
        });
        let mut steps: Vec<Step> = pinned.collect();
        if plan.native {
            let native = native_order(view, traffic, self.clock.now());
            steps.extend(native.iter().take(NATIVE_STEPS).filter_map(|host| self.step(view, *host)));
        }
        let rules = Rules {
            now: &|| self.clock.now(),
            limit: lookup.store.limit(self.settings.attempt_floor, self.settings.attempt_ceiling),
            deadline,
            outlasts: false,
            budget: &self.budget,
            metrics: &self.metrics,
        };
        let proving: Vec<Step> = steps.iter().filter(|step| step.pin.is_some()).cloned().collect();
        race(steps, &rules, trail, |step| self.attempt_lookup(lookup, step, view, &proving)).await
    }

    /// One attempt: the exchange, and the proof if it comes back empty.
    async fn attempt_lookup(
        &self,
        lookup: &Lookup<'_, '_>,
        step: Step,
        view: &ClusterView,
        proving: &[Step],
    ) -> (Step, Settled) {
        let Some(host) = view.host(step.index) else {
            return (step, Settled::Failed(Failure { label: "unknown_host", unsent: true, stale_connection: false }));
        };
        for _ in 0..=ASKED_AGAIN {
            let empty = match self.exchange_lookup(lookup, &step, host).await {
                Exchange::Empty(answer) => answer,
                Exchange::Rows(answer) => {
                    lookup.learn();
                    return (step, Settled::Good(answer));
                }
                other => return (step, self.settle(other)),
            };
            let provers = if step.pin.is_some() { std::slice::from_ref(&step) } else { proving };
            match Box::pin(self.believe(lookup, &step, host, provers)).await {
                Proof::Absent => return (step, Settled::Good(empty)),
                Proof::Present => {}
                Proof::Inconclusive | Proof::Unreadable => return (step, Settled::Unproven),
            }
        }
        (step, Settled::Unproven)
    }

    async fn exchange_lookup(&self, lookup: &Lookup<'_, '_>, step: &Step, host: &HostView) -> Exchange {
        let request = lookup.request;
        let version = versions::upstream(request, host.version);
        let body = if step.pin.is_some() { lookup.pinned.clone() } else { request.envelope.body().clone() };
        let sql = request.envelope.sql();
        for reuse in [Reuse::Allowed, Reuse::Never] {
            let outgoing = request.head.with_bytes(body.clone());
            let took = |took| lookup.store.took(took);
            let exchanged = exchange(&step.host, version, reuse, outgoing, sql, self.settings.held_answer, took).await;
            match exchanged {
                Exchange::Failed(failure) if failure.stale_connection && reuse == Reuse::Allowed => {}
                Exchange::Failed(failure) => {
                    self.note_failure(&step.host, failure);
                    return Exchange::Failed(failure);
                }
                Exchange::Retry(retry, answer) => {
                    self.note_retry(&step.host, retry);
                    return Exchange::Retry(retry, answer);
                }
                other => return other,
            }
        }
        Exchange::Failed(Failure { label: "closed", unsent: false, stale_connection: true })
    }

    fn settle(&self, exchange: Exchange) -> Settled {
        match exchange {
            Exchange::Rows(answer) | Exchange::Empty(answer) => Settled::Good(answer),
            Exchange::Final(answer) => Settled::Final(answer),
            Exchange::Retry(retry, answer) => Settled::Retry(retry, answer),
            Exchange::Failed(failure) => Settled::Failed(failure),
        }
    }

    /// Whether an empty answer is the truth, as far as the server's version leaves doubt.
    async fn believe(&self, lookup: &Lookup<'_, '_>, step: &Step, host: &HostView, provers: &[Step]) -> Proof {
        if !self.settings.prove_absence {
            self.metrics.unproven_answers.inc();
            return Proof::Absent;
        }
        match host.version {
            Some(version) if !version.checks_pins() && step.pin.is_some() => return Proof::Unreadable,
            Some(version) if !version.may_lose_errors() => return Proof::Absent,
            _ => {}
        }
        let (key, mut proof) = (lookup.key(), Proof::Unreadable);
        for prover in provers {
            let absence = Absence {
                host: Arc::clone(&prover.host),
                table: Arc::clone(&lookup.located.table.info),
                store: Arc::clone(&lookup.store),
                partition: lookup.located.partition,
                head: lookup.request.head.clone(),
            };
            let sql = lookup.request.envelope.sql();
            proof = self.prover.prove(&absence, key.as_ref(), lookup.windows, sql).await;
            if matches!(proof, Proof::Absent | Proof::Present) {
                break;
            }
        }
        proof
    }

    /// Notes who answered: for ties, and for reads that may have gone back in time.
    fn served(&self, lookup: &Lookup<'_, '_>, step: &Step, view: &ClusterView) -> Served {
        let partition = lookup.located.partition;
        if step.pin.is_some() {
            let before = lookup.store.served(partition, &step.host.name);
            let role = step.candidate.map(|candidate| candidate.role);
            if let Some(before) = before
                && role == Some(Role::Standby)
                && view.hosts.iter().any(|host| host.name == before && host.state == crate::view::HostState::Dead)
            {
                self.metrics.reads_after_failover.inc();
            }
        }
        Served { host: Arc::clone(&step.host.name), candidate: step.candidate }
    }

    /// The last answer a server gave, else an error that names every host.
    fn give_up(&self, lookup: &Lookup<'_, '_>, trail: &mut Trail) -> Result<(Answer, Served), ProxyError> {
        let table = &lookup.located.table.info.name;
        let partition = lookup.located.partition;
        if trail.met_unproven() {
            let message = format!(
                "table {table}, partition {partition}: a server answered without rows, but no replica could prove in time \
                 that the key is absent; met {}",
                trail.describe()
            );
            return Err(ProxyError::Unproven { message });
        }
        match trail.take_last() {
            Some((answer, host)) => Ok((answer, Served { host, candidate: None })),
            None => Err(ProxyError::Exhausted {
                message: format!(
                    "table {table}, partition {partition}: no replica answered within {:?}; met {}",
                    self.settings.deadline,
                    trail.describe()
                ),
            }),
        }
    }

    fn bound_unmet(&self, lookup: &Lookup<'_, '_>, plan: &Plan, view: &ClusterView) -> ProxyError {
        let hosts: Vec<String> = plan
            .rejected
            .iter()
            .filter_map(|rejected| {
                let name = &view.host(rejected.host)?.name;
                let lag = rejected.lag.map_or("unknown".to_owned(), |lag| format!("{lag} records"));
                let age = rejected.age.map_or("unknown".to_owned(), |age| format!("{} ms", age.as_millis()));
                Some(format!("{name} ({}): {}, lag {lag}, age {age}", rejected.role.as_str(), rejected.reason.as_str()))
            })
            .collect();
        ProxyError::BoundUnmet {
            message: format!(
                "table {}, partition {}: no replica is within {} records; {}",
                lookup.located.table.info.name,
                lookup.located.partition,
                lookup.options.max_offset_lag.unwrap_or(u64::MAX),
                if hosts.is_empty() { "no replica is known".to_owned() } else { hosts.join("; ") }
            ),
            retry_after: self.settings.lag_poll_interval.max(Duration::from_secs(1)),
        }
    }
}
