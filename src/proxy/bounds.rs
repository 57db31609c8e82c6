//! What a lookup's bounds on freshness mean for its plan: waiting for a replica that keeps them, refusing, and the token.

use super::Proxy;
use super::demand::{self, Demand, Token};
use super::lookup::Lookup;
use super::race::Step;
use super::reply::Freshness;
use super::request::Head;
use super::session::{BadToken, Session, TokenKey};
use crate::config::{OnUnmet, SessionMode, Tokens};
use crate::error::ProxyError;
use crate::route::{Candidate, Located, Options, Plan};
use crate::sql::inserted_into;
use crate::telemetry::Kept;
use crate::view::{Ask, ClusterView, HostIndex, Interval, Moment, Role, SlotView, TableInfo};
use std::time::Duration;
use tokio::sync::watch;

/// In the place of a token: everything that was written to the table's input before this request.
const WRITTEN: &str = "written";

/// What a lookup asks of freshness.
#[derive(Debug)]
pub(super) struct Bounds {
    pub demand: Demand,
    pub session: Session,
}

impl Bounds {
    /// What of them may be shown to people.
    pub fn kept(&self) -> Kept {
        Kept {
            level: self.demand.level.as_str(),
            max_offset_lag: self.demand.max_offset_lag,
            max_staleness: self.demand.max_staleness.map(|(staleness, _)| staleness),
            token: self.demand.token.is_some(),
        }
    }
}

impl Proxy {
    /// Reads the request's token, if it has one.
    pub(super) fn bounds(&self, demand: Demand, table: &TableInfo, view: &ClusterView) -> Result<Bounds, ProxyError> {
        let Some(token) = &demand.token else { return Ok(Bounds { demand, session: Session::default() }) };
        let key = self.token_key(view).ok_or_else(|| ProxyError::BoundUnmet {
            message: "no server has told its cluster's id yet, so tokens cannot be read".to_owned(),
            retry_after: Duration::from_secs(1),
        })?;
        let now = self.clock.now();
        let session = match token.text.as_str() {
            WRITTEN => {
                let mut session = Session::default();
                session.wrote(table, now);
                session
            }
            text => Session::decode(text, &key, &view.clocks, now).map_err(|bad| refuse_token(token, bad))?,
        };
        Ok(Bounds { demand, session })
    }

    pub(super) fn token_key(&self, view: &ClusterView) -> Option<TokenKey> {
        view.cluster_id.as_deref().map(|id| TokenKey::new(id, self.incarnation))
    }

    /// The slot to plan on, and what its replicas must keep at `now`.
    pub(super) fn options(
        &self,
        bounds: &Bounds,
        located: &Located,
        view: &ClusterView,
        now: Moment,
    ) -> Result<(SlotView, Options), ProxyError> {
        let Bounds { demand, session } = bounds;
        let (table, partition) = (&located.table, located.partition);
        let (max_offset_lag, level) = (demand.max_offset_lag, demand.level);
        if demand.max_staleness.is_none() && demand.token.is_none() {
            return Ok((view.slot(table, partition), Options { max_offset_lag, level, ..Options::default() }));
        }
        let slot = view.slot_with_history(table, partition);
        let sticky = self.settings.freshness.session == SessionMode::Sticky;
        if let Some((staleness, place)) = demand.max_staleness {
            self.above_floor(staleness, place, &slot, view)?;
        }
        let complete_until = demand.max_staleness.map(|(staleness, _)| now.back(staleness));
        if sticky {
            let favourite = session.last_read(table, partition, view);
            return Ok((slot, Options { max_offset_lag, complete_until, after: None, level, favourite }));
        }
        let after = session.after(table, partition, slot.epoch, view);
        let after = after.map_err(|bad| {
            demand.token.as_ref().map_or(ProxyError::BadDemand(bad.to_string()), |token| refuse_token(token, bad))
        })?;
        if session.awaits_processing(table, partition, view) {
            self.ask(Ask::Process(table.name.clone()));
        }
        Ok((slot, Options { max_offset_lag, complete_until, after, level, favourite: None }))
    }

