//! Lag reports: positions first, ends a little later, then to every server that can be reached.

use super::host::{Report, SlotId};
use super::replica::{Role, Stage};
use super::{Event, Model};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Model {
    pub(super) fn report_positions(&mut self, index: usize) {
        self.schedule(self.config.lag_report_interval, Event::Report { host: index });
        let Some(host) = self.hosts.get(index) else { return };
        if !self.config.lag_reports || !host.talks() || host.frozen {
            return;
        }
        let epoch = host.epoch;
        self.report_positions_of(index);
        let longest = u64::try_from(self.config.sampling.as_millis()).unwrap_or(u64::MAX);
        let later = self.jitter(5, longest);
        self.schedule(later, Event::Ends { host: index, epoch });
    }

    pub(super) fn report_positions_of(&mut self, index: usize) {
        let now = self.now;
        let slots: Vec<SlotId> =
            self.hosts.get(index).map(|h| h.replicas.keys().copied().collect()).unwrap_or_default();
        let mut positions = BTreeMap::new();
        for slot in slots {
            if let Some(replica) = self.replica(index, slot).filter(|r| r.exists(now)) {
                // A running active reports itself at the end, whatever that is.
                let active = replica.role == Role::Active && replica.stage == Stage::Running;
                positions.insert(slot, if active { u64::MAX } else { replica.position as u64 });
            }
        }
        self.pending.insert(index, positions);
    }

    pub(super) fn report_ends(&mut self, index: usize) {
        let Some(positions) = self.pending.remove(&index) else { return };
        if self.hosts.get(index).is_none_or(|h| !h.talks()) || !self.config.lag_reports {
            return;
        }
        let lag = |(slot, position): (SlotId, u64)| {
            let end = self.end_offset(slot);
            (slot, (position.min(end), end))
        };
        let report = Arc::new(Report { at_ms: self.clock_ms(index), lags: positions.into_iter().map(lag).collect() });
        for to in 0..self.hosts.len() {
            let reached = to == index || (self.alive(index, to) && !self.cut(index, to));
            let Some(receiver) = self.hosts.get_mut(to).filter(|h| reached && h.talks()) else { continue };
            if let Some(last) = receiver.reports.get_mut(index).filter(|last| last.at_ms < report.at_ms) {
                *last = report.clone();
            }
        }
    }
}
