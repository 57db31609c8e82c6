//! Who holds what: the consumer group, its rebalances, and the start of the cluster.

use super::host::{Assignment, Placement, SlotId};
use super::replica::{Replica, Role, Stage};
use super::{Event, Model, State};
use std::sync::Arc;
use std::time::Duration;

impl Model {
    /// Sets up a cluster that has been running for a while.
    pub(super) fn begin(&mut self) {
        let epoch_ms = self.config.epoch_ms;
        self.placement = Arc::new(self.assign());
        self.seed_data();
        for index in 0..self.hosts.len() {
            let placement = self.placement.clone();
            if let Some(host) = self.hosts.get_mut(index) {
                host.state = State::Ready;
                host.discovered = true;
                host.incarnation_ms = epoch_ms - 60_000 - index as i64 * 977;
                host.placement = Some(placement);
            }
            for (slot, role) in self.tasks_of(index) {
                if let Some(log) = self.slots.get(slot.0).and_then(|q| q.get(slot.1 as usize)) {
                    let replica = Replica::new(role, Stage::Running, log, log.changelog.len());
                    self.hosts.get_mut(index).and_then(|h| h.replicas.insert(slot, replica));
                }
            }
            self.report_positions_of(index);
            let (commit, report) = (self.config.commit_interval, self.config.lag_report_interval);
            let phase = |step: Duration, n: usize| step.mul_f64((n as f64 * 0.37 + 0.21).fract());
            self.schedule(phase(commit, index), Event::Commit { host: index });
            self.schedule(phase(report, index), Event::Report { host: index });
        }
        (0..self.hosts.len()).for_each(|index| self.report_ends(index));
    }

    /// The tasks that the group gave to a server.
    pub(super) fn tasks_of(&self, index: usize) -> Vec<(SlotId, Role)> {
        let mut tasks = Vec::new();
        for (query, partitions) in self.placement.iter().enumerate() {
            for (partition, assignment) in partitions.iter().enumerate() {
                let slot = (query, partition as u32);
                if assignment.active == index {
                    tasks.push((slot, Role::Active));
                } else if assignment.standbys.contains(&index) {
                    tasks.push((slot, Role::Standby));
                }
            }
        }
        tasks
    }

    pub(super) fn expire(&mut self, index: usize) {
        if self.hosts.get(index).is_some_and(|h| h.talks() && h.placement.is_some()) {
            return;
        }
        if self.members.remove(&index) {
            self.rebalance();
        }
    }

    pub(super) fn join(&mut self, index: usize) {
        self.members.insert(index);
        if let Some(host) = self.hosts.get_mut(index) {
            host.state = State::Ready;
            host.discovered = true;
        }
        // A process that lost its membership comes back with nothing but its state directory.
        let lost: Vec<SlotId> = self.hosts.get(index).map(|h| h.replicas.keys().copied().collect()).unwrap_or_default();
        lost.into_iter().for_each(|slot| self.drop_replica(index, slot));
        self.refresh_links();
        self.rebalance();
    }

    fn rebalance(&mut self) {
        let members: Vec<usize> = self.members.iter().copied().collect();
        for member in &members {
            self.commit(*member);
        }
        if !members.is_empty() {
            self.placement = Arc::new(self.assign());
        }
        for member in members {
            if self.hosts.get(member).is_some_and(|h| h.state.processes() && !h.paused) {
                self.take_tasks(member);
            }
        }
    }

    /// Partition `p` goes to member `p + shift`, its standbys to the next ones, turned by one for each round, which is how
    /// the captured clusters were assigned.
    fn assign(&self) -> Placement {
        let members: Vec<usize> = self.members.iter().copied().collect();
        let n = members.len().max(1);
        let member = |i: usize| members.get(i % n).copied().unwrap_or_default();
        let assignment = |shift: usize, p: usize| {
            let turn = if n > 1 { (p / n) % (n - 1) } else { 0 };
            let standby = |j: usize| member(p + shift + 1 + (turn + j) % (n - 1).max(1));
            let standbys = (0..self.config.standbys.min(n - 1)).map(standby).collect();
            Assignment { active: member(p + shift), standbys }
        };
        let partitions = self.config.partitions as usize;
        self.catalogue.queries.iter().map(|q| (0..partitions).map(|p| assignment(q.shift, p)).collect()).collect()
    }

    fn take_tasks(&mut self, index: usize) {
        let tasks = self.tasks_of(index);
        let placement = self.placement.clone();
        let Some(host) = self.hosts.get_mut(index) else { return };
        host.placement = Some(placement);
        let gone =
            host.replicas.keys().filter(|slot| !tasks.iter().any(|(t, _)| t == *slot)).copied().collect::<Vec<_>>();
        gone.into_iter().for_each(|slot| self.drop_replica(index, slot));
        for (slot, role) in tasks {
            let known = self.replica(index, slot).map(|r| r.role);
            match known {
                None => self.create_replica(index, slot, role),
                Some(before) => self.keep_replica(index, slot, before, role),
            }
        }
    }

    fn create_replica(&mut self, index: usize, slot: SlotId, role: Role) {
        let now = self.now;
        let phases = self.config.phases;
        let spread = self.jitter(80, 140);
        let until = now + phases.creating.mul_f64(spread.as_secs_f64() * 10.0);
        let restored = until + phases.restoring.mul_f64(spread.as_secs_f64() * 10.0);
        let position = self.hosts.get_mut(index).and_then(|h| h.disk.remove(&slot)).unwrap_or(0);
        let Some(log) = self.slots.get(slot.0).and_then(|q| q.get(slot.1 as usize)) else { return };
        let replica = Replica::new(role, Stage::Created { until, restored }, log, position);
        if let Some(host) = self.hosts.get_mut(index) {
            host.disk.insert(slot, position);
            host.replicas.insert(slot, replica);
        }
    }

    /// A replica that stays is checkpointed; its store is closed for a moment if its role changes, and sometimes if not
    /// (`observed.md`: within 0.3 s of the rebalance, on servers that were not restarted).
    fn keep_replica(&mut self, index: usize, slot: SlotId, before: Role, role: Role) {
        let now = self.now;
        let shaken = before != role || self.jitter(0, 3).is_zero();
        let from = now + self.jitter(0, 60);
        let until = from + self.jitter(60, 300);
        let restored = until + self.config.phases.restoring.mul_f64(self.jitter(1000, 3000).as_secs_f64());
        let Some(log) = self.slots.get(slot.0).and_then(|q| q.get(slot.1 as usize)) else { return };
        let Some(host) = self.hosts.get_mut(index) else { return };
        let Some(replica) = host.replicas.get_mut(&slot) else { return };
        host.disk.insert(slot, replica.position);
        if shaken {
            replica.unreadable = (from, until);
        }
        if before != role {
            replica.become_role(role, log, now, restored);
        }
    }

    fn drop_replica(&mut self, index: usize, slot: SlotId) {
        if let Some(host) = self.hosts.get_mut(index)
            && let Some(replica) = host.replicas.remove(&slot)
        {
            host.disk.insert(slot, replica.position);
        }
    }
}
