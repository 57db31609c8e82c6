//! `POST /explain`: where a statement would go, and why.

use super::millis;
use crate::config::{Freshness, InForce, Level};
use crate::route::{Located, Options, Plan, Scattered, Traffic, assign, locate, native_order, plan, scattered};
use crate::sql::classify;
use crate::view::{ClusterView, HostIndex, Moment, ReplicaView, SlotView, TableInfo};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What is asked: a bare statement, or the JSON that clients send to `/query` or `/query-stream`.
#[derive(Debug, Default)]
pub(super) struct Question {
    statement: String,
    request: Map<String, Value>,
}

impl Question {
    /// Reads a body.
    ///
    /// # Errors
    /// Says what is expected.
    pub fn read(body: &[u8]) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expects a statement, or JSON with the member ksql or sql, as a query has it";
        let text = std::str::from_utf8(body).map_err(|_| "the statement is not UTF-8")?;
        if !text.trim_start().starts_with('{') {
            return Ok(Question { statement: text.to_owned(), ..Question::default() });
        }
        let request: Map<String, Value> = serde_json::from_str(text).map_err(|_| EXPECTED)?;
        let statement = ["ksql", "sql"].iter().find_map(|name| request.get(*name)?.as_str()).ok_or(EXPECTED)?;
        Ok(Question { statement: statement.to_owned(), request })
    }

    /// A member of the request or of its properties, as text.
    fn member(&self, name: &str) -> Option<String> {
        let properties = ["requestProperties", "streamsProperties", "properties"];
        let inner = properties.iter().filter_map(|properties| self.request.get(*properties)?.as_object());
        let value = std::iter::once(&self.request).chain(inner).find_map(|object| object.get(name))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// What a request with these members would be bound to, but for tokens.
    fn bounds(&self, table: &TableInfo, config: &Freshness) -> (InForce, Level) {
        let mut bounds = config.in_force(&table.name, table.max_offset_lag);
        for name in ["ksql.query.pull.max.allowed.offset.lag", "acceptable.offset.lag"] {
            let given = self.member(name).and_then(|text| text.parse().ok());
            bounds.max_offset_lag = given.map(|lag| (lag, name)).or(bounds.max_offset_lag);
        }
        let name = "acceptable.time.lag";
        let given = self.member(name).and_then(|text| {
            text.parse().map(Duration::from_millis).ok().or_else(|| humantime::parse_duration(&text).ok())
        });
        bounds.max_staleness = given.map(|staleness| (staleness, name)).or(bounds.max_staleness);
        let level = self.member("read.level").and_then(|text| text.parse().ok());
        (bounds, level.unwrap_or(config.level))
    }

    /// Plans the statement on a view, as a request of this moment would be, but for what traffic has learned.
    ///
    /// `scatters` tells whether queries that are no lookups are asked partition by partition.
    pub fn answer(
        &self,
        view: &ClusterView,
        (config, poll, scatters): (&Freshness, Duration, bool),
        now: Moment,
    ) -> Value {
        let statement = classify(&self.statement);
        let class = statement.class.as_str();
        match locate(&statement, view) {
            Err(reason) => {
                let reason = match scattered(&statement, view) {
                    Ok(wanted) if scatters => {
                        let bounds = self.bounds(&wanted.table, config);
                        return explain_parts(class, &wanted, bounds, view, now);
                    }
                    Err(why) if scatters => why,
                    Ok(_) | Err(_) => reason,
                };
                let order = native_order(view, &Traffic::default(), now);
                let hosts: Vec<&str> = order.iter().filter_map(|index| Some(&*view.host(*index)?.name)).collect();
                json!({"class": class, "routed": false, "reason": reason.as_str(), "because": reason.describe(), "servers": hosts})
            }
            Ok(located) => explain(class, &located, self.bounds(&located.table, config), (view, poll), now),
        }
    }
}

