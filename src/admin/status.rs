//! `GET /clusterStatus`: the whole view in ksqlDB's shape, with ages and states beside what the servers say.

use super::millis;
use crate::view::{ClusterView, HostIndex, HostState, HostView, Moment, Role, SlotView, TableInfo};
use serde_json::{Map, Value, json};

/// The view as JSON.
pub(super) fn cluster_status(view: &ClusterView, now: Moment) -> Value {
    let hosts: Map<String, Value> =
        (0..).zip(&view.hosts).map(|(index, host)| (host.name.to_string(), one(view, index, host, now))).collect();
    json!({"clusterStatus": hosts, "viewAgeMs": millis(now.since(view.made))})
}

fn one(view: &ClusterView, index: HostIndex, host: &HostView, now: Moment) -> Value {
    let mut placements = Map::new();
    let mut lags = Map::new();
    let mut report_age = None;
    for table in view.tables.values() {
        let slots: Vec<SlotView> = view.slots(table).collect();
        placements.insert(table.query_id.clone(), placement(table, &slots, index));
        let (by_partition, age) = lag_by_partition(&slots, index, now);
        if !by_partition.is_empty() {
            let key = format!("{}#{}", table.query_id, table.store);
            lags.insert(key, json!({"size": by_partition.len(), "lagByPartition": by_partition}));
            report_age = report_age.or(age);
        }
    }
    json!({
        "hostAlive": host.state == HostState::Live,
        "lastStatusUpdateMs": host.incarnation.unwrap_or(0),
        "state": host.state.as_str(),
        "stateAgeMs": millis(now.since(host.since)),
        "local": host.local,
        "version": host.version.map(|version| version.to_string()),
        "activeStandbyPerQuery": placements,
        "hostStoreLags": {"stateStoreLags": lags, "ageMs": report_age},
    })
}

fn placement(table: &TableInfo, slots: &[SlotView], index: HostIndex) -> Value {
    let held = |role: Role| -> Vec<Value> {
        let partitions = slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.replicas.iter().any(|replica| replica.host == index && replica.role == role))
            .map(|(partition, _)| partition);
        let topic = table.source_topics.first().map_or("", String::as_str);
        partitions.map(|partition| json!({"topic": topic, "partition": partition})).collect()
    };
    let (active, standby) = (held(Role::Active), held(Role::Standby));
    let stores = |held: &[Value]| if held.is_empty() { Vec::new() } else { vec![table.store.clone()] };
    json!({
        "activeStores": stores(&active),
        "activePartitions": active,
        "standByStores": stores(&standby),
        "standByPartitions": standby,
    })
}

fn lag_by_partition(slots: &[SlotView], index: HostIndex, now: Moment) -> (Map<String, Value>, Option<u64>) {
    let mut lags = Map::new();
    let mut age = None;
    for (partition, slot) in slots.iter().enumerate() {
        let Some(replica) = slot.replicas.iter().find(|replica| replica.host == index) else { continue };
        let Some(position) = replica.position else { continue };
        age = age.or(replica.age(now).map(millis));
        lags.insert(
            partition.to_string(),
            json!({
                "currentOffsetPosition": position.current,
                "endOffsetPosition": position.end,
                "offsetLag": replica.lag(slot.end),
            }),
        );
    }
    (lags, age)
}
