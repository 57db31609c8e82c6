//! What is believed, as gauges.

use super::Keeper;
use crate::telemetry::{HostMetrics, SlotMetrics};
use crate::view::{ClusterView, HostState, Role};
use std::sync::Arc;
use std::time::Duration;

impl Keeper {
    /// Sets the gauges of lags, which takes a look at every slot.
    pub(super) fn measure_lags(&mut self) {
        let (view, now) = (self.published.load(), self.clock.now());
        let mut largest: Vec<Option<(u64, Duration)>> = vec![None; view.hosts.len()];
        let partitions = |table: &str| view.tables.get(table).map(|table| table.partitions.get() as usize);
        self.slots.retain(|table, slots| partitions(table) == Some(slots.len()));
        let metrics = &self.metrics;
        for table in view.tables.values() {
            let slots = self.slots.entry(table.name.clone()).or_insert_with(|| {
                (0..table.partitions.get()).map(|partition| SlotMetrics::new(metrics, &table.name, partition)).collect()
            });
            for (slot, measured) in view.slots(table).zip(slots) {
                for replica in &slot.replicas {
                    let (Some(lag), Some(age)) = (replica.lag(slot.end), replica.age(now)) else { continue };
                    if let Some(host) = largest.get_mut(usize::from(replica.host)) {
                        let (lag_before, age_before) = host.unwrap_or_default();
                        *host = Some((lag.max(lag_before), age.max(age_before)));
                    }
                }
                let standbys = slot.replicas.iter().filter(|replica| replica.role == Role::Standby);
                let hottest = standbys.filter_map(|standby| standby.lag(slot.end)).min();
                measured.standby_lag.set(hottest.map_or(f64::NAN, gauged));
                let ready = view.servable(
                    &slot,
                    self.freshness.in_force(&table.name, table.max_offset_lag).max_offset_lag.map(|(lag, _)| lag),
                ) > 1;
                measured.failover_ready.set(f64::from(u8::from(ready)));
            }
        }
        for (host, largest) in view.hosts.iter().zip(largest) {
            let Some(measured) = self.hosts.get(&host.name) else { continue };
            let known = largest.filter(|_| host.state == HostState::Live);
            measured.lag.set(known.map_or(f64::NAN, |(lag, _)| gauged(lag)));
            measured.report_age.set(known.map_or(f64::NAN, |(_, age)| age.as_secs_f64()));
        }
    }

    /// Sets the gauges of servers and of what they are capable of.
    pub(super) fn measure(&mut self, view: &ClusterView) {
        self.hosts.retain(|name, _| view.hosts.iter().any(|host| host.name == *name));
        for host in &view.hosts {
            let metrics = &self.metrics;
            let measured =
                self.hosts.entry(Arc::clone(&host.name)).or_insert_with(|| HostMetrics::new(metrics, &host.name));
            measured.set_state(host.state.as_str());
            measured.alive.set(f64::from(u8::from(host.state == HostState::Live)));
        }
        let capability = |name, on: bool| self.metrics.server_capability.with([name]).set(i64::from(on));
        capability("heartbeats", self.heartbeats == Some(true));
        capability("lag_reporting", view.lag_reporting);
        capability("standby_reads", view.standby_reads == Some(true));
        for state in HostState::ALL {
            let peers = view.hosts.iter().filter(|host| !host.local && host.state == state).count();
            self.metrics.peers.with([state.as_str()]).set(i64::try_from(peers).unwrap_or(i64::MAX));
        }
        let unroutable = i64::try_from(self.evidence.unroutable().len()).unwrap_or(i64::MAX);
        self.metrics.unroutable_hosts.set(unroutable);
    }
}

/// Records as a gauge has them: gauges are doubles, and 2^53 records are beyond any log.
fn gauged(records: u64) -> f64 {
    records as f64
}
