//! Covers partitions with parts: one request a host, all at once, and again elsewhere for what fails or is slow.

use super::part::{Ended, Part};
use super::{Scatter, Stop};
use crate::partition::Partition;
use crate::proxy::Proxy;
use crate::proxy::race::may_retry;
use crate::route::{Candidate, Group, assign};
use crate::view::{ClusterView, HostName, Role};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Parts of one answer under way at once, at most: as many as most clusters have hosts.
const AT_ONCE: usize = 8;

/// How long a repeated attempt waits for the retry budget to grow before it asks again.
const BUDGET_PAUSE: Duration = Duration::from_millis(50);

/// How much longer than a lookup a part may take before its partitions are asked for elsewhere beside it.
const PART_FACTOR: u32 = 4;

/// The parts that were got, and the partitions of which none was.
#[derive(Debug, Default)]
pub(super) struct Covered {
    pub parts: Vec<Part>,
    pub missing: Vec<Partition>,
}

impl Covered {
    fn none_of(group: &Group) -> Self {
        Covered { parts: Vec::new(), missing: group.partitions() }
    }

    fn by(part: Part) -> Self {
        Covered { parts: vec![part], missing: Vec::new() }
    }
}

type Covering<'f> = Pin<Box<dyn Future<Output = Result<Covered, Stop>> + Send + 'f>>;

impl Proxy {
    /// Asks for these partitions, never of the hosts to avoid: of those that were asked before and failed, or are slow.
    pub(super) fn cover<'f>(
        &'f self,
        scatter: &'f Scatter<'_>,
        partitions: Vec<Partition>,
        avoid: Vec<HostName>,
    ) -> Covering<'f> {
        Box::pin(async move {
            let view = self.published.load();
            let plans = self.plans(scatter, &partitions, &view)?;
            let apart = scatter.apart.load(Ordering::Relaxed);
            let (groups, missing) = assign(&plans, apart, |candidate| self.will_do(candidate, &view, &avoid));
            let is_behind = |(_, plan): &(Partition, crate::route::Plan)| {
                !plan.candidates.is_empty() && !plan.candidates.iter().any(|candidate| candidate.sees_absence)
            };
            if self.settings.prove_absence && plans.iter().any(is_behind) {
                scatter.behind.store(true, Ordering::Relaxed);
            }
            let mut covered = Covered { missing, ..Covered::default() };
            let (mut waiting, mut running) = (VecDeque::from(groups), FuturesUnordered::new());
            loop {
                while running.len() < AT_ONCE
                    && let Some(group) = waiting.pop_front()
                {
                    running.push(self.group(scatter, group, Arc::clone(&view), &avoid));
                }
                let Some(one) = running.next().await else { return Ok(covered) };
                let one = one?;
                covered.parts.extend(one.parts);
                covered.missing.extend(one.missing);
            }
        })
    }

    /// Whether a candidate may give a part: a row that it lacks is missing from the answer, so it must be known to keep up.
    fn will_do(&self, candidate: &Candidate, view: &ClusterView, avoid: &[HostName]) -> bool {
        let Some(host) = view.host(candidate.host) else { return false };
        candidate.role != Role::Unplaced
            && host.version.is_some_and(|version| version.checks_pins())
            && (candidate.sees_absence || !self.settings.prove_absence)
            && !avoid.contains(&host.name)
    }

    /// The part of one host, or what others give in its place.
    async fn group(
        &self,
        scatter: &Scatter<'_>,
        group: Group,
        view: Arc<ClusterView>,
        avoid: &[HostName],
    ) -> Result<Covered, Stop> {
        let Some(step) = self.step(&view, group.host) else { return Ok(Covered::none_of(&group)) };
        let elsewhere = || {
            let avoid = avoid.iter().chain([&step.host.name]).cloned().collect();
            self.cover(scatter, group.partitions(), avoid)
        };
        let attempt = self.part(scatter, &step, &group, &view);
        tokio::pin!(attempt);
        let ended = match tokio::time::timeout(self.part_limit(), &mut attempt).await {
            Ok(ended) => ended,
            Err(_) => {
                step.host.overdue(self.clock.now());
                scatter.trail().overdue(&step.host.name);
                if !self.may_repeat() {
                    attempt.await
                } else {
                    let mut beside = elsewhere();
                    tokio::select! {
                        biased;
                        ended = &mut attempt => match ended {
                            Err(Ended::Lost { .. }) => return beside.await,
                            ended => ended,
                        },
                        covered = &mut beside => match covered {
                            Ok(covered) if covered.missing.is_empty() => return Ok(covered),
                            Err(stop @ Stop::Final(..)) => return Err(stop),
                            Ok(_) | Err(_) => attempt.await, // nobody else has it
                        },
                    }
                }
            }
        };
        match ended {
            Ok(part) => Ok(Covered::by(part)),
            Err(Ended::Stop(stop)) => Err(stop),
            Err(Ended::Apart) => self.cover(scatter, group.partitions(), avoid.to_vec()).await,
            Err(Ended::Lost { unsent }) => {
                while !unsent && !self.may_repeat() {
                    if self.clock.now() >= scatter.until {
                        return Ok(Covered::none_of(&group));
                    }
                    tokio::time::sleep(BUDGET_PAUSE).await;
                }
                elsewhere().await
            }
        }
    }

    /// How long a part may take before its partitions are asked for elsewhere beside it.
    fn part_limit(&self) -> Duration {
        let latency = *self.pull_latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.limit(self.settings.attempt_floor * PART_FACTOR, self.settings.attempt_ceiling * PART_FACTOR)
    }

    /// Takes one attempt more from the retry budget.
    fn may_repeat(&self) -> bool {
        may_retry(&self.budget, &self.metrics, self.clock.now())
    }
}
