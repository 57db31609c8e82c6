//! Who holds a table's partitions, and how far its standbys are.

use super::facts::{PartitionFacts, StandbyFact};
use super::watch::Watch;
use crate::view::{ClusterStatus, HostStatus, Position, TableInfo};

/// The partitions of a table by the newest of two answers to `/clusterStatus`; what standbys lack of what had been logged by
/// the first one is overdue where `watch` has seen enough reports of them since.
pub(super) fn partitions(
    table: &TableInfo,
    first: &ClusterStatus<'_>,
    newest: &ClusterStatus<'_>,
    watch: &Watch,
) -> Vec<PartitionFacts> {
    let mut all = vec![PartitionFacts::default(); table.partitions.get() as usize];
    for (name, host) in &newest.hosts.0 {
        let placed = host.active_standby_per_query.0.iter().filter(|(query, _)| **query == *table.query_id);
        for (_, placement) in placed {
            for held in placement.active_partitions.iter().filter(|held| table.reads(&held.topic)) {
                if let Some(partition) = all.get_mut(held.partition as usize) {
                    partition.active = Some(name.to_string());
                }
            }
            for held in placement.stand_by_partitions.iter().filter(|held| table.reads(&held.topic)) {
                if let Some(partition) = all.get_mut(held.partition as usize)
                    && !partition.standbys.iter().any(|standby| standby.host == **name)
                {
                    let missing = |status| missing_of(host, table, held.partition, status);
                    let judged = watch.judges(name);
                    partition.standbys.push(StandbyFact {
                        host: name.to_string(),
                        lag: missing(newest),
                        overdue: missing(first).filter(|_| judged),
                    });
                }
            }
        }
    }
    all
}

/// Records before the largest end that any host reports in `status` which a host's own newest report lacks.
fn missing_of(host: &HostStatus<'_>, table: &TableInfo, partition: u32, status: &ClusterStatus<'_>) -> Option<u64> {
    let ends = status.hosts.0.iter().filter_map(|(_, host)| Some(position(host, table, partition)?.end));
    let missing = ends.max()?.saturating_sub(position(host, table, partition)?.current);
    Some(u64::try_from(missing).unwrap_or_default())
}

fn position(host: &HostStatus<'_>, table: &TableInfo, partition: u32) -> Option<Position> {
    let stores = &host.host_store_lags.state_store_lags.0;
    let (_, store) = stores.iter().find(|(key, _)| table.owns_store_key(key))?;
    let number = partition.to_string();
    store.lag_by_partition.0.iter().find(|(name, _)| **name == *number).map(|(_, position)| *position)
}
