//! Until when a replica certainly holds everything, from the reports of all hosts.
//!
//! A report's sample of a slot is the replica's position `c` and the changelog's end `E`, read in that order between the
//! moment at which the sampling began, `a`, and the moment at which the report was made. If a sample of any host has
//! `E <= c`, for the newest `c` of this replica, then the replica holds all that was logged until that sample's `a`:
//! `E(a) <= E <= c <= P(now)`, because ends and, within one life of a replica, positions never fall. The bound needs no
//! failure detector: when reports stop it simply grows older.
//!
//! `a` is not told. Collections of one host do not overlap, so a report's sampling began after the host's report before it
//! was made; when that was, only somebody who shares the host's clock can say as an age. Without such an age there is no `a`.
//!
//! Samples from before a changelog was created anew say nothing about it.

use super::report::Report;
use super::{ClusterView, HostIndex, Moment, Position, SlotView, TableInfo};
use crate::partition::Partition;
use std::time::Duration;

/// Intervals after which the next report is overdue for so long that the replica may have left and come back wiped.
const MISSED: u32 = 3;

/// What polls and clocks add to that.
const MISSED_SLACK: Duration = Duration::from_secs(1);

/// What one report says of one slot.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// When the sampling began, at the earliest.
    begun: Option<Moment>,
    end: i64,
}

impl ClusterView {
    /// A slot with [`complete_until`](super::ReplicaView::complete_until) of each replica, which [`slot`](Self::slot)
    /// leaves out: it takes a look at every report that is kept.
    pub fn slot_with_history(&self, table: &TableInfo, partition: Partition) -> SlotView {
        let mut slot = self.slot(table, partition);
        let position = |report: &Report| report.position(&table.query_id, partition as usize);
        let kept = self.told.reports.iter().flat_map(|reports| reports.kept());
        let mut samples: Vec<Sample> = kept
            .filter_map(|report| position(report).map(|Position { end, .. }| Sample { begun: report.begun, end }))
            .collect();
        let epoch = slot.epoch;
        samples.retain(|sample| is_of(epoch, sample.begun));
        for replica in &mut slot.replicas {
            let Some(reports) = self.told.reports.get(usize::from(replica.host)) else { continue };
            replica.same_since = reports.same_since(&table.query_id, partition);
            let Some((newest, position)) =
                reports.newest().zip(replica.position).filter(|_| replica.settled && replica.reliable)
            else {
                continue;
            };
            let missed = reports.interval().map_or(self.max_report_age, |interval| interval * MISSED + MISSED_SLACK);
            if is_of(epoch, newest.begun) && self.made.since(newest.seen) <= missed {
                let held = samples.iter().filter(|sample| sample.end <= position.current);
                replica.complete_until = held.filter_map(|sample| sample.begun).max();
            }
        }
        slot
    }

    /// Records by which a replica's own lag shrinks each second, by its last two reports; `None` if it does not.
    pub fn catch_up_rate(&self, host: HostIndex, table: &TableInfo, partition: Partition) -> Option<f64> {
        let reports = self.told.reports.get(usize::from(host))?;
        let lag = |report: &Report| {
            let position = report.position(&table.query_id, partition as usize)?;
            Some(position.end.saturating_sub(position.current))
        };
        let (newest, before) = (reports.newest()?, reports.previous()?);
        let gained = lag(before)?.saturating_sub(lag(newest)?);
        let seconds = newest.update_time_ms.saturating_sub(before.update_time_ms) as f64 / 1e3;
        (gained > 0 && seconds > 0.0).then(|| gained as f64 / seconds)
    }

    /// The least bound in time that a slot's reports allow where a server is polled every `poll` by its own sidecar and every
    /// second time by the others, and the time between reports: one must be made after the one whose time of making is known,
    /// and arrive. `None` before there are a few.
    pub fn staleness_floor(&self, slot: &SlotView, poll: Duration) -> Option<(Duration, Duration)> {
        let intervals = slot.replicas.iter().filter_map(|replica| self.report_interval(replica.host));
        intervals.max().map(|interval| (interval * 2 + poll * 3, interval))
    }

    /// The usual time between two reports of a host; `None` before it has made a few.
    fn report_interval(&self, host: HostIndex) -> Option<Duration> {
        const FEW: usize = 4;
        let reports = self.told.reports.get(usize::from(host))?;
        reports.interval().filter(|_| reports.kept().count() >= FEW)
    }
}

fn is_of(epoch: Option<Moment>, begun: Option<Moment>) -> bool {
    epoch.is_none_or(|epoch| begun.is_some_and(|begun| begun >= epoch))
}
