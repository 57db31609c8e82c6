//! The place where `control` puts snapshots and everyone else takes them.

use super::{ClusterView, HostName, Moment};
use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use dashmap::DashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::sync::watch;

/// The current snapshot, and a signal for those who wait for the next.
#[derive(Debug)]
pub struct Published {
    current: ArcSwap<ClusterView>,
    changes: watch::Sender<u64>,
    own: ArcSwapOption<OwnObservation>,
    in_flight: DashMap<HostName, Arc<AtomicU32>>,
}

/// The newest answer of the own server to `/clusterStatus`, for the other sidecars.
#[derive(Clone, Debug)]
pub struct OwnObservation {
    /// The own server's name.
    pub server: Arc<str>,
    /// When the answer arrived.
    pub received: Moment,
    /// How long the exchange took.
    pub took: Duration,
    /// The age of the own server's lag report when the answer arrived, by this machine's clock.
    pub report_age: Option<Duration>,
    /// The body, as it came.
    pub body: Bytes,
}

impl Default for Published {
    fn default() -> Self {
        Published {
            current: ArcSwap::default(),
            changes: watch::Sender::new(0),
            own: ArcSwapOption::empty(),
            in_flight: DashMap::new(),
        }
    }
}

impl Published {
    /// Replaces the snapshot and wakes all who wait for it.
    pub fn publish(&self, view: ClusterView) {
        self.current.store(Arc::new(view));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The current snapshot, kept for as long as the request needs it.
    pub fn load(&self) -> Arc<ClusterView> {
        self.current.load_full()
    }

    /// A receiver that is told of every snapshot published after this call.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The count of requests' attempts under way at a server: requests keep it, heartbeats tell it.
    pub fn in_flight(&self, host: &HostName) -> Arc<AtomicU32> {
        Arc::clone(&self.in_flight.entry(Arc::clone(host)).or_default())
    }

    /// Replaces what the own server said last.
    pub fn publish_own(&self, observation: OwnObservation) {
        self.own.store(Some(Arc::new(observation)));
    }

    /// What the own server said last.
    pub fn own(&self) -> Option<Arc<OwnObservation>> {
        self.own.load_full()
    }
}
