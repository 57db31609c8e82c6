//! `GET /overview`: the cluster as the status page and `top` show it.

use super::{Shown, millis};
use crate::telemetry::{Recent, second_of};
use crate::view::{
    ClusterView, HostIndex, HostState, HostView, Moment, PeerSidecar, ReplicaView, Role, SlotView, TableInfo,
};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// What one server holds, added up over all tables.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    active: usize,
    standby: usize,
    lag: Option<u64>,
    age_ms: Option<u64>,
}

/// The cluster of this moment.
pub(super) fn overview(shown: &Shown, now: Moment) -> Value {
    let view = shown.published.load();
    let mut held = vec![Held::default(); view.hosts.len()];
    let mut names: Vec<&String> = view.tables.keys().collect();
    names.sort();
    let tables: Vec<Value> =
        names.iter().filter_map(|name| Some(table(view.tables.get(*name)?, shown, &view, &mut held, now))).collect();
    let sidecars = shown.published.sidecars();
    let servers = view.hosts.iter().zip(held).map(|(host, held)| server(host, held, &sidecars, now));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "stopping": shown.stopping.load(Ordering::Relaxed),
        "viewAgeMs": millis(now.since(view.made)),
        "catalogueKnown": view.catalogue_known,
        "lagReporting": view.lag_reporting,
        "advice": view.advice(),
        "servers": servers.collect::<Vec<_>>(),
        "tables": tables,
        "passedThrough": view.passed_through,
    })
}

/// The sums of the last minutes, from that second on, and the second of now.
pub(super) fn traffic(recent: &Recent, from: u64) -> Map<String, Value> {
    let seconds = recent.seconds_from(from).into_iter().map(|second| {
        json!({
            "at": second.at,
            "requests": second.requests,
            "failed": second.failed,
            "again": second.again,
            "slowestMs": second.slowest.as_secs_f64() * 1e3,
            "offsetLag": second.lag,
            "ageMs": millis(second.age),
        })
    });
    let mut object = Map::new();
    object.insert("second".to_owned(), second_of(SystemTime::now()).into());
    object.insert("seconds".to_owned(), seconds.collect());
    object
}

fn server(host: &HostView, held: Held, sidecars: &[PeerSidecar], now: Moment) -> Value {
    let beside = sidecars.iter().find(|sidecar| sidecar.server == host.name);
    let sidecar = match beside {
        _ if host.local => json!({"state": "this"}),
        Some(PeerSidecar { heard: false, url, .. }) => json!({"state": "unseen", "url": **url}),
        Some(PeerSidecar { url, answers, since, .. }) => json!({
            "state": if *answers { "answers" } else { "silent" },
            "sinceMs": millis(now.since(*since)),
            "url": **url,
        }),
        None => json!({"state": "unknown"}),
    };
    json!({
        "name": *host.name,
        "state": host.state.as_str(),
        "sinceMs": millis(now.since(host.since)),
        "local": host.local,
        "version": host.version.map(|version| version.to_string()),
        "sidecar": sidecar,
        "actives": held.active,
        "standbys": held.standby,
        "offsetLag": held.lag,
        "ageMs": held.age_ms,
    })
}

fn table(info: &TableInfo, shown: &Shown, view: &ClusterView, held: &mut [Held], now: Moment) -> Value {
    let bounds = shown.freshness.in_force(&info.name, info.max_offset_lag);
    let bound = bounds.max_offset_lag.map(|(lag, _)| lag);
    let partitions = view.slots(info).map(|slot| {
        for replica in &slot.replicas {
            if let Some(held) = held.get_mut(usize::from(replica.host)) {
                add(held, replica, &slot, now);
            }
        }
        partition(&slot, bound, view, now)
    });
    let partitions: Vec<Value> = partitions.collect();
    json!({"name": info.name, "query": info.query_id, "maxOffsetLag": bound, "partitions": partitions})
}

fn add(held: &mut Held, replica: &ReplicaView, slot: &SlotView, now: Moment) {
    match replica.role {
        Role::Active => held.active += 1,
        Role::Standby => held.standby += 1,
        Role::Unplaced => {}
    }
    held.lag = held.lag.max(replica.lag(slot.end));
    held.age_ms = held.age_ms.max(replica.age(now).map(millis));
}

/// A partition: who is active, how each replica stands, and how many could answer now.
fn partition(slot: &SlotView, bound: Option<u64>, view: &ClusterView, now: Moment) -> Value {
    let active = slot.replicas.iter().find(|replica| replica.role == Role::Active);
    let replicas = slot.replicas.iter().map(|replica| {
        json!({
            "host": replica.host,
            "role": replica.role.as_str(),
            "agreed": replica.role != Role::Active || replica.agreed,
            "stands": stands(slot, replica, bound, view),
            "offsetLag": replica.lag(slot.end),
            "ageMs": replica.age(now).map(millis),
        })
    });
    let replicas: Vec<Value> = replicas.collect();
    let active: Option<HostIndex> = active.map(|replica| replica.host);
    json!({"active": active, "ready": view.servable(slot, bound), "replicas": replicas})
}

/// How a replica stands, in one word.
fn stands(slot: &SlotView, replica: &ReplicaView, bound: Option<u64>, view: &ClusterView) -> &'static str {
    let live = view.host(replica.host).is_some_and(|host| host.state == HostState::Live);
    match replica.lag(slot.end) {
        _ if !live => "down",
        _ if view.is_servable(slot, replica, bound) => "current",
        Some(_) if replica.reliable && replica.has_young_report(view.made, view.max_report_age) => "behind",
        _ => "unknown",
    }
}