    /// A bound in time can only be kept if it is longer than reports take to arrive.
    fn above_floor(
        &self,
        staleness: Duration,
        place: &str,
        slot: &SlotView,
        view: &ClusterView,
    ) -> Result<(), ProxyError> {
        let poll = self.settings.lag_poll_interval;
        let Some((floor, interval)) = view.staleness_floor(slot, poll).filter(|(floor, _)| staleness < *floor) else {
            return Ok(());
        };
        Err(ProxyError::BadDemand(format!(
            "{place}: a staleness of {staleness:?} cannot be kept: the floor is {floor:?}, as servers report every {interval:?} \
             (ksql.lag.reporting.send.interval.ms) and reports are polled every {poll:?} (lag.poll_interval)"
        )))
    }

    /// Waits for a plan with a candidate, as long as the request allows; whether there is one.
    ///
    /// Woken by the snapshot that brings it, never by a timer of its own.
    pub(super) async fn wait(
        &self,
        lookup: &Lookup<'_, '_>,
        until: Moment,
        changes: &mut watch::Receiver<u64>,
    ) -> Result<bool, ProxyError> {
        let Ok(_place) = self.waiting.try_acquire() else { return Ok(false) };
        let planned = async {
            loop {
                if changes.changed().await.is_err() {
                    return std::future::pending().await; // no more snapshots: the process is ending
                }
                let (plan, _) = self.plan(lookup, &self.published.load())?;
                if !plan.candidates.is_empty() {
                    return Ok(true);
                }
            }
        };
        tokio::time::timeout_at(self.clock.instant(until), planned).await.unwrap_or(Ok(false))
    }

    /// What the policy makes of a plan without a candidate.
    ///
    /// # Errors
    /// The refusal, which names every host and why it was not chosen.
    pub(super) fn unmet(&self, lookup: &Lookup<'_, '_>, plan: &mut Plan, view: &ClusterView) -> Result<(), ProxyError> {
        if self.settings.freshness.on_unmet == OnUnmet::Degrade {
            plan.degrade();
        }
        let policy = if plan.candidates.is_empty() { "refused" } else { "degraded" };
        self.metrics.bounds_unmet.with([policy]).inc();
        if !plan.candidates.is_empty() {
            return Ok(());
        }
        let hosts: Vec<String> = rejections(plan, view).chain(self.without_replica(plan, view)).collect();
        Err(ProxyError::BoundUnmet {
            message: format!(
                "table {}, partition {}: no replica is {}; {}",
                lookup.located.table.name,
                lookup.located.partition,
                lookup.bounds.demand.describe(),
                if hosts.is_empty() { "no replica is known".to_owned() } else { hosts.join("; ") }
            ),
            retry_after: self.retry_after(plan, &lookup.bounds.demand, &lookup.located, view),
        })
    }

    /// The servers that are not known to hold the partition.
    pub(super) fn without_replica(&self, plan: &Plan, view: &ClusterView) -> impl Iterator<Item = String> {
        let known = |index: usize| plan.rejected.iter().any(|rejected| usize::from(rejected.candidate.host) == index);
        let others = view.hosts.iter().enumerate().filter(move |(index, _)| !known(*index));
        others.map(|(_, host)| format!("{}: no replica, {}", host.name, host.state.as_str()))
    }

    /// How long the first of the hosts that are behind will take, at the rate at which it caught up last.
    pub(super) fn retry_after(&self, plan: &Plan, demand: &Demand, located: &Located, view: &ClusterView) -> Duration {
        const LEAST: Duration = Duration::from_secs(1);
        const MOST: Duration = Duration::from_secs(60);
        let bound = demand.max_offset_lag.unwrap_or(0);
        let waits = plan.rejected.iter().filter(|rejected| rejected.reason.is_by_bound()).filter_map(|rejected| {
            let candidate = &rejected.candidate;
            let missing = candidate.lag?.saturating_sub(bound);
            let rate = view.catch_up_rate(candidate.host, &located.table, located.partition)?;
            Duration::try_from_secs_f64(missing as f64 / rate).ok()
        });
        waits.min().unwrap_or(self.settings.lag_poll_interval).clamp(LEAST, MOST)
    }

    /// Whether a candidate still keeps the request's bound in time when its turn comes.
    pub(super) fn still_fresh(&self, lookup: &Lookup<'_, '_>, step: &Step) -> bool {
        step.candidate.is_none_or(|candidate| self.keeps_staleness(&lookup.bounds.demand, &candidate))
    }

