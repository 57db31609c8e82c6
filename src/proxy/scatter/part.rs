//! One part of an answer: what one host says of some partitions, taken only if it is whole and certainly all.

use super::rows::Rows;
use super::{Scatter, Stop};
use crate::partition::Partition;
use crate::proxy::attempt::{Exchange, Failure};
use crate::proxy::prover::Proof;
use crate::proxy::race::{Doubt, Settled, Step};
use crate::proxy::{Proxy, versions};
use crate::route::{Group, PassReason, Standing};
use crate::view::ClusterView;
use http::response::Parts;
use http_body_util::BodyExt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How often a part that turns out to lack rows is asked again of the same host before the next one's turn.
const ASKED_AGAIN: usize = 1;

/// One part. A copy shares its bytes and its share of the memory for answers.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub group: Group,
    /// The snapshot that the group was planned on.
    pub view: Arc<ClusterView>,
    pub head: Parts,
    pub rows: Rows,
    pub memory: Arc<OwnedSemaphorePermit>,
}

/// Why an attempt at a part gave none.
#[derive(Debug)]
pub(super) enum Ended {
    /// Another host may do better; whether nothing was sent to this one.
    Lost { unsent: bool },
    /// The same again, each partition by itself.
    Apart,
    /// The whole answer ends with it.
    Stop(Stop),
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Ended::Stop(stop)
    }
}

impl Proxy {
    /// Asks a host for its part; given up when one of its partitions moves.
    pub(super) async fn part(
        &self,
        scatter: &Scatter<'_>,
        step: &Step,
        group: &Group,
        view: &Arc<ClusterView>,
    ) -> Result<Part, Ended> {
        let memory = self.memory().await?;
        if !group.parts.iter().all(|(_, candidate)| self.keeps_staleness(&scatter.bounds.demand, candidate)) {
            return Err(self.lose(scatter, step, Settled::Failed(failure("too_stale", true))));
        }
        scatter.trail().begin();
        tokio::select! {
            biased;
            () = self.moved(scatter, step, group, view) => {
                Err(self.lose(scatter, step, Settled::Failed(failure("moved", false))))
            }
            part = self.read_part(scatter, step, group, (view, memory)) => part,
        }
    }

    /// Room for one part, waited for no longer than an attempt.
    async fn memory(&self) -> Result<OwnedSemaphorePermit, Stop> {
        let room = Arc::clone(&self.answers).acquire_many_owned(kib(self.settings.scatter_part));
        match tokio::time::timeout(self.settings.attempt_ceiling, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(Stop::Native(PassReason::MemoryTaken)),
        }
    }

    /// Completes when the host does not hold the group's partitions any longer as it did when they were planned.
    async fn moved(&self, scatter: &Scatter<'_>, step: &Step, group: &Group, before: &ClusterView) {
        let standing = |view: &ClusterView| -> Vec<Option<Standing>> {
            let of = |partition: Partition| Standing::of(view, &scatter.wanted.table, partition, &step.host.name);
            group.partitions().into_iter().map(of).collect()
        };
        let before = standing(before);
        let mut changes = self.published.changes();
        while standing(&self.published.load()) == before {
            if changes.changed().await.is_err() {
                return std::future::pending().await; // no more snapshots: the process is ending
            }
        }
    }

    async fn read_part(
        &self,
        scatter: &Scatter<'_>,
        step: &Step,
        group: &Group,
        (view, mut memory): (&Arc<ClusterView>, OwnedSemaphorePermit),
    ) -> Result<Part, Ended> {
        for _ in 0..=ASKED_AGAIN {
            let (head, body) = match self.exchange_part(scatter, step, &group.partitions(), view).await {
                Exchange::Rows(answer) | Exchange::Empty(answer) if answer.is_whole() => {
                    answer.into_response().into_parts()
                }
                Exchange::Rows(_) | Exchange::Empty(_) => return Err(Stop::Native(PassReason::AnswerTooLarge).into()),
                Exchange::Final(answer) => return Err(self.lose(scatter, step, Settled::Final(answer))),
                Exchange::Retry(retry, answer) => {
                    return Err(self.lose(scatter, step, Settled::Retry(retry, answer)));
                }
                Exchange::Failed(failure) => return Err(self.lose(scatter, step, Settled::Failed(failure))),
            };
            let Ok(body) = body.collect().await else {
                return Err(self.lose(scatter, step, Settled::Failed(Failure::TRUNCATED)));
            };
            let Some(rows) = Rows::read(body.to_bytes()) else {
                return Err(Stop::Native(PassReason::FormatNotMerged).into());
            };
            let unused = memory.num_permits().saturating_sub(kib(rows.size()) as usize);
            drop(memory.split(unused));
            let part = Part { group: group.clone(), view: Arc::clone(view), head, rows, memory: Arc::new(memory) };
            scatter.note_whole(&part);
            match self.is_all(scatter, step, &part).await {
                Ok(Proof::Absent) => {
                    self.metrics.attempts.with(["answered", "none"]).inc();
                    return Ok(part);
                }
                Ok(Proof::Present) => memory = self.memory().await?,
                Ok(Proof::Inconclusive | Proof::Unreadable | Proof::Behind) => break,
                Err(_unattributed) => {
                    scatter.apart.store(true, std::sync::atomic::Ordering::Relaxed);
                    return Err(Ended::Apart);
                }
            }
        }
        Err(self.lose(scatter, step, Settled::Unproven(Doubt::Unproven)))
    }

    /// One exchange for some partitions.
    pub(super) async fn exchange_part(
        &self,
        scatter: &Scatter<'_>,
        step: &Step,
        partitions: &[Partition],
        view: &ClusterView,
    ) -> Exchange {
        let (request, _under_way) = (scatter.request, step.host.begin());
        let version = versions::upstream(request, view.host(step.index).and_then(|host| host.version));
        let body = request.envelope.pinned_to(partitions);
        let took = |took: Duration| self.pull_latency.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        self.exchange(&step.host, version, request, &body, self.settings.scatter_part, took).await
    }

    /// Notes an attempt that gave no part.
    fn lose(&self, scatter: &Scatter<'_>, step: &Step, settled: Settled) -> Ended {
        let unsent = matches!(&settled, Settled::Failed(failure) if failure.unsent);
        match scatter.trail().settle(step, settled) {
            Some(answer) => Ended::Stop(Stop::Final(Box::new(answer), Arc::clone(&step.host.name))),
            None => Ended::Lost { unsent },
        }
    }
}

/// Whole kibibytes, at least one: the unit in which memory is counted.
pub(in crate::proxy) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024).max(1)).unwrap_or(u32::MAX)
}

fn failure(label: &'static str, unsent: bool) -> Failure {
    Failure { label, unsent, stale_connection: false }
}
