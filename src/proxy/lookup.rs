//! A keyed pull query on a materialised table: the plan, its attempts, and another round while the cluster moves.

use super::attempt::{Answer, Exchange, Failure};
use super::bounds::Bounds;
use super::demand::Said;
use super::prover::{Absence, Proof};
use super::race::{Doubt, Finish, Hedge, Rules, Settled, Step, race};
use super::reply::Served;
use super::request::QueryRequest;
use super::stores::Store;
use super::trail::{Next, Trail};
use super::{Proxy, versions};
use crate::error::ProxyError;
use crate::route::{Candidate, Key, Located, Plan, Preference, Rejected, Traffic, key_literals, native_order, plan};
use crate::sql::{Literal, Statement, WindowBound};
use crate::view::{Ask, ClusterView, HostView, Latency, Role};
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// First and longest pause between two rounds of attempts, while nothing changes that would change the plan. Stores are
/// closed for 60 to 300 ms by a rebalance; the retry budget, not the pause, keeps many requests from a storm.
const PAUSE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(150));

/// Longest such pause while nothing but servers that are down is met.
const SERVER_PAUSE: Duration = Duration::from_millis(800);

/// Servers that are given the plain request after all replicas: the local one, and another in case that one hangs.
const NATIVE_STEPS: usize = 2;

/// How often an empty answer that turns out to be false is asked again of the same host before the next one's turn.
const ASKED_AGAIN: usize = 1;

/// Everything that stays the same for all attempts of one lookup.
pub(super) struct Lookup<'a, 'sql> {
    pub request: &'a QueryRequest,
    pub located: Located,
    pub bounds: Bounds,
    literals: SmallVec<[&'a Literal<'sql>; 2]>,
    windows: &'a [WindowBound<'sql>],
    store: Arc<Store>,
    pinned: Bytes,
}

impl<'a, 'sql> Lookup<'a, 'sql> {
    /// The request's body with its pin.
    pub fn pinned(&self) -> &Bytes {
        &self.pinned
    }

    pub fn new(
        proxy: &Proxy,
        request: &'a QueryRequest,
        statement: &'a Statement<'sql>,
        located: Located,
        said: Said,
        view: &ClusterView,
    ) -> Result<Self, ProxyError> {
        let info = &located.table;
        Ok(Lookup {
            request,
            literals: key_literals(statement, info).unwrap_or_default(),
            bounds: proxy.bounds(said.or(info, &proxy.settings.freshness), info, view)?,
            windows: &statement.windows,
            store: proxy.stores.get(info, view),
            pinned: request.envelope.pinned(located.partition),
            located,
        })
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
        mut lookup: Lookup<'_, '_>,
        trail: &mut Trail,
    ) -> Result<(Answer, Served), ProxyError> {
        trail.story.bound(|| lookup.bounds.kept());
        let begun = self.clock.now();
        let end = begun + lookup.bounds.demand.deadline.min(self.settings.deadline);
        let (deadline, give_up) = (self.clock.instant(end), begun + self.settings.patience);
        let mut changes = self.published.changes();
        let wait_until = begun + lookup.bounds.demand.wait.min(self.settings.deadline);
        let mut waited = None;
        let mut pause = PAUSE.0;
        loop {
            let view = self.published.load();
            let (mut plan, traffic) = self.plan(&lookup, &view)?;
            if plan.candidates.is_empty() && !plan.native {
                let may_wait = self.clock.now() < wait_until;
                let came = may_wait && Box::pin(self.wait(&lookup, wait_until, &mut changes)).await?;
                if may_wait {
                    waited = Some(self.clock.now().since(begun));
                    trail.story.waited = waited;
                }
                if came {
                    continue;
                }
                trail.story.planned(&plan, &view);
                self.unmet(&lookup, &mut plan, &view)?;
            }
            trail.story.planned(&plan, &view);
            let decision = plan.candidates.first().map_or("native", |candidate| candidate.preference.as_str());
            self.metrics.routing_decisions.with([decision]).inc();
            let until = (deadline, self.clock.instant(give_up));
            match self.race_lookup(&lookup, (&plan, &traffic), &view, until, trail).await {
                Finish::Answered(answer, step) => {
                    self.note_served(&lookup, &step, &plan);
                    self.audit(&lookup, &step, (&plan, &view), &answer);
                    let freshness = self.freshness(&mut lookup, &step, &view, (begun, answer.is_whole()), waited);
                    let served = Served { host: Arc::clone(&step.host.name), candidate: step.candidate, freshness };
                    return Ok((answer, served));
                }
                Finish::Deadline => break,
                Finish::Exhausted if trail.met_only_limits() => self.room(deadline).await?,
                Finish::Exhausted
                    if !trail.may_pass() || self.clock.now() >= if trail.is_behind() { end } else { give_up } =>
                {
                    break;
                }
                Finish::Exhausted => {
                    self.ask(Ask::RefreshCatalogue);
                    let wait = match trail.end_round() {
                        Next::Store => pause.min(PAUSE.1),
                        Next::Server => pause,
                        Next::Report => end.since(self.clock.now()),
                    };
                    tokio::select! {
                        () = self.another_plan(&lookup, &plan, &mut changes) => {}
                        () = tokio::time::sleep(wait.mul_f64(rand::random_range(0.5..=1.0))) => {}
                        () = tokio::time::sleep_until(deadline) => break,
                    }
                    pause = (pause * 2).min(SERVER_PAUSE);
                }
            }
        }
        self.give_up(&lookup, trail, self.clock.now().since(begun))
    }

