//! Audits: a sample of lookups is asked again of a second replica, and their answers compared.
//!
//! Answers of two replicas may differ by what one of them lacks. They may not when both hold the same records: when both
//! were at the changelog's end before the reads, and the end is still the same in samples that began so long after the
//! reads that whatever the active showed of its cache would have been logged. Then a difference is a broken promise, of
//! this sidecar's or of a server's.

use super::attempt::{Answer, Exchange, exchange};
use super::hosts::Host;
use super::lookup::Lookup;
use super::race::Step;
use super::session::COMMIT_SLACK;
use super::{Proxy, versions};
use crate::clock::Clock;
use crate::http::{Body, HttpVersion, Reuse};
use crate::partition::Partition;
use crate::route::Plan;
use crate::telemetry::Metrics;
use crate::view::{ClusterView, HostIndex, Moment, Published, SlotView, TableInfo};
use bytes::Bytes;
use http::Request;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Audits under way at once; a lookup that would be a further one is not audited.
pub(super) const AT_ONCE: usize = 16;

/// Longest wait for the reports that show whether an audit counts.
const LONGEST: Duration = Duration::from_secs(60);

/// One audit.
struct Audit {
    table: Arc<TableInfo>,
    partition: Partition,
    /// Who answered, and what.
    first: (Arc<Host>, Bytes),
    second: Arc<Host>,
    version: HttpVersion,
    sql: String,
    /// The end at which both stood, in the processes that did.
    end: i64,
    processes: [u64; 2],
    hold: usize,
    metrics: Arc<Metrics>,
}

/// How an audit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Both answers are the same.
    Agreed,
    /// They differ although both replicas held the same records.
    Violated,
    /// Records came in between, or nothing shows that none did.
    Inconclusive,
}

impl Proxy {
    /// Begins an audit of an answer, where it is this one's turn and it can be audited.
    pub(super) fn audit(
        &self,
        lookup: &Lookup<'_, '_>,
        step: &Step,
        (plan, view): (&Plan, &ClusterView),
        answer: &Answer,
    ) {
        let ratio = self.settings.freshness.audit;
        if ratio <= 0.0 || rand::random::<f64>() >= ratio {
            return;
        }
        let Some((audit, request)) = self.plan_audit(lookup, step, (plan, view), answer) else { return };
        let Ok(place) = Arc::clone(&self.audits).try_acquire_owned() else { return };
        tokio::spawn(audit.run(request, self.clock, Arc::clone(&self.published), place));
    }

    /// An audit by another replica at the same end; functions may give another value each time, and windows expire.
    fn plan_audit(
        &self,
        lookup: &Lookup<'_, '_>,
        step: &Step,
        (plan, view): (&Plan, &ClusterView),
        answer: &Answer,
    ) -> Option<(Audit, Request<Body>)> {
        let (table, partition) = (&lookup.located.table, lookup.located.partition);
        let sql = lookup.request.envelope.sql();
        let partition = step.pin.filter(|_| !table.windowed && !sql.contains('(')).and(Some(partition))?;
        let slot = view.slot(table, partition);
        let others = plan.candidates.iter().filter(|other| other.host != step.index);
        let other = others.map(|other| other.host).find(|other| at_end(&slot, [step.index, *other]))?;
        let host = view.host(other)?;
        let request = lookup.request.head.with_bytes(lookup.pinned().clone());
        let audit = Audit {
            table: Arc::clone(table),
            partition,
            first: (Arc::clone(&step.host), answer.at_hand()?.clone()),
            second: self.hosts.get(host, view)?,
            version: versions::upstream(lookup.request, host.version),
            sql: sql.to_owned(),
            end: slot.end?,
            processes: [view.host(step.index)?.process(), host.process()],
            hold: self.settings.held_answer,
            metrics: Arc::clone(&self.metrics),
        };
        Some((audit, request))
    }
}

/// Whether these replicas reported themselves at the end that is the largest of all.
fn at_end(slot: &SlotView, hosts: [HostIndex; 2]) -> bool {
    hosts.iter().all(|host| {
        let replica = slot.replicas.iter().find(|replica| replica.host == *host);
        let at_end =
            |position: crate::view::Position| position.current >= position.end && Some(position.end) == slot.end;
        replica.is_some_and(|replica| replica.settled && replica.reliable && replica.position.is_some_and(at_end))
    })
}

impl Audit {
    async fn run(self, request: Request<Body>, clock: Clock, published: Arc<Published>, _place: OwnedSemaphorePermit) {
        let _under_way = self.second.begin();
        let asked = exchange(&self.second, self.version, Reuse::Allowed, request, &self.sql, self.hold, |_| {});
        let second = match tokio::time::timeout(LONGEST, asked).await {
            Ok(Exchange::Rows(answer) | Exchange::Empty(answer)) => answer.at_hand().cloned(),
            _ => None,
        };
        let outcome = match second {
            Some(second) => self.compare(&second, clock.now(), &published).await,
            None => Outcome::Inconclusive,
        };
        let label = match outcome {
            Outcome::Agreed => "agreed",
            Outcome::Violated => "violated",
            Outcome::Inconclusive => "inconclusive",
        };
        self.metrics.audits.with([label]).inc();
    }

    async fn compare(&self, second: &[u8], read: Moment, published: &Published) -> Outcome {
        let mut changes = published.changes();
        let shown = async {
            loop {
                if let Some(outcome) = self.same_records(&published.load(), read) {
                    return outcome;
                }
                if changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        if !tokio::time::timeout(LONGEST, shown).await.unwrap_or(false) {
            return Outcome::Inconclusive;
        }
        let (first, second) = (rows(&self.first.1), rows(second));
        if first == second {
            return Outcome::Agreed;
        }
        // rows are the client's own business: their lengths tell which one lacks something
        tracing::error!(
            table = %self.table.name,
            query = %self.table.query_id,
            partition = self.partition,
            end = self.end,
            served_by = %self.first.0.name,
            audited_by = %self.second.name,
            served_bytes = first.len(),
            audited_bytes = second.len(),
            "two replicas that hold the same changelog records gave different answers"
        );
        Outcome::Violated
    }

    /// Whether both replicas held the same records at the time of both reads; `None` while later reports may show it.
    fn same_records(&self, view: &ClusterView, read: Moment) -> Option<bool> {
        let slot = view.slot_with_history(&self.table, self.partition);
        let logged = read + view.commit_interval + COMMIT_SLACK;
        let place = |process: u64| view.hosts.iter().position(|host| host.process() == process);
        let [Some(first), Some(second)] = self.processes.map(place) else { return Some(false) };
        let hosts = [first as HostIndex, second as HostIndex];
        if slot.end != Some(self.end) || slot.epoch.is_some_and(|epoch| epoch >= read) || !at_end(&slot, hosts) {
            return Some(false);
        }
        let seen = |host: &HostIndex| {
            let replica = slot.replicas.iter().find(|replica| replica.host == *host);
            replica.and_then(|replica| replica.complete_until).is_some_and(|until| until >= logged)
        };
        hosts.iter().all(seen).then_some(true)
    }
}

/// An answer without its head, whose query id is another each time.
fn rows(answer: &[u8]) -> &[u8] {
    memchr::memchr(b'\n', answer).and_then(|at| answer.get(at..)).unwrap_or_default()
}
