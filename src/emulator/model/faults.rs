//! What a fault does to the model.

use super::replica::{Replica, Stage};
use super::{Model, State};
use crate::emulator::fault::Fault;
use std::time::Duration;

impl Model {
    /// Does it now; a fault of a server that does not exist does nothing.
    pub fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(host) => self.crash(host),
            Fault::Pause(host) => self.pause(host),
            Fault::Resume(host) => self.resume(host),
            Fault::Close(host) => self.close(host),
            Fault::Start(host) => self.start(host),
            Fault::CutOff { from, to } => _ = self.cuts.insert((from, to)),
            Fault::Heal => self.heal(),
            Fault::Wipe(host) => self.wipe(host),
            Fault::RecreateTopic(table) => self.recreate(&table),
            Fault::GhostHost(name) => _ = self.ghosts.insert(name),
            Fault::Slow { server, ms } => self.change(server, |h| h.slow = Duration::from_millis(ms)),
            Fault::FreezeLagReports(host) => self.change(host, |h| h.frozen = true),
            Fault::ClockSkew { server, ms } => self.change(server, |h| h.skew_ms = ms),
            Fault::DelayReplication { server, ms } => {
                self.change(server, |h| h.replication_extra = Duration::from_millis(ms))
            }
            Fault::Truncate { server, on } => self.change(server, |h| h.truncate = on),
            Fault::Stall { server, on } => self.change(server, |h| h.stall = on),
            Fault::Skip { server, on } => self.change(server, |h| h.skips = on),
        }
        self.refresh_links();
    }

    fn change(&mut self, host: usize, change: impl FnOnce(&mut super::Host)) {
        if let Some(host) = self.hosts.get_mut(host) {
            change(host);
        }
    }

    fn heal(&mut self) {
        self.cuts.clear();
        for host in &mut self.hosts {
            host.slow = Duration::ZERO;
            host.replication_extra = Duration::ZERO;
            host.skew_ms = 0;
            (host.frozen, host.truncate, host.stall, host.skips) = (false, false, false, false);
        }
    }

    fn wipe(&mut self, index: usize) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(index) else { return };
        host.disk.clear();
        if host.state == State::Down {
            return;
        }
        for (slot, replica) in &mut host.replicas {
            let Some(log) = self.slots.get(slot.0).and_then(|q| q.get(slot.1 as usize)) else { continue };
            let restored = now + self.config.phases.creating + self.config.phases.restoring;
            let stage = Stage::Created { until: now + self.config.phases.creating, restored };
            *replica = Replica::new(replica.role, stage, log, 0);
        }
    }

    fn recreate(&mut self, table: &str) {
        let Some(query) = self.catalogue.query_of(table) else { return };
        for log in self.slots.get_mut(query).into_iter().flatten() {
            *log = Default::default();
        }
        for host in &mut self.hosts {
            for (slot, replica) in host.replicas.iter_mut().filter(|((q, _), _)| *q == query) {
                if let Some(log) = self.slots.get(slot.0).and_then(|q| q.get(slot.1 as usize)) {
                    *replica = Replica::new(replica.role, Stage::Running, log, 0);
                }
            }
            host.disk.retain(|(q, _), _| *q != query);
        }
        self.truth.retain(|(t, _), _| t != table);
    }
}
