//! Whether a server may be stopped: nobody asks it any more, and others hold what it holds.

use super::{ClusterView, HostIndex, HostName, HostState, Moment};
use crate::partition::Partition;

/// What still speaks against stopping the own server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainView {
    /// Partitions, by table, of which no other live host holds a current replica.
    pub lacking: Vec<(String, Partition)>,
    /// Other servers that are not live now: to stop one more may lose the last replica of what has just been moved.
    pub unfit: Vec<HostName>,
    /// Sidecars that may still choose the own server, or wait for an answer of it.
    pub choosing: Vec<HostName>,
}

impl ClusterView {
    /// What speaks against stopping the own server now; sidecars that said nothing for longer than `silent_since` cannot be
    /// waited for.
    pub fn drained(&self, silent_since: Moment) -> DrainView {
        let Some((own, _)) = self.local() else { return DrainView::default() };
        let others = || self.hosts.iter().filter(|host| !host.local);
        let chooses = |word: super::PeerWord| {
            let told = self.draining.is_some_and(|since| word.at >= since) && word.shuns_ours;
            word.at >= silent_since && !(told && word.in_flight_at_ours == 0)
        };
        DrainView {
            lacking: self.lacking_without(own),
            unfit: others().filter(|host| host.state != HostState::Live).map(|host| host.name.clone()).collect(),
            choosing: others().filter(|host| host.peer.is_some_and(chooses)).map(|host| host.name.clone()).collect(),
        }
    }

    /// The partitions that `host` holds and that no other live host could serve as well as a healthy standby does.
    fn lacking_without(&self, host: HostIndex) -> Vec<(String, Partition)> {
        let mut lacking = Vec::new();
        for table in self.tables.values() {
            for (partition, slot) in (0..).zip(self.slots(table)) {
                let held = slot.replicas.iter().any(|replica| replica.host == host);
                let served =
                    |replica: &&super::ReplicaView| replica.host != host && self.is_servable(&slot, replica, None);
                if held && slot.replicas.iter().find(served).is_none() {
                    lacking.push((table.name.clone(), partition));
                }
            }
        }
        lacking.sort();
        lacking
    }
}