    /// As [`still_fresh`](Self::still_fresh), of one candidate.
    pub(super) fn keeps_staleness(&self, demand: &Demand, candidate: &Candidate) -> bool {
        let Some((staleness, _)) = demand.max_staleness else { return true };
        let degraded = candidate.preference == crate::route::Preference::Degraded;
        degraded || candidate.complete_until.is_some_and(|until| self.clock.now().since(until) <= staleness)
    }

    /// The token of a write that was acknowledged: of each table that reads what was written, where that is known.
    ///
    /// `asked` is the token that stood in the request's body.
    pub(super) fn written(&self, statements: &str, head: &Head, asked: Option<String>) -> Freshness {
        let view = self.published.load();
        let tokens = self.settings.freshness.tokens;
        let streams = inserted_into(statements);
        let topics: Vec<&String> = streams.iter().filter_map(|stream| view.topics.get(stream)).collect();
        let key = (tokens != Tokens::Off && !topics.is_empty()).then(|| self.token_key(&view)).flatten();
        let token = key.and_then(|key| {
            let now = self.clock.now();
            let given = demand::token(&head.headers, asked, tokens == Tokens::Cookie);
            let given = given.and_then(|token| Session::decode(&token, &key, &view.clocks, now).ok());
            let mut session = given.unwrap_or_default();
            let mut reads =
                view.tables.values().filter(|table| topics.iter().any(|topic| table.reads(topic))).peekable();
            reads.peek()?;
            reads.for_each(|table| session.wrote(table, now));
            Some(session.encode(&key, &view))
        });
        Freshness { waited: None, token, cookie: tokens == Tokens::Cookie }
    }

    /// What the answer says of freshness: the session's token with this read in it.
    pub(super) fn freshness(
        &self,
        lookup: &mut Lookup<'_, '_>,
        step: &Step,
        view: &ClusterView,
        (begun, whole): (Moment, bool),
        waited: Option<Duration>,
    ) -> Freshness {
        let tokens = self.settings.freshness.tokens;
        let given = (tokens != Tokens::Off).then(|| self.token_key(view)).flatten();
        let token = given.zip(step.candidate).and_then(|(key, candidate)| {
            let host = view.host(step.index as HostIndex)?;
            // of an answer that is still streaming, the end is not known
            let now = self.clock.now();
            let at = Interval { from: begun, to: if whole { now } else { now + self.settings.deadline } };
            let Located { table, partition } = &lookup.located;
            lookup.bounds.session.read(table, *partition, host, candidate.role != Role::Standby, at);
            Some(lookup.bounds.session.encode(&key, view))
        });
        Freshness { waited, token, cookie: tokens == Tokens::Cookie }
    }
}

impl Demand {
    /// What a replica should be, for people.
    pub(super) fn describe(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.max_offset_lag.map(|lag| format!("within {lag} records")));
        parts.extend(self.max_staleness.map(|(span, _)| format!("complete up to {span:?} ago")));
        parts.extend(self.token.as_ref().map(|_| "as new as what the token has seen".to_owned()));
        if self.level == crate::config::Level::Active {
            parts.push("the active beyond doubt".to_owned());
        }
        parts.join(" and ")
    }
}

/// The replicas that are not asked, and why, for people.
pub(super) fn rejections<'p>(plan: &'p Plan, view: &'p ClusterView) -> impl Iterator<Item = String> + 'p {
    plan.rejected.iter().filter_map(|rejected| {
        let Candidate { host, role, lag, age, .. } = rejected.candidate;
        let name = &view.host(host)?.name;
        let lag = lag.map_or("unknown".to_owned(), |lag| format!("{lag} records"));
        let age = age.map_or("unknown".to_owned(), |age| format!("{} ms", age.as_millis()));
        Some(format!("{name} ({}): {}, lag {lag}, age {age}", role.as_str(), rejected.reason.as_str()))
    })
}

fn refuse_token(token: &Token, bad: BadToken) -> ProxyError {
    ProxyError::BadToken { message: format!("{}: the token {bad}", token.place), cookie: token.is_cookie() }
}
