//! A pinned lookup of a key that most probably is absent.

use super::facts::PartitionFacts;
use crate::control::{Fetch, Fetched};
use crate::partition::{Partition, SqlType};
use crate::route::key_literals;
use crate::sql::classify;
use crate::view::TableInfo;
use serde_json::{Value, json};
use std::time::Duration;

/// Keys among which one is looked for whose partition lies on a host that can be asked.
const KEYS: u32 = 64;

/// A lookup and the partition of its key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lookup {
    pub statement: String,
    pub partition: Partition,
}

/// Lookups of different absent keys of a table, as a sidecar would route them; none where it would not.
pub(super) fn lookups(table: &TableInfo) -> Vec<Lookup> {
    (0..KEYS).filter_map(|number| lookup(table, number)).collect()
}

fn lookup(table: &TableInfo, number: u32) -> Option<Lookup> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let conditions = table
        .key
        .columns
        .iter()
        .map(|column| Some(format!("{} = {}", quoted(&column.name), literal(&column.sql_type, number)?)));
    let conditions = conditions.collect::<Option<Vec<_>>>()?.join(" AND ");
    let first = quoted(&table.key.columns.first()?.name);
    let statement = format!("SELECT {first} FROM {} WHERE {conditions};", quoted(&table.name));
    let partition = partition_of(&statement, table)?;
    Some(Lookup { statement, partition })
}

/// The partition that a sidecar computes; `None` where it would not route the statement.
fn partition_of(statement: &str, table: &TableInfo) -> Option<Partition> {
    let classified = classify(statement);
    let literals = key_literals(&classified, table).ok()?;
    table.key.partition(&literals, table.partitions).ok()
}

/// A value that hardly any key has.
fn literal(sql_type: &SqlType, number: u32) -> Option<String> {
    match sql_type {
        SqlType::String => Some(format!("'ksqldb-sidecar-doctor-{number}'")),
        SqlType::Integer | SqlType::Bigint => Some(format!("-{}", 1_987_654_321 + number)),
        SqlType::Double => Some(format!("-{}.5", 1_987_654_321 + number)),
        SqlType::Boolean => Some((number % 2 == 1).to_string()),
        SqlType::Bytes => Some(format!("'doctor{number:02}'")), // base64 of six bytes
        SqlType::Struct(_) | SqlType::Other => None,
    }
}

/// The lookup whose partition has the most replicas on hosts that can be asked.
pub(super) fn choose<'l>(
    lookups: &'l [Lookup],
    placement: &[PartitionFacts],
    can_ask: impl Fn(&str) -> bool,
) -> Option<&'l Lookup> {
    let askable = |lookup: &&Lookup| {
        let partition = placement.get(lookup.partition as usize);
        partition.map_or(0, |partition| replicas(partition).filter(|(host, _)| can_ask(host)).count())
    };
    // the last of several equals, so turned round for the first
    lookups.iter().rev().max_by_key(askable)
}

/// The hosts of a partition; true for that of the active.
pub(super) fn replicas(partition: &PartitionFacts) -> impl Iterator<Item = (&str, bool)> {
    let standbys = partition.standbys.iter().map(|standby| (standby.host.as_str(), false));
    partition.active.as_deref().map(|host| (host, true)).into_iter().chain(standbys)
}

/// Asks a server for the lookup, pinned, and tells the server's clock too, epoch milliseconds, where the answer has it.
pub(super) async fn ask(
    fetch: &impl Fetch,
    url: &str,
    lookup: &Lookup,
    timeout: Duration,
) -> (Option<String>, Option<i64>) {
    let body = json!({
        "ksql": lookup.statement,
        "streamsProperties": {},
        "requestProperties": {
            "request.ksql.query.pull.skip.forwarding": true,
            "request.ksql.query.pull.partition": lookup.partition.to_string(),
        }
    });
    match fetch.post(&format!("{url}/query"), body.to_string(), timeout).await {
        Err(error) => (Some(error.to_string()), None),
        Ok(answer) => (refusal(&answer), clock(&answer)),
    }
}

