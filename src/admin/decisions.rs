//! `GET /decisions`: where the last queries went, and why.

use super::millis;
use crate::telemetry::{Considered, Decision, Kept, Recent};
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;

/// Which decisions are asked for.
#[derive(Debug, Default)]
struct Filter {
    class: Option<String>,
    outcome: Option<String>,
    host: Option<String>,
    table: Option<String>,
    id: Option<String>,
    limit: Option<usize>,
}

impl Filter {
    /// Reads the query of the request's target.
    fn read(query: &str) -> Result<Self, String> {
        let mut filter = Filter::default();
        let url = reqwest::Url::parse(&format!("http://localhost/?{query}")).map_err(|error| error.to_string())?;
        for (name, value) in url.query_pairs() {
            let value = value.into_owned();
            match &*name {
                "class" => filter.class = Some(value),
                "outcome" => filter.outcome = Some(value),
                "host" => filter.host = Some(value),
                "table" => filter.table = Some(value),
                "id" => filter.id = Some(value),
                "limit" => {
                    let limit = value.parse().map_err(|_| format!("limit is no whole number: {value}"))?;
                    filter.limit = Some(limit);
                }
                other => return Err(format!("expects class, outcome, host, table, id or limit, not {other}")),
            }
        }
        Ok(filter)
    }

    fn wants(&self, decision: &Decision) -> bool {
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| value.is_some_and(|value| wanted.eq_ignore_ascii_case(value)))
        };
        let asked = decision.met.iter().map(|(host, _)| host).chain(&decision.served_by);
        let host = self.host.as_deref().is_none_or(|host| asked.into_iter().any(|asked| host == &**asked));
        host && is(&self.class, decision.class)
            && is(&self.outcome, Some(decision.outcome))
            && is(&self.table, decision.slot.as_ref().map(|(table, _)| &**table))
            && self.id.as_deref().is_none_or(|id| id == &*decision.request_id)
    }
}

/// The decisions that a query asks for, newest first.
///
/// # Errors
/// What is wrong with the query.
pub(super) fn answer(recent: &Recent, query: &str) -> Result<Value, String> {
    let filter = Filter::read(query)?;
    let all = recent.decisions_after(0);
    let wanted = all.iter().filter(|(_, decision)| filter.wants(decision)).take(filter.limit.unwrap_or(usize::MAX));
    let wanted: Vec<Value> = wanted.map(|(number, decision)| one(*number, decision)).collect();
    Ok(json!({"decisions": wanted, "most": recent.most()}))
}

/// One decision.
pub(super) fn one(number: u64, decision: &Decision) -> Value {
    let met = decision.met.iter().map(|(host, what)| json!({"host": **host, "what": what}));
    json!({
        "number": number,
        "atMs": millis(decision.at.duration_since(UNIX_EPOCH).unwrap_or_default()),
        "requestId": decision.request_id,
        "client": decision.client.to_string(),
        "class": decision.class.unwrap_or("none"),
        "table": decision.slot.as_ref().map(|(table, _)| &**table),
        "partition": decision.slot.as_ref().map(|(_, partition)| *partition),
        "reason": decision.why.label,
        "because": decision.why.meaning,
        "bounds": decision.bounds.as_ref().map(bounds),
        "replicas": decision.replicas.iter().map(replica).collect::<Vec<_>>(),
        "met": met.collect::<Vec<_>>(),
        "servedBy": decision.served_by,
        "offsetLag": decision.lag,
        "ageMs": decision.age.map(millis),
        "waitedMs": decision.waited.map(millis),
        "attempts": decision.attempts,
        "status": decision.status,
        "durationMs": decision.duration.as_secs_f64() * 1e3,
        "outcome": decision.outcome,
        "failed": decision.is_failure(),
    })
}

fn bounds(kept: &Kept) -> Value {
    json!({
        "level": kept.level,
        "maxOffsetLag": kept.max_offset_lag,
        "maxStalenessMs": kept.max_staleness.map(millis),
        "token": kept.token,
    })
}

fn replica(considered: &Considered) -> Value {
    json!({
        "host": considered.host,
        "role": considered.role,
        "rejected": considered.rejected,
        "reason": considered.why.label,
        "because": considered.why.meaning,
        "offsetLag": considered.lag,
        "ageMs": considered.age.map(millis),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Why;
    use std::time::Duration;

    fn decision(class: &'static str, table: &str, served_by: &str, outcome: &'static str) -> Decision {
        Decision {
            at: UNIX_EPOCH + Duration::from_millis(1500),
            request_id: format!("{class} {table}").into(),
            client: "127.0.0.1:50000".parse().unwrap(),
            class: Some(class),
            slot: Some((table.into(), 3)),
            why: Why { label: "freshest", meaning: "it is" },
            bounds: None,
            replicas: Vec::new(),
            met: vec![("dead:1".into(), "refused")],
            served_by: Some(served_by.into()),
            lag: None,
            age: None,
            waited: None,
            attempts: 2,
            status: 200,
            duration: Duration::from_micros(1500),
            outcome,
        }
    }

    #[test]
    fn each_filter_leaves_what_it_names() {
        let recent = Recent::new(10);
        recent.note(decision("lookup", "A", "one:1", "ok"), true);
        recent.note(decision("pull", "B", "two:2", "ok"), true);
        recent.note(decision("lookup", "B", "two:2", "exhausted"), true);
        let numbers = |query: &str| {
            let answer = answer(&recent, query).unwrap();
            let list = answer["decisions"].as_array().unwrap().clone();
            list.iter().map(|decision| decision["number"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        let cases: [(&str, &[u64]); 9] = [
            ("", &[3, 2, 1]),
            ("class=lookup", &[3, 1]),
            ("table=b", &[3, 2]),
            ("outcome=exhausted", &[3]),
            ("host=one%3A1", &[1]),
            ("host=dead:1&limit=2", &[3, 2]),
            ("class=lookup&table=A", &[1]),
            ("id=pull%20B", &[2]),
            ("table=C", &[]),
        ];
        for (query, expected) in cases {
            assert_eq!(numbers(query), expected, "{query}");
        }
        for bad in ["limit=many", "colour=red"] {
            assert!(answer(&recent, bad).is_err(), "{bad}");
        }
    }
}
