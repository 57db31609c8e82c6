//! `GET /tables`: every routable table with the replicas of its partitions, and every other one with the reason.

use super::explain::{bounds_json, replica_numbers};
use crate::config::Freshness;
use crate::partition::Partition;
use crate::view::{ClusterView, Moment, TableInfo};
use serde_json::{Map, Value, json};

/// The tables as JSON.
pub(super) fn tables(view: &ClusterView, config: &Freshness, now: Moment) -> Value {
    let routed: Map<String, Value> =
        view.tables.iter().map(|(name, table)| (name.clone(), one(table, view, config, now))).collect();
    json!({"tables": routed, "passedThrough": view.passed_through})
}

fn one(info: &TableInfo, view: &ClusterView, config: &Freshness, now: Moment) -> Value {
    let bounds = config.in_force(&info.name, info.max_offset_lag);
    let bound = bounds.max_offset_lag.map(|(lag, _)| lag);
    let columns: Vec<&str> = info.key.columns.iter().map(|column| column.name.as_str()).collect();
    json!({
        "query": info.query_id,
        "store": info.store,
        "sourceTopics": info.source_topics,
        "key": columns,
        "windowed": info.windowed,
        "bounds": bounds_json(&bounds),
        "partitions": (0..info.partitions.get()).map(|p| partition(info, p, bound, view, now)).collect::<Vec<_>>(),
    })
}

/// A partition: its replicas, how soon those that are behind will have caught up, and whether losing a host would hurt.
fn partition(info: &TableInfo, partition: Partition, bound: Option<u64>, view: &ClusterView, now: Moment) -> Value {
    let slot = view.slot_with_history(info, partition);
    let replicas = slot.replicas.iter().filter_map(|replica| {
        let mut numbers = replica_numbers(replica, slot.end, now);
        numbers.insert("host".to_owned(), (*view.host(replica.host)?.name).into());
        numbers.insert("caughtUpActive".to_owned(), replica.is_caught_up_active().into());
        let rate = view.catch_up_rate(replica.host, info, partition);
        numbers.insert("catchUpPerSecond".to_owned(), rate.into());
        let missing = replica.lag(slot.end).map(|lag| lag as f64);
        numbers.insert("caughtUpInSeconds".to_owned(), missing.zip(rate).map(|(missing, rate)| missing / rate).into());
        Some(Value::Object(numbers))
    });
    let replicas: Vec<Value> = replicas.collect();
    json!({"replicas": replicas, "failoverReady": view.servable(&slot, bound) > 1})
}
