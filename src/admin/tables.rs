//! `GET /tables`: every routable table with the replicas of its partitions, and every other one with the reason.

use super::explain::replica_numbers;
use crate::view::{ClusterView, Moment, SlotView, TableInfo};
use serde_json::{Map, Value, json};

/// The tables as JSON.
pub(super) fn tables(view: &ClusterView, now: Moment) -> Value {
    let routed: Map<String, Value> =
        view.tables.iter().map(|(name, table)| (name.clone(), one(table, view, now))).collect();
    json!({"tables": routed, "passedThrough": view.passed_through})
}

fn one(info: &TableInfo, view: &ClusterView, now: Moment) -> Value {
    let columns: Vec<&str> = info.key.columns.iter().map(|column| column.name.as_str()).collect();
    json!({
        "query": info.query_id,
        "store": info.store,
        "sourceTopics": info.source_topics,
        "key": columns,
        "windowed": info.windowed,
        "partitions": view.slots(info).map(|slot| replicas(&slot, view, now)).collect::<Vec<_>>(),
    })
}

fn replicas(slot: &SlotView, view: &ClusterView, now: Moment) -> Value {
    let replicas = slot.replicas.iter().filter_map(|replica| {
        let mut numbers = replica_numbers(replica, slot.end, now);
        numbers.insert("host".to_owned(), (*view.host(replica.host)?.name).into());
        numbers.insert("caughtUpActive".to_owned(), replica.is_caught_up_active().into());
        Some(Value::Object(numbers))
    });
    replicas.collect()
}
