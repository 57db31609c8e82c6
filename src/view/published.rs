//! The place where `control` puts snapshots and everyone else takes them.

use super::{ClusterView, HostName, Moment, PeerSidecar};
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
    sidecars: ArcSwap<Vec<PeerSidecar>>,
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
            sidecars: ArcSwap::default(),
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

    /// Notes whether the sidecar beside a server answers, and wakes those who wait if that has changed. Forgets those of
    /// servers that are no longer known.
    pub fn note_sidecar(&self, server: &HostName, url: &str, answers: bool, now: Moment) {
        let known = self.sidecars.load();
        if known.iter().any(|known| known.server == *server && *known.url == *url && known.answers == answers) {
            return;
        }
        let heard = answers || known.iter().any(|known| known.server == *server && *known.url == *url && known.heard);
        let noted = PeerSidecar { server: HostName::clone(server), url: url.into(), answers, heard, since: now };
        let view = self.load();
        self.sidecars.rcu(|known| {
            let is_known = |other: &&PeerSidecar| view.hosts.iter().any(|host| host.name == other.server);
            let others = known.iter().filter(|other| other.server != *server).filter(is_known);
            others.cloned().chain([noted.clone()]).collect::<Vec<_>>()
        });
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The sidecars beside the other servers, as far as heartbeats have been sent to them.
    pub fn sidecars(&self) -> Arc<Vec<PeerSidecar>> {
        self.sidecars.load_full()
    }

    /// What the own server said last.
    pub fn own(&self) -> Option<Arc<OwnObservation>> {
        self.own.load_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sidecar_is_noted_when_it_changes_and_forgotten_with_its_server() {
        let published = Published::default();
        let (one, other): (HostName, HostName) = ("ksql-1:8088".into(), "ksql-2:8088".into());
        let mut changes = published.changes();
        let note = |server: &HostName, answers, second: u64| {
            published.note_sidecar(server, "http://beside:8090", answers, Moment::from_millis(1000 * second));
        };
        let known = || {
            let all = published.sidecars();
            all.iter().map(|s| (s.server.to_string(), s.answers, s.heard, s.since)).collect::<Vec<_>>()
        };
        note(&one, false, 1);
        let name = one.to_string();
        assert_eq!(known(), [(name.clone(), false, false, Moment::from_millis(1000))], "there may be none");
        note(&one, true, 2);
        note(&one, true, 3);
        assert_eq!(known(), [(name.clone(), true, true, Moment::from_millis(2000))]);
        note(&one, false, 4);
        assert_eq!(known(), [(name, false, true, Moment::from_millis(4000))], "it fell silent");
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        note(&one, false, 5);
        assert!(!changes.has_changed().unwrap(), "nothing new");
        note(&other, true, 6);
        assert_eq!(
            known(),
            [(other.to_string(), true, true, Moment::from_millis(6000))],
            "the view has no such server"
        );
    }
}
