//! Runs the attempts of one request: one after the other, or side by side when one takes too long.
//!
//! An attempt that exceeds its limit is not dropped: the next replica is asked beside it, and the first good answer wins.
//! So a frozen server costs the limit, and a slow cluster loses nothing that it would have answered.

use super::attempt::{Answer, Exchange, Failure};
use super::hosts::Host;
use super::trail::Trail;
use crate::partition::Partition;
use crate::route::{Budget, Candidate, Retry};
use crate::telemetry::Metrics;
use crate::view::{HostIndex, Moment};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// Attempts of one request under way at the same time, at most.
const SIDE_BY_SIDE: usize = 3;

/// How long a retry waits for the budget to grow before it asks again.
const BUDGET_PAUSE: Duration = Duration::from_millis(50);

/// One attempt to make.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Whom to ask.
    pub host: Arc<Host>,
    /// The same, in the snapshot that the step was planned on.
    pub index: HostIndex,
    /// The partition to pin; `None`: the plain request, which the server routes.
    pub pin: Option<Partition>,
    /// Why this replica.
    pub candidate: Option<Candidate>,
    /// Whether it may be asked beside the one before it for speed alone: nothing tells that it is less fresh.
    pub ties: bool,
    /// Whether it was asked so.
    pub hedge: bool,
    /// Whether probes find it dead: to ask it all the same costs the budget, so that a cluster that is down is left alone.
    pub dead: bool,
}

impl Step {
    /// Whether what the replica does not have is absent; see [`Candidate::sees_absence`].
    pub fn sees_absence(&self) -> bool {
        self.candidate.is_some_and(|candidate| candidate.sees_absence)
    }
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Settled {
    /// An answer for the client.
    Good(Answer),
    /// An error for the client.
    Final(Answer),
    /// An error that another replica may not give.
    Retry(Retry, Answer),
    /// No whole answer.
    Failed(Failure),
    /// A clean empty answer whose emptiness could not be proven, and why.
    Unproven(Doubt),
}

/// Why an empty answer is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Nothing shows that the store was read.
    Unproven,
    /// The replica is not known to hold all that was logged; its next report may change that, and nothing else will.
    Behind,
}

impl Doubt {
    /// The label in metrics and error messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Doubt::Unproven => "unproven",
            Doubt::Behind => "behind",
        }
    }
}

/// Where an empty answer needs no proof.
impl From<Exchange> for Settled {
    fn from(exchange: Exchange) -> Self {
        match exchange {
            Exchange::Rows(answer) | Exchange::Empty(answer) => Settled::Good(answer),
            Exchange::Final(answer) => Settled::Final(answer),
            Exchange::Retry(retry, answer) => Settled::Retry(retry, answer),
            Exchange::Failed(failure) => Settled::Failed(failure),
        }
    }
}

/// How a race ended; made once a request, so that a large variant costs less than a box.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(super) enum Finish {
    /// With an answer, and the step that gave it.
    Answered(Answer, Step),
    /// Every step failed; the trail knows how.
    Exhausted,
    /// The deadline passed first.
    Deadline,
}

/// Longer than any request.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// What a race needs to know.
pub(super) struct Rules<'a> {
    /// Now.
    pub now: &'a (dyn Fn() -> Moment + Sync),
    /// How long an attempt may take before the next joins it.
    pub limit: Duration,
    /// When to stop.
    pub deadline: Instant,
    /// When to stop waiting for the budget, if nothing is under way.
    pub patience: Instant,
    /// Whether attempts under way are waited for past the deadline.
    pub outlasts: bool,
    /// What extra attempts cost.
    pub budget: &'a Mutex<Budget>,
    /// When the next replica is asked beside a slow first one for speed alone, if at all.
    pub hedge: Option<Hedge<'a>>,
    /// Where refusals are counted.
    pub metrics: &'a Metrics,
}

/// One more attempt beside a slow one.
pub(super) struct Hedge<'a> {
    /// How long the first attempt is given.
    pub after: Duration,
    /// What hedges cost.
    pub budget: &'a Mutex<Budget>,
}

/// Whether the next attempt may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// The first, one after an attempt that never reached its server, or a hedge.
    Free,
    /// A retry, or one beside an attempt that is overdue: for a token of the budget.
    Paid,
    /// Not before something happens.
    Not,
}

/// An attempt under way.
struct Running<F> {
    host: Arc<Host>,
    begun: Instant,
    attempt: Pin<Box<F>>,
}

