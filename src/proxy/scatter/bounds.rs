//! What a scattered query keeps of freshness: every bound for every partition, or a refusal that names the partitions.

use super::part::Part;
use super::{Scatter, Stop, is_unplaced};
use crate::config::{Level, OnUnmet, Tokens};
use crate::error::ProxyError;
use crate::partition::Partition;
use crate::proxy::Proxy;
use crate::proxy::bounds::rejections;
use crate::proxy::demand::Demand;
use crate::proxy::reply::{Freshness, Served};
use crate::route::{Candidate, PassReason, Plan, Preference};
use crate::view::{ClusterView, HostName, Interval, Role};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

impl Proxy {
    /// Waits until every partition has a replica that keeps the request's bounds, as long as the request allows.
    ///
    /// # Errors
    /// The refusal, which names each partition and why its replicas were not chosen.
    pub(super) async fn admit(
        &self,
        scatter: &Scatter<'_>,
        partitions: &[Partition],
        changes: &mut watch::Receiver<u64>,
        waited: &mut Option<Duration>,
    ) -> Result<(), Stop> {
        let until = scatter.begun + scatter.bounds.demand.wait.min(self.settings.deadline);
        let mut place = None;
        loop {
            let view = self.published.load();
            let plans = self.plans(scatter, partitions, &view)?;
            if is_unplaced(&plans, &view) {
                return Err(Stop::Native(PassReason::PlacementUnknown));
            }
            let unmet = |(_, plan): &&(Partition, Plan)| plan.candidates.is_empty() && !plan.native;
            let unmet: Vec<&(Partition, Plan)> = plans.iter().filter(unmet).collect();
            if unmet.is_empty() {
                return Ok(());
            }
            place = place.or_else(|| self.waiting.try_acquire().ok());
            if place.is_none() || self.clock.now() >= until {
                return self.unmet_parts(scatter, &unmet, &view);
            }
            let woken = tokio::time::timeout_at(self.clock.instant(until), changes.changed()).await;
            *waited = Some(self.clock.now().since(scatter.begun));
            if matches!(woken, Ok(Err(_))) {
                return self.unmet_parts(scatter, &unmet, &view); // no more snapshots: the process is ending
            }
        }
    }

    /// What the policy makes of partitions without a replica that keeps the bounds.
    fn unmet_parts(&self, scatter: &Scatter<'_>, unmet: &[&(Partition, Plan)], view: &ClusterView) -> Result<(), Stop> {
        let degrades = |(_, plan): &&(Partition, Plan)| plan.rejected.iter().any(|r| r.reason.is_by_bound());
        let degraded = scatter.degraded.load(Ordering::Relaxed);
        if self.settings.freshness.on_unmet == OnUnmet::Degrade && !degraded && unmet.iter().all(degrades) {
            self.metrics.bounds_unmet.with(["degraded"]).inc();
            scatter.degraded.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.metrics.bounds_unmet.with(["refused"]).inc();
        let demand = &scatter.bounds.demand;
        let retry_after =
            unmet.iter().map(|(partition, plan)| self.retry_after(plan, demand, &scatter.located(*partition), view));
        let retry_after = retry_after.max().unwrap_or(Duration::from_secs(1));
        let reasons: Vec<String> = unmet
            .iter()
            .map(|(partition, plan)| {
                let hosts: Vec<String> = rejections(plan, view).chain(self.without_replica(plan, view)).collect();
                let hosts = if hosts.is_empty() { "no replica is known".to_owned() } else { hosts.join("; ") };
                format!("partition {partition}: {hosts}")
            })
            .collect();
        let partitions: Vec<Partition> = unmet.iter().map(|(partition, _)| *partition).collect();
        Err(Stop::Refused(ProxyError::BoundUnmet {
            message: format!(
                "table {}, {}: no replica is {}; {}",
                scatter.wanted.table.name,
                list(&partitions),
                demand.describe(),
                reasons.join(". ")
            ),
            retry_after,
        }))
    }

    /// Who gave the parts, with the largest lag and age of all, and the session's token with all these reads in it.
    pub(super) fn served(&self, scatter: &mut Scatter<'_>, parts: &[Part], waited: Option<Duration>) -> Served {
        let mut names: Vec<HostName> = Vec::new();
        for part in parts {
            let Some(host) = part.view.host(part.group.host) else { continue };
            if !names.contains(&host.name) {
                names.push(Arc::clone(&host.name));
            }
            part.group.parts.iter().for_each(|(partition, _)| scatter.store.served(*partition, &host.name));
        }
        let candidates = parts.iter().flat_map(|part| part.group.parts.iter().map(|(_, candidate)| *candidate));
        let freshness = Freshness {
            waited,
            token: self.token_of(scatter, parts),
            cookie: self.settings.freshness.tokens == Tokens::Cookie,
        };
        Served { host: names.join(",").into(), candidate: candidates.reduce(worst), freshness }
    }

    fn token_of(&self, scatter: &mut Scatter<'_>, parts: &[Part]) -> Option<String> {
        let view = self.published.load();
        let key = (self.settings.freshness.tokens != Tokens::Off).then(|| self.token_key(&view)).flatten()?;
        let at = Interval { from: scatter.begun, to: self.clock.now() };
        for part in parts {
            let host = part.view.host(part.group.host)?;
            for (partition, candidate) in &part.group.parts {
                let active = candidate.role != Role::Standby;
                scatter.bounds.session.read(&scatter.wanted.table, *partition, host, active, at);
            }
        }
        Some(scatter.bounds.session.encode(&key, &view))
    }
}

/// Two candidates as one that is as bad as either.
fn worst(one: Candidate, other: Candidate) -> Candidate {
    let degraded = [one.preference, other.preference].contains(&Preference::Degraded);
    Candidate {
        lag: one.lag.zip(other.lag).map(|(a, b)| a.max(b)),
        age: one.age.zip(other.age).map(|(a, b)| a.max(b)),
        preference: if degraded { Preference::Degraded } else { one.preference },
        sees_absence: one.sees_absence && other.sees_absence,
        ..one
    }
}

/// Whether the request, the table or the configuration sets any bound.
pub(super) fn some(demand: &Demand) -> bool {
    let token = demand.token.as_ref().is_some_and(|token| !token.is_cookie());
    demand.max_offset_lag.is_some() || demand.max_staleness.is_some() || demand.level == Level::Active || token
}

/// A bound on what only the servers' own routing can answer.
pub(super) fn too_much(reason: PassReason, table: &str) -> ProxyError {
    let what = reason.describe();
    ProxyError::BadDemand(format!(
        "table {table}: the bounds on freshness in force cannot be kept, as this is {what}, which a server routes"
    ))
}

/// `partition 3`, or `partitions 0, 3`.
pub(super) fn list(partitions: &[Partition]) -> String {
    let mut sorted = partitions.to_vec();
    sorted.sort_unstable();
    let numbers: Vec<String> = sorted.iter().map(Partition::to_string).collect();
    format!("partition{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
