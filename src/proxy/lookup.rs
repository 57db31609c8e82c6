//! A keyed pull query on a materialised table: the plan, its attempts, and another round while the cluster moves.

use super::attempt::{Answer, Exchange, Failure};
use super::prover::{Absence, Proof};
use super::race::{Finish, Rules, Settled, Step, race};
use super::reply::Served;
use super::request::QueryRequest;
use super::stores::Store;
use super::trail::Trail;
use super::{Proxy, versions};
use crate::error::ProxyError;
use crate::route::{Candidate, Key, Located, Options, Plan, Rejected, Traffic, key_literals, native_order, plan};
use crate::sql::{Literal, Statement, WindowBound};
use crate::view::{Ask, ClusterView, HostView, Role};
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// First and longest pause between two rounds of attempts, while nothing changes that would change the plan.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

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
        let info = &located.table;
        let max_offset_lag = request.envelope.max_offset_lag().or(proxy.settings.max_offset_lag);
        Lookup {
            request,
            literals: key_literals(statement, &located.table).unwrap_or_default(),
            options: Options { max_offset_lag, ..Options::default() },
            windows: &statement.windows,
            store: proxy.stores.get(info),
            pinned: request.envelope.pinned(located.partition),
            located,
        }
    }

    /// The key, made only where it is wanted: for a proof, or as a canary.
    fn key(&self) -> Option<Key> {
        Key::from_literals(&self.located.table, &self.literals)
    }

    /// Keeps the key as a canary: it exists, a row came. Windowed rows may vanish by themselves, so theirs are not kept.
    fn learn(&self) {
        let partition = self.located.partition;
        if !self.located.table.windowed
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
        lookup: Lookup<'_, '_>,
        trail: &mut Trail,
    ) -> Result<(Answer, Served), ProxyError> {
        let begun = self.clock.now();
        let deadline = self.clock.instant(begun + self.settings.deadline);
        let give_up = begun + self.settings.patience;
        let mut changes = self.published.changes();
        let mut pause = PAUSE.0;
        loop {
            let view = self.published.load();
            let (plan, traffic) = self.plan(&lookup, &view);
            let decision = plan.candidates.first().map_or("native", |candidate| candidate.preference.as_str());
            self.metrics.routing_decisions.with([decision]).inc();
            if plan.candidates.is_empty() && !plan.native {
                return Err(self.bound_unmet(&lookup, &plan, &view));
            }
            match self.race_lookup(&lookup, (&plan, &traffic), &view, deadline, trail).await {
                Finish::Answered(answer, step) => return Ok((answer, self.served(&lookup, &step, &plan))),
                Finish::Deadline => break,
                Finish::Exhausted if !trail.may_pass() || self.clock.now() >= give_up => break,
                Finish::Exhausted => {
                    self.ask(Ask::RefreshCatalogue);
                    tokio::select! {
                        () = self.another_plan(&lookup, &plan, &mut changes) => {}
                        () = tokio::time::sleep(pause) => {}
                        () = tokio::time::sleep_until(deadline) => break,
                    }
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
        self.give_up(&lookup, trail, self.clock.now().since(begun))
    }

    /// Completes when a new snapshot orders the replicas otherwise than `before`.
    async fn another_plan(&self, lookup: &Lookup<'_, '_>, before: &Plan, changes: &mut watch::Receiver<u64>) {
        while changes.changed().await.is_ok() {
            let (plan, _) = self.plan(lookup, &self.published.load());
            let order = |plan: &Plan| -> SmallVec<[_; 4]> {
                plan.candidates.iter().map(|c| (c.host, c.preference, c.sees_absence)).collect()
            };
            if order(&plan) != order(before) {
                return;
            }
        }
        std::future::pending().await // no more snapshots: the process is ending
    }

    fn plan(&self, lookup: &Lookup<'_, '_>, view: &ClusterView) -> (Plan, Traffic) {
        let last_served = lookup.store.last_served(lookup.located.partition);
        let traffic = self.hosts.traffic(view, last_served.as_ref());
        let slot = view.slot(&lookup.located.table, lookup.located.partition);
        let plan = plan(&slot, &lookup.options, view, &traffic, self.clock.now());
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
        let (request, version) = (lookup.request, versions::upstream(lookup.request, host.version));
        let body = if step.pin.is_some() { &lookup.pinned } else { request.envelope.body() };
        for _ in 0..=ASKED_AGAIN {
            let took = |took| lookup.store.took(took);
            let empty = match self.exchange(&step.host, version, request, body, took).await {
                Exchange::Empty(answer) => answer,
                Exchange::Rows(answer) => {
                    lookup.learn();
                    return (step, Settled::Good(answer));
                }
                other => return (step, Settled::from(other)),
            };
            let provers = if step.pin.is_some() { std::slice::from_ref(&step) } else { proving };
            match Box::pin(self.believe(lookup, &step, host, provers)).await {
                Proof::Absent => return (step, Settled::Good(empty)),
                Proof::Present => {}
                Proof::Behind => return (step, Settled::Unproven("behind")),
                Proof::Inconclusive | Proof::Unreadable => return (step, Settled::Unproven("unproven")),
            }
        }
        (step, Settled::Unproven("unproven"))
    }

    /// Whether an empty answer is the truth: from a replica that holds all that was logged, as far as is known, and which
    /// its server really read, where the server's version leaves doubt.
    async fn believe(&self, lookup: &Lookup<'_, '_>, step: &Step, host: &HostView, provers: &[Step]) -> Proof {
        if !self.settings.prove_absence {
            self.metrics.unproven_answers.inc();
            return Proof::Absent;
        }
        if !provers.is_empty() && !provers.iter().any(Step::sees_absence) {
            return Proof::Behind;
        }
        match host.version {
            Some(version) if !version.checks_pins() && step.pin.is_some() => return Proof::Unreadable,
            Some(version) if !version.may_lose_errors() => return Proof::Absent,
            _ => {}
        }
        let (key, mut proof) = (lookup.key(), Proof::Unreadable);
        for prover in provers {
            if !prover.sees_absence() {
                continue;
            }
            let absence = Absence {
                host: Arc::clone(&prover.host),
                table: Arc::clone(&lookup.located.table),
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
    fn served(&self, lookup: &Lookup<'_, '_>, step: &Step, plan: &Plan) -> Served {
        if step.pin.is_some() {
            lookup.store.served(lookup.located.partition, &step.host.name);
        }
        let lost = |rejected: &Rejected| rejected.candidate.role == Role::Active && !rejected.reason.is_by_bound();
        if step.candidate.is_some_and(|c| c.role == Role::Standby) && plan.rejected.iter().any(lost) {
            self.metrics.reads_after_failover.inc();
        }
        Served { host: Arc::clone(&step.host.name), candidate: step.candidate }
    }

    /// The last answer a server gave, else an error that names every host.
    fn give_up(
        &self,
        lookup: &Lookup<'_, '_>,
        trail: &mut Trail,
        took: Duration,
    ) -> Result<(Answer, Served), ProxyError> {
        let table = &lookup.located.table.name;
        let partition = lookup.located.partition;
        if trail.met_unproven() {
            let message = format!(
                "table {table}, partition {partition}: a server answered without rows, but no replica could prove within \
                 {took:.1?} that the key is absent; met {}",
                trail.describe()
            );
            return Err(ProxyError::Unproven { message });
        }
        match trail.take_last() {
            Some((answer, host)) => Ok((answer, Served { host, candidate: None })),
            None => Err(ProxyError::Exhausted {
                message: format!(
                    "table {table}, partition {partition}: no replica answered within {took:.1?}; met {}",
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
                let Candidate { host, role, lag, age, .. } = rejected.candidate;
                let name = &view.host(host)?.name;
                let lag = lag.map_or("unknown".to_owned(), |lag| format!("{lag} records"));
                let age = age.map_or("unknown".to_owned(), |age| format!("{} ms", age.as_millis()));
                Some(format!("{name} ({}): {}, lag {lag}, age {age}", role.as_str(), rejected.reason.as_str()))
            })
            .collect();
        ProxyError::BoundUnmet {
            message: format!(
                "table {}, partition {}: no replica is within {} records; {}",
                lookup.located.table.name,
                lookup.located.partition,
                lookup.options.max_offset_lag.unwrap_or(u64::MAX),
                if hosts.is_empty() { "no replica is known".to_owned() } else { hosts.join("; ") }
            ),
            retry_after: self.settings.lag_poll_interval.max(Duration::from_secs(1)),
        }
    }
}