/// Makes attempts until one gives an answer for the client.
pub(super) async fn race<A, F>(steps: Vec<Step>, rules: &Rules<'_>, trail: &mut Trail, attempt: A) -> Finish
where
    A: Fn(Step) -> F,
    F: Future<Output = (Step, Settled)>,
{
    let mut steps = VecDeque::from(steps);
    let mut running: SmallVec<[Running<F>; SIDE_BY_SIDE]> = SmallVec::new();
    let mut newest: Option<Arc<Host>> = None;
    let mut begin = if trail.attempts() == 0 { Begin::Free } else { Begin::Paid };
    let mut hedge_at = None;
    let mut due = Instant::now() + rules.limit; // when the newest attempt exceeds its limit
    let timer = tokio::time::sleep_until(due);
    tokio::pin!(timer);
    loop {
        let room = running.len() < SIDE_BY_SIDE && !steps.is_empty();
        let allowed = room
            && match begin {
                Begin::Free if steps.front().is_none_or(|next| !next.dead) => true,
                Begin::Free | Begin::Paid => may_retry(rules.budget, rules.metrics, (rules.now)()),
                Begin::Not => false,
            };
        let next_at = if let Some(step) = allowed.then(|| steps.pop_front()).flatten() {
            let begun = Instant::now();
            trail.begin();
            let slow_after = rules.hedge.as_ref().filter(|_| running.is_empty()).map(|hedge| begun + hedge.after);
            (begin, hedge_at) = (Begin::Not, slow_after.filter(|_| steps.front().is_some_and(|next| next.ties)));
            newest = Some(Arc::clone(&step.host));
            running.push(Running { host: Arc::clone(&step.host), begun, attempt: Box::pin(attempt(step)) });
            due = begun + rules.limit;
            due
        } else if room && begin != Begin::Not && (!running.is_empty() || Instant::now() < rules.patience) {
            Instant::now() + BUDGET_PAUSE
        } else if running.is_empty() {
            return Finish::Exhausted;
        } else if newest.is_some() {
            due
        } else {
            Instant::now() + FOREVER // nothing is left to start: only an answer or the deadline ends the race
        };
        let next_at = hedge_at.map_or(next_at, |at| next_at.min(at));
        let ends = !rules.outlasts || running.is_empty();
        timer.as_mut().reset(if ends { rules.deadline.min(next_at) } else { next_at });
        tokio::select! {
            biased;
            (step, settled) = first(&mut running) => {
                let unsent = matches!(settled, Settled::Failed(failure) if failure.unsent);
                let useless = unsent || matches!(settled, Settled::Retry(Retry::Limited, _));
                begin = if unsent { Begin::Free } else { Begin::Paid };
                hedge_at = None;
                newest.take_if(|host| host.name == step.host.name); // it is not overdue any longer
                if let Some(answer) = trail.settle(&step, settled) {
                    if step.hedge {
                        rules.metrics.hedges.with(["won"]).inc();
                    }
                    running.iter().for_each(|late| late.host.overtaken(late.begun.elapsed()));
                    return Finish::Answered(answer, step);
                }
                if useless {
                    steps.retain(|next| next.host.name != step.host.name); // refused, or at its limit: not asked twice
                }
            }
            () = &mut timer => {
                let now = Instant::now();
                if ends && now >= rules.deadline {
                    return Finish::Deadline;
                }
                if hedge_at.take_if(|at| now >= *at).is_some() {
                    let granted = rules.hedge.as_ref().is_some_and(|hedge| withdraw(hedge.budget, (rules.now)()));
                    if let Some(next) = steps.front_mut().filter(|_| granted) {
                        (next.hedge, begin) = (true, Begin::Free);
                    }
                    rules.metrics.hedges.with([if granted { "sent" } else { "refused" }]).inc();
                } else if let Some(host) = newest.take_if(|_| now >= due) {
                    host.overdue((rules.now)());
                    trail.overdue(&host.name);
                    begin = Begin::Paid;
                }
            }
        }
    }
}

/// Waits for the first of a few futures, and takes it out.
async fn first<F: Future>(running: &mut SmallVec<[Running<F>; SIDE_BY_SIDE]>) -> F::Output {
    poll_fn(|cx| {
        let ended = running.iter_mut().enumerate().find_map(|(place, one)| match one.attempt.as_mut().poll(cx) {
            Poll::Ready(output) => Some((place, output)),
            Poll::Pending => None,
        });
        match ended {
            Some((place, output)) => {
                running.swap_remove(place);
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    })
    .await
}

/// Takes a token of a budget, if it has one.
fn withdraw(budget: &Mutex<Budget>, now: Moment) -> bool {
    budget.lock().unwrap_or_else(PoisonError::into_inner).withdraw(now)
}

/// Takes a token of the retry budget, and counts a refusal.
pub(super) fn may_retry(budget: &Mutex<Budget>, metrics: &Metrics, now: Moment) -> bool {
    let granted = withdraw(budget, now);
    if !granted {
        metrics.retries_refused.inc();
    }
    granted
}
