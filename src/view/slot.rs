//! One partition of one table's store, as a snapshot has it.

use super::placement::{Agreement, agree};
use super::{ClusterView, HostIndex, HostName, HostState, Moment, Position, Role, TableInfo};
use crate::partition::Partition;
use smallvec::SmallVec;
use std::time::Duration;

/// One partition of one table's store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotView {
    /// Its replicas, each host once.
    pub replicas: SmallVec<[ReplicaView; 3]>,
    /// The largest end offset that any host reported of late.
    pub end: Option<i64>,
    /// Records written between two reports of one host, at most: a smaller difference of positions may be one of ages.
    pub interval_writes: i64,
    /// By when its changelog certainly was the one of now, if it is known to have been created anew.
    pub epoch: Option<Moment>,
}

/// One replica of one partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaView {
    /// Where it is.
    pub host: HostIndex,
    /// Its role by the newest placement.
    pub role: Role,
    /// Whether the claim to be active is believed: see the rule for actives.
    pub agreed: bool,
    /// Its newest reported position.
    pub position: Option<Position>,
    /// When that report was made, at the latest.
    pub reported: Option<Moment>,
    /// Whether it held, by that report, all that had been logged by the one before.
    pub keeps_up: bool,
    /// Whether it took over as active while it kept up, in the same process: it lacks no more than it did then.
    pub heir: bool,
    /// Whether it has reported twice since it started, moved, changed role or came back from a pause.
    pub settled: bool,
    /// Whether its position is certainly its own: it has reported since then, and is no active that the others do not take
    /// for one. Such a zombie reports itself current whatever it holds.
    pub reliable: bool,
    /// Whether its host has reported since it came back from a pause or a restart.
    pub awake: bool,
    /// Until when it certainly holds everything that was logged; only in a [slot with
    /// history](ClusterView::slot_with_history).
    pub complete_until: Option<Moment>,
    /// Since when its store is certainly the same one; `None` if no other is known. Only in a slot with history.
    pub same_since: Option<Moment>,
}

impl ReplicaView {
    /// A host that may hold the partition, where no placement is known at all: every server runs every query.
    fn unplaced(host: HostIndex) -> Self {
        ReplicaView {
            host,
            role: Role::Unplaced,
            agreed: false,
            position: None,
            reported: None,
            keeps_up: false,
            heir: false,
            settled: true,
            reliable: true,
            awake: true,
            complete_until: None,
            same_since: None,
        }
    }

    /// How many records it lacked when it reported, against `end`, the largest end of any host.
    pub fn lag(&self, end: Option<i64>) -> Option<u64> {
        let lacking = end?.saturating_sub(self.position?.current);
        Some(u64::try_from(lacking).unwrap_or(0))
    }

    /// Age of its report.
    pub fn age(&self, now: Moment) -> Option<Duration> {
        self.reported.map(|at| now.since(at))
    }

    /// Whether its report is no older than that.
    pub fn has_young_report(&self, now: Moment, max_age: Duration) -> bool {
        self.age(now).is_some_and(|age| age <= max_age)
    }

    /// Whether it is the *caught-up active*: nobody can be ahead of it.
    pub fn is_caught_up_active(&self) -> bool {
        self.role == Role::Active && self.agreed && self.settled && self.position.is_some_and(|p| p.current >= p.end)
    }
}

impl ClusterView {
    /// The replicas of a partition, and how far its changelog reaches.
    pub fn slot(&self, table: &TableInfo, partition: Partition) -> SlotView {
        let (query_id, place) = (table.query_id.as_str(), partition as usize);
        let agreement = agree(&self.told.placements, query_id, place);
        let epoch = match self.told.epochs.is_empty() {
            true => None,
            false => self.told.epochs.get(&(query_id.into(), partition)).copied(),
        };
        let mut slot = SlotView { epoch, ..SlotView::default() };
        for (index, (host, reports)) in (0..).zip(self.hosts.iter().zip(&self.told.reports)) {
            // what was reported of an earlier changelog says nothing
            let newest = reports.newest().filter(|report| epoch.is_none_or(|epoch| report.seen >= epoch));
            let position = newest.and_then(|report| report.position(query_id, place));
            let role = agreement.claims.and_then(|claims| claims.role(&host.name));
            if role.is_none() && position.is_none() {
                continue;
            }
            let settled = reports.is_settled(query_id, partition);
            let earlier = reports.previous().and_then(|report| report.position(query_id, place));
            let replica = ReplicaView {
                host: index,
                role: role.unwrap_or(Role::Unplaced),
                agreed: role == Some(Role::Active) && agreement.active_agreed,
                position,
                reported: position.and(newest).map(|report| report.seen),
                keeps_up: position.is_some_and(|now| now.current >= earlier.map_or(now.end, |earlier| earlier.end)),
                heir: role == Some(Role::Active) && reports.is_heir(query_id, partition),
                settled,
                // the first report after a pause may be that of an active that has yet to learn that it is none
                reliable: reports.is_renewed(query_id, partition)
                    && (settled || role != Some(Role::Active))
                    && !self.is_zombie(&host.name, role, &agreement, query_id, place),
                awake: reports.is_awake(),
                complete_until: None,
                same_since: None,
            };
            // of a host that has died since, too: the log once reached that far
            if replica.has_young_report(self.made, self.max_report_age)
                && let Some(position) = position
            {
                slot.end = slot.end.max(Some(position.end));
                slot.interval_writes = slot.interval_writes.max(earlier.map_or(0, |e| position.end - e.end));
            }
            slot.replicas.push(replica);
        }
        if slot.replicas.is_empty() {
            // every server runs every query: one of them has it, or will in a moment
            slot.replicas.extend((0..self.hosts.len()).map(|index| ReplicaView::unplaced(index as HostIndex)));
        }
        slot
    }

    /// Whether a host takes itself for the active of a slot, or is taken for it, without being the one that is believed.
    fn is_zombie(
        &self,
        host: &HostName,
        role: Option<Role>,
        agreement: &Agreement<'_>,
        query_id: &str,
        place: usize,
    ) -> bool {
        let own = self.told.placements.iter().find(|placement| placement.asked == *host);
        let claims = own.and_then(|own| own.claims(query_id, place)?.role(host));
        let active = role == Some(Role::Active);
        (active || claims == Some(Role::Active)) && !(active && agreement.active_agreed)
    }

    /// How many hosts could answer a read of a slot now within a bound: with fewer than two, losing one may leave none.
    ///
    /// Without a bound one report interval of writes is the bound: what a healthy standby lacks.
    pub fn servable(&self, slot: &SlotView, bound: Option<u64>) -> usize {
        slot.replicas.iter().filter(|replica| self.is_servable(slot, replica, bound)).count()
    }

    /// Whether a replica counts among these.
    pub fn is_servable(&self, slot: &SlotView, replica: &ReplicaView, bound: Option<u64>) -> bool {
        let most = bound.unwrap_or(0).max(u64::try_from(slot.interval_writes).unwrap_or(0));
        let live = self.host(replica.host).is_some_and(|host| host.state == HostState::Live);
        let role = replica.role != Role::Standby || self.standby_reads != Some(false);
        let young = replica.has_young_report(self.made, self.max_report_age);
        live && role && young && replica.reliable && replica.lag(slot.end).is_some_and(|lag| lag <= most)
    }

    /// Every partition of a table.
    pub fn slots<'a>(&'a self, table: &'a TableInfo) -> impl Iterator<Item = SlotView> + 'a {
        (0..table.partitions.get()).map(|partition| self.slot(table, partition))
    }
}