    pub(super) fn plan(&self, lookup: &Lookup<'_, '_>, view: &ClusterView) -> Result<(Plan, Traffic), ProxyError> {
        let last_served = lookup.store.last_served(lookup.located.partition);
        let traffic = self.hosts.traffic(view, last_served.as_ref());
        let now = self.clock.now();
        let (slot, options) = self.options(&lookup.bounds, &lookup.located, view, now)?;
        Ok((plan(&slot, &options, view, &traffic, now), traffic))
    }

    async fn race_lookup(
        &self,
        lookup: &Lookup<'_, '_>,
        (plan, traffic): (&Plan, &Traffic),
        view: &ClusterView,
        (deadline, patience): (tokio::time::Instant, tokio::time::Instant),
        trail: &mut Trail,
    ) -> Finish {
        let mut steps = self.pinned_steps(lookup, plan, view);
        if plan.native {
            let native = native_order(view, traffic, self.clock.now());
            steps.extend(native.iter().take(NATIVE_STEPS).filter_map(|host| self.step(view, *host)));
        }
        let latency = lookup.store.latency();
        let rules = Rules {
            now: &|| self.clock.now(),
            limit: latency.limit(self.settings.attempt_floor, self.settings.attempt_ceiling),
            deadline,
            patience,
            outlasts: false,
            budget: &self.budget,
            hedge: self.hedge(&latency),
            metrics: &self.metrics,
        };
        let racing = race(steps, &rules, trail, |step| self.attempt_lookup(lookup, step, view, plan));
        tokio::pin!(racing);
        // an attempt at a frozen server must not keep a request from those that can answer by then, or from its refusal
        match tokio::time::timeout(rules.limit, racing.as_mut()).await {
            Ok(finish) => finish,
            Err(_) => tokio::select! {
                biased;
                finish = racing => finish,
                () = self.other_hosts(lookup, plan) => Finish::Exhausted,
            },
        }
    }

    /// When a slow first attempt gets another one beside it: as soon as it takes longer than nineteen in twenty do.
    fn hedge(&self, latency: &Latency) -> Option<Hedge<'_>> {
        let p95 = latency.p95().filter(|_| self.settings.hedge_ratio > 0.0)?;
        let after = p95.clamp(self.settings.hedge_floor, self.settings.attempt_floor.max(self.settings.hedge_floor));
        Some(Hedge { after, budget: &self.hedges })
    }

    /// A pinned attempt at each candidate.
    fn pinned_steps(&self, lookup: &Lookup<'_, '_>, plan: &Plan, view: &ClusterView) -> Vec<Step> {
        let pin = Some(lookup.located.partition);
        let step = |candidate: &Candidate| {
            let ties = matches!(candidate.preference, Preference::Freshest | Preference::LeastLoaded);
            self.step(view, candidate.host).map(|step| Step { pin, candidate: Some(*candidate), ties, ..step })
        };
        plan.candidates.iter().filter_map(step).collect()
    }

    /// One attempt: the exchange, and the proof if it comes back empty.
    async fn attempt_lookup(
        &self,
        lookup: &Lookup<'_, '_>,
        step: Step,
        view: &ClusterView,
        plan: &Plan,
    ) -> (Step, Settled) {
        let Some(host) = view.host(step.index) else {
            return (step, Settled::Failed(Failure { label: "unknown_host", unsent: true, stale_connection: false }));
        };
        if !self.still_fresh(lookup, &step) {
            return (step, Settled::Failed(Failure { label: "too_stale", unsent: true, stale_connection: false }));
        }
        let Some(_place) = step.host.admit() else { return (step, Settled::Failed(Failure::AT_LIMIT)) };
        let (request, version) = (lookup.request, versions::upstream(lookup.request, host.version));
        let body = if step.pin.is_some() { &lookup.pinned } else { request.envelope.body() };
        for _ in 0..=ASKED_AGAIN {
            let took = |took| lookup.store.took(took);
            let empty = match self.exchange(&step.host, version, request, body, self.settings.held_answer, took).await {
                Exchange::Empty(answer) => answer,
                Exchange::Rows(answer) => {
                    lookup.learn();
                    return (step, Settled::Good(answer));
                }
                other => return (step, Settled::from(other)),
            };
            let provers = match step.pin {
                Some(_) => vec![step.clone()],
                None => self.pinned_steps(lookup, plan, view),
            };
            match Box::pin(self.believe(lookup, &step, host, &provers)).await {
                Proof::Absent => return (step, Settled::Good(empty)),
                Proof::Present => {}
                Proof::Behind => return (step, Settled::Unproven(Doubt::Behind)),
                Proof::Inconclusive | Proof::Unreadable => return (step, Settled::Unproven(Doubt::Unproven)),
            }
        }
        (step, Settled::Unproven(Doubt::Unproven))
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
    fn note_served(&self, lookup: &Lookup<'_, '_>, step: &Step, plan: &Plan) {
        if step.pin.is_some() {
            lookup.store.served(lookup.located.partition, &step.host.name);
        }
        let lost = |rejected: &Rejected| rejected.candidate.role == Role::Active && !rejected.reason.is_by_bound();
        if step.candidate.is_some_and(|c| c.role == Role::Standby) && plan.rejected.iter().any(lost) {
            self.metrics.reads_after_failover.inc();
        }
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
            Some((answer, host)) => Ok((answer, Served::by(host))),
            None => Err(ProxyError::Exhausted {
                message: format!(
                    "table {table}, partition {partition}: no replica answered within {took:.1?}; met {}",
                    trail.describe()
                ),
            }),
        }
    }
}