fn explain(
    class: &str,
    located: &Located,
    (bounds, level): (InForce, Level),
    (view, poll): (&ClusterView, Duration),
    now: Moment,
) -> Value {
    let slot = view.slot_with_history(&located.table, located.partition);
    let options = options(&bounds, level, now);
    let plan = plan(&slot, &options, view, &Traffic::default(), now);
    let info = &located.table;
    let host = |index| numbers(&slot, view, index, now);
    let candidates: Vec<Value> = plan
        .candidates
        .iter()
        .map(|candidate| {
            let preference = candidate.preference;
            with_reason(host(candidate.host), (preference.as_str(), preference.describe()))
        })
        .collect();
    let rejected: Vec<Value> = plan
        .rejected
        .iter()
        .map(|rejected| {
            let reason = rejected.reason;
            with_reason(host(rejected.candidate.host), (reason.as_str(), reason.describe()))
        })
        .collect();
    json!({
        "class": class,
        "routed": true,
        "table": info.name,
        "partition": located.partition,
        "partitions": info.partitions,
        "query": info.query_id,
        "store": info.store,
        "level": level.as_str(),
        "bounds": bounds_json(&bounds),
        "leastMaxStalenessMs": view.staleness_floor(&slot, poll).map(|(floor, _)| millis(floor)),
        "candidates": candidates,
        "rejected": rejected,
        "thenNative": plan.native,
        "viewAgeMs": millis(now.since(view.made)),
    })
}

/// Which host is asked for which partitions; what has no replica within the bounds is listed apart.
fn explain_parts(
    class: &str,
    wanted: &Scattered,
    (bounds, level): (InForce, Level),
    view: &ClusterView,
    now: Moment,
) -> Value {
    let options = options(&bounds, level, now);
    let plan = |partition: &u32| {
        let slot = view.slot_with_history(&wanted.table, *partition);
        (*partition, plan(&slot, &options, view, &Traffic::default(), now))
    };
    let plans: Vec<(u32, Plan)> = wanted.partitions.iter().map(plan).collect();
    let (groups, without) = assign(&plans, wanted.key_at.is_none(), |candidate| candidate.sees_absence);
    let part = |group: &crate::route::Group| {
        let name = view.host(group.host).map(|host| &*host.name);
        json!({"host": name, "partitions": group.partitions()})
    };
    json!({
        "class": class,
        "routed": true,
        "table": wanted.table.name,
        "parts": groups.iter().map(part).collect::<Vec<_>>(),
        "withoutReplica": without,
        "level": level.as_str(),
        "bounds": bounds_json(&bounds),
        "viewAgeMs": millis(now.since(view.made)),
    })
}

fn options(bounds: &InForce, level: Level, now: Moment) -> Options {
    Options {
        max_offset_lag: bounds.max_offset_lag.map(|(lag, _)| lag),
        complete_until: bounds.max_staleness.map(|(staleness, _)| now.back(staleness)),
        level,
        ..Options::default()
    }
}

fn with_reason(mut host: Map<String, Value>, (reason, because): (&str, &str)) -> Value {
    host.insert("reason".to_owned(), reason.into());
    host.insert("because".to_owned(), because.into());
    Value::Object(host)
}

/// Bounds, each with the place that set it; `null` where there is none.
pub(super) fn bounds_json(bounds: &InForce) -> Value {
    json!({
        "maxOffsetLag": bounds.max_offset_lag.map(|(lag, place)| json!({"records": lag, "from": place})),
        "maxStaleness": bounds.max_staleness.map(|(span, place)| json!({"ms": millis(span), "from": place})),
    })
}

/// A replica's numbers as they stand in the view.
fn numbers(slot: &SlotView, view: &ClusterView, index: HostIndex, now: Moment) -> Map<String, Value> {
    let mut object = Map::new();
    let Some(host) = view.host(index) else { return object };
    object.insert("host".to_owned(), (*host.name).into());
    object.insert("state".to_owned(), host.state.as_str().into());
    if let Some(replica) = slot.replicas.iter().find(|replica| replica.host == index) {
        object.extend(replica_numbers(replica, slot.end, now));
    }
    object
}

/// Role, lag, position and age of a replica.
pub(super) fn replica_numbers(replica: &ReplicaView, end: Option<i64>, now: Moment) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("role".to_owned(), replica.role.as_str().into());
    object.insert("agreed".to_owned(), replica.agreed.into());
    object.insert("settled".to_owned(), replica.settled.into());
    object.insert("currentOffsetPosition".to_owned(), replica.position.map(|p| p.current).into());
    object.insert("endOffsetPosition".to_owned(), replica.position.map(|p| p.end).into());
    object.insert("offsetLag".to_owned(), replica.lag(end).into());
    object.insert("ageMs".to_owned(), replica.age(now).map(millis).into());
    let complete = replica.complete_until.map(|until| millis(now.since(until)));
    object.insert("completeUpToMsAgo".to_owned(), complete.into());
    object
}
