//! What requests learn about state stores: who answered last, how long it takes, and keys known to exist.

use crate::route::Key;
use crate::view::{ClusterView, HostName, Latency, TableInfo};
use dashmap::DashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Canaries kept for a partition: three are asked at once, one more stands by for one that is deleted.
const CANARIES: usize = 4;

/// The stores that requests have read, by the query that writes them; a table created anew starts anew.
#[derive(Debug, Default)]
pub(super) struct Stores(DashMap<String, Arc<Store>>);

/// One store.
#[derive(Debug)]
pub(super) struct Store {
    latency: Mutex<Latency>,
    slots: Box<[Mutex<Slot>]>,
}

#[derive(Debug, Default)]
struct Slot {
    last_served: Option<HostName>,
    canaries: VecDeque<Key>,
}

impl Stores {
    /// The store of a table of the view, made at its first use, when those of tables that are gone are forgotten.
    pub fn get(&self, table: &TableInfo, view: &ClusterView) -> Arc<Store> {
        let partitions = table.partitions.get() as usize;
        if let Some(store) = self.0.get(&table.query_id).filter(|store| store.slots.len() == partitions) {
            return Arc::clone(&store);
        }
        self.0.retain(|query_id, _| view.tables.values().any(|table| table.query_id == *query_id));
        let slots = (0..partitions).map(|_| Mutex::default()).collect();
        let store = Arc::new(Store { latency: Mutex::default(), slots });
        self.0.insert(table.query_id.clone(), Arc::clone(&store));
        store
    }
}

impl Store {
    /// How long attempts take.
    pub fn latency(&self) -> Latency {
        *self.locked_latency()
    }

    /// Takes in an attempt's time to its first body byte.
    pub fn took(&self, took: Duration) {
        self.locked_latency().record(took);
    }

    /// Who answered for the partition last.
    pub fn last_served(&self, partition: u32) -> Option<HostName> {
        self.slot(partition)?.last_served.clone()
    }

    /// Notes who answered.
    pub fn served(&self, partition: u32, host: &HostName) {
        if let Some(mut slot) = self.slot(partition)
            && slot.last_served.as_ref() != Some(host)
        {
            slot.last_served = Some(Arc::clone(host));
        }
    }

    /// Keys known to exist in the partition, newest first.
    pub fn canaries(&self, partition: u32) -> Vec<Key> {
        self.slot(partition).map(|slot| slot.canaries.iter().cloned().collect()).unwrap_or_default()
    }

    /// Whether more canaries are wanted.
    pub fn wants_canary(&self, partition: u32) -> bool {
        self.slot(partition).is_some_and(|slot| slot.canaries.len() < CANARIES)
    }

    /// Notes a key that exists.
    pub fn exists(&self, partition: u32, key: Key) {
        let Some(mut slot) = self.slot(partition) else { return };
        if !slot.canaries.contains(&key) {
            slot.canaries.truncate(CANARIES - 1);
            slot.canaries.push_front(key);
        }
    }

    /// Forgets a key that was deleted.
    pub fn deleted(&self, partition: u32, key: &Key) {
        if let Some(mut slot) = self.slot(partition) {
            slot.canaries.retain(|canary| canary != key);
        }
    }

    fn slot(&self, partition: u32) -> Option<MutexGuard<'_, Slot>> {
        self.slots.get(partition as usize).map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn locked_latency(&self) -> MutexGuard<'_, Latency> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::test_table;

    #[test]
    fn stores_of_tables_that_are_gone_are_forgotten() {
        let view = |name: &str, query: &str| {
            let table = (name.to_owned(), Arc::new(test_table(name, query, 3)));
            ClusterView { tables: Arc::new([table].into()), ..ClusterView::default() }
        };
        let (stores, old, new) = (Stores::default(), view("T", "CTAS_T_1"), view("T", "CTAS_T_2"));
        let first = stores.get(&old.tables["T"], &old);
        assert!(Arc::ptr_eq(&first, &stores.get(&old.tables["T"], &old)));
        assert!(!Arc::ptr_eq(&first, &stores.get(&new.tables["T"], &new)));
        assert_eq!(stores.0.len(), 1);
    }
}
