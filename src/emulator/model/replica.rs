//! One host's copy of one partition of a store.

use super::log::{Key, Row, Slot, apply};
use crate::emulator::catalogue::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Active or standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Role {
    Active,
    Standby,
}

/// How far a replica has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Assigned, its store not opened: no lag entry, cannot be read.
    Created { until: Duration, restored: Duration },
    /// Reading the changelog from `position`; can be read, and is stale.
    Restoring { position: usize, since: Duration, until: Duration },
    /// Up to date as far as its role lets it.
    Running,
}

/// A key with its new row, or none.
pub type Changed = (Arc<Key>, Option<Row>);

/// A store with where it stands.
#[derive(Debug)]
pub struct Replica {
    /// Its role.
    pub role: Role,
    /// Its stage.
    pub stage: Stage,
    /// Changelog records applied.
    pub position: usize,
    /// The store cannot be read from the first to the second.
    pub unreadable: (Duration, Duration),
    store: BTreeMap<Box<[u8]>, (Arc<Key>, Row)>,
    processed: usize,
    dirty: BTreeMap<Box<[u8]>, Arc<Key>>,
}

impl Replica {
    /// A replica in that stage whose store holds the first `position` records of the changelog.
    pub fn new(role: Role, stage: Stage, slot: &Slot, position: usize) -> Self {
        let mut replica = Replica {
            role,
            stage,
            position: 0,
            unreadable: (Duration::ZERO, Duration::ZERO),
            store: BTreeMap::new(),
            processed: slot.committed,
            dirty: BTreeMap::new(),
        };
        replica.apply_to(slot, position);
        replica
    }

    /// Changes the role after a rebalance; a promoted standby first restores what it lacks.
    pub fn become_role(&mut self, role: Role, slot: &Slot, now: Duration, restored: Duration) {
        self.role = role;
        if role == Role::Active {
            self.processed = slot.committed;
            self.stage = Stage::Restoring { position: self.position, since: now, until: restored };
        }
    }

    /// Whether the host reports it and the store can be opened at all.
    pub fn exists(&self, now: Duration) -> bool {
        !matches!(self.stage, Stage::Created { until, .. } if now < until)
    }

    /// Whether a read succeeds at `now`.
    pub fn readable(&self, now: Duration) -> bool {
        self.exists(now) && !(self.unreadable.0..self.unreadable.1).contains(&now)
    }

    /// Brings the store to where it is at `now`.
    pub fn advance(&mut self, kind: Kind, slot: &Slot, now: Duration, replication: Duration, processing: Duration) {
        if let Stage::Created { until, restored } = self.stage {
            if now < until {
                return;
            }
            self.stage = Stage::Restoring { position: self.position, since: until, until: restored };
        }
        if let Stage::Restoring { position, since, until } = self.stage {
            let end = slot.changelog.len();
            if now < until {
                let passed =
                    now.saturating_sub(since).as_secs_f64() / until.saturating_sub(since).as_secs_f64().max(1e-9);
                let target = position + (end.saturating_sub(position) as f64 * passed) as usize;
                return self.apply_to(slot, target);
            }
            self.apply_to(slot, end);
            self.stage = Stage::Running;
        }
        match self.role {
            Role::Active => self.process(kind, slot, now, processing),
            Role::Standby => {
                let new = slot.changelog.iter().skip(self.position).take_while(|c| c.at + replication <= now).count();
                self.apply_to(slot, self.position + new);
            }
        }
    }

    /// As [`advance`](Self::advance) of a standby, without what the records say.
    pub fn skip(&mut self, slot: &Slot, now: Duration, replication: Duration) {
        self.position += slot.changelog.iter().skip(self.position).take_while(|c| c.at + replication <= now).count();
    }

    /// Whether it processes input.
    pub fn runs_active(&self) -> bool {
        self.role == Role::Active && self.stage == Stage::Running
    }

    /// Takes the changed rows out for the changelog; what of the input they cover.
    pub fn flush(&mut self) -> (Vec<Changed>, usize) {
        let dirty = std::mem::take(&mut self.dirty);
        let changes = dirty.into_iter().map(|(bytes, key)| (key, self.store.get(&bytes).map(|(_, row)| row.clone())));
        (changes.collect(), self.processed)
    }

    /// The row of a key.
    pub fn get(&self, key: &[u8]) -> Option<&(Arc<Key>, Row)> {
        self.store.get(key)
    }

    /// The rows from a key on, in the order of the keys' bytes.
    pub fn range<'a>(&'a self, from: &'a [u8]) -> impl Iterator<Item = &'a (Arc<Key>, Row)> {
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        self.store.range::<[u8], _>(from).map(|(_, row)| row)
    }

    fn apply_to(&mut self, slot: &Slot, position: usize) {
        let position = position.min(slot.changelog.len());
        for change in slot.changelog.get(self.position..position).unwrap_or_default() {
            match &change.row {
                Some(row) => _ = self.store.insert(change.key.bytes.clone(), (change.key.clone(), row.clone())),
                None => _ = self.store.remove(&change.key.bytes),
            }
        }
        self.position = self.position.max(position);
    }

    fn process(&mut self, kind: Kind, slot: &Slot, now: Duration, processing: Duration) {
        let due = slot.input.iter().skip(self.processed).take_while(|i| i.at + processing <= now);
        for input in due {
            self.processed += 1;
            let before = self.store.get(&input.key.bytes).map(|(_, row)| row);
            match apply(kind, before, input) {
                Some(row) => _ = self.store.insert(input.key.bytes.clone(), (input.key.clone(), row)),
                None => _ = self.store.remove(&input.key.bytes),
            }
            self.dirty.insert(input.key.bytes.clone(), input.key.clone());
        }
    }
}