/// What a server said in place of an answer; an error row counts, as the store was not read.
fn refusal(answer: &Fetched) -> Option<String> {
    let objects = objects(&answer.body);
    let message = |object: &Value| {
        let error = object.get("errorMessage").unwrap_or(object);
        Some(error.get("message")?.as_str()?.to_owned())
    };
    let told = objects.iter().find_map(message);
    match (answer.status, told) {
        (200, None) if objects.iter().any(|object| header(object).is_some()) => None,
        (200, None) => Some("an answer without a header".to_owned()),
        (_, Some(message)) => Some(message.lines().next().unwrap_or_default().to_owned()),
        (status, None) => Some(format!("status {status}")),
    }
}

/// The time in a pull query's id, `query_<epoch milliseconds>`.
fn clock(answer: &Fetched) -> Option<i64> {
    objects(&answer.body).iter().find_map(header)?.strip_prefix("query_")?.parse().ok()
}

fn header(object: &Value) -> Option<&str> {
    object.get("header").unwrap_or(object).get("queryId")?.as_str()
}

/// The objects of a body: members of an array, or one a line.
fn objects(body: &[u8]) -> Vec<Value> {
    let whole = serde_json::from_slice::<Vec<Value>>(body);
    let lines = || body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    whole.unwrap_or_else(|_| lines())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::{KeyColumn, KeyFormat, Partitions};
    use crate::view::test_table;

    fn answer(status: u16, body: &'static str) -> Fetched {
        Fetched { status, body: body.into() }
    }

    #[test]
    fn every_type_of_key_that_is_routed_has_lookups_and_others_have_none() {
        let of = |sql_type: SqlType| {
            let mut table = test_table("t`1", "CTAS_t1_1", 6);
            if sql_type == SqlType::Boolean {
                table.key.format = KeyFormat::Json; // KAFKA has none
            }
            table.key.columns = vec![KeyColumn { name: "My key".into(), sql_type }];
            lookups(&table)
        };
        let types =
            [SqlType::String, SqlType::Integer, SqlType::Bigint, SqlType::Double, SqlType::Boolean, SqlType::Bytes];
        for sql_type in types {
            assert_eq!(of(sql_type.clone()).len(), KEYS as usize, "{sql_type:?}");
        }
        assert_eq!(of(SqlType::Struct(Vec::new())), []);
        assert_eq!(
            of(SqlType::String)[0].statement,
            "SELECT `My key` FROM `t``1` WHERE `My key` = 'ksqldb-sidecar-doctor-0';"
        );
    }

    #[test]
    fn the_lookup_with_the_most_replicas_to_ask_is_chosen() {
        let table = crate::view::TableInfo { partitions: Partitions::new(2).unwrap(), ..test_table("T", "Q", 2) };
        let held = |active: &str, standby: &str| PartitionFacts {
            active: Some(active.to_owned()),
            standbys: vec![super::super::facts::StandbyFact { host: standby.to_owned(), ..Default::default() }],
        };
        let placement = [held("a", "b"), held("a", "c")];
        let lookups = lookups(&table);
        let chosen = |hosts: &[&str]| choose(&lookups, &placement, |host| hosts.contains(&host)).map(|l| l.partition);
        assert_eq!(chosen(&["a", "c"]), Some(1));
        assert_eq!(chosen(&["a", "b"]), Some(0));
        assert_eq!(choose(&[], &placement, |_| true), None);
    }

    #[test]
    fn only_a_whole_answer_is_none_of_a_refusal() {
        let rows = "{\"queryId\":\"query_1796076708804\",\"columnNames\":[\"K\"]}\n";
        assert_eq!((refusal(&answer(200, rows)), clock(&answer(200, rows))), (None, Some(1_796_076_708_804)));
        let array = r#"[{"header":{"queryId":"query_17","schema":"`K` STRING KEY"}}]"#;
        assert_eq!((refusal(&answer(200, array)), clock(&answer(200, array))), (None, Some(17)));
        for (status, body, expected) in [
            (
                400,
                r#"{"@type":"statement_error","message":"Pull queries are disabled. x\ny"}"#,
                "Pull queries are disabled. x",
            ),
            (200, r#"[{"header":{"queryId":"q"}},{"errorMessage":{"message":"no store"}}]"#, "no store"),
            (200, "{\"queryId\":\"q\"}\n{\"@type\":\"generic_error\",\"message\":\"no store\"}", "no store"),
            (503, "", "status 503"),
            (200, "", "an answer without a header"),
        ] {
            assert_eq!(refusal(&answer(status, body)).as_deref(), Some(expected));
        }
    }
}
