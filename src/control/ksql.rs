//! What servers answer to `/ksql`, as far as the catalogue needs it.

use super::fetch::{Fetch, FetchError};
use crate::partition::{KeyColumn, SqlType};
use crate::view::{PullLimits, read_bound};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Why `/ksql` told nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KsqlError {
    /// There is no answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// An answer other than 200.
    #[error("status {status}: {message}")]
    #[allow(missing_docs)]
    Status { status: u16, message: String },
    /// An answer that is not what was asked for.
    #[error("an answer of another form: {0}")]
    Form(String),
}

/// A table or stream of `LIST TABLES` or `LIST STREAMS`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    pub name: String,
    #[serde(default)]
    pub topic: String,
    /// Missing before 0.14, where keys were in the KAFKA format.
    #[serde(default)]
    pub key_format: Option<String>,
    #[serde(default)]
    pub is_windowed: bool,
}

/// A query of `SHOW QUERIES EXTENDED`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Query {
    pub id: String,
    #[serde(default)]
    pub window_type: Option<String>,
    #[serde(default)]
    pub fields: Vec<Field>,
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default)]
    pub sinks: Vec<String>,
    #[serde(default)]
    pub statement_text: String,
    #[serde(default)]
    pub topology: String,
    #[serde(default)]
    pub ksql_host_query_status: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Field {
    name: String,
    schema: Schema,
    #[serde(default, rename = "type")]
    role: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Schema {
    #[serde(rename = "type")]
    name: String,
    #[serde(default)]
    fields: Option<Vec<Field>>,
}

impl Query {
    /// The columns of the key, in key order.
    pub fn key_columns(&self) -> Vec<KeyColumn> {
        self.fields.iter().filter(|field| field.role.as_deref() == Some("KEY")).map(Field::column).collect()
    }
}

impl Field {
    fn column(&self) -> KeyColumn {
        let sql_type = match &self.schema.fields {
            Some(fields) if self.schema.name == "STRUCT" => SqlType::Struct(fields.iter().map(Field::column).collect()),
            _ => SqlType::from_name(&self.schema.name),
        };
        KeyColumn { name: self.name.clone(), sql_type }
    }
}

/// Everything that one refresh asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listing {
    pub properties: BTreeMap<String, String>,
    pub tables: Vec<Source>,
    pub streams: Vec<Source>,
    pub queries: Vec<Query>,
    /// The bounds on offset lag that tables were made with, by table.
    pub bounds: BTreeMap<String, u64>,
}

/// Asks statements of one server, for its own view only.
pub(super) async fn ask(
    fetch: &impl Fetch,
    server: &str,
    statements: &str,
    timeout: Duration,
) -> Result<Vec<Value>, KsqlError> {
    send(fetch, server, statements, json!({"request.ksql.internal.request": true}), timeout).await
}

/// The hosts that run queries, by one server that asks all others. It waits for dead ones up to 10 s
/// (`ksql.fetch.remote.hosts.max.timeout.seconds`), so `timeout` should be longer than that.
pub(super) async fn ask_hosts(fetch: &impl Fetch, server: &str, timeout: Duration) -> Result<Vec<String>, KsqlError> {
    let entities = send(fetch, server, "SHOW QUERIES EXTENDED;", json!({}), timeout).await?;
    let queries = Listing::read(entities)?.queries;
    Ok(queries.into_iter().flat_map(|query| query.ksql_host_query_status.into_keys()).collect())
}

async fn send(
    fetch: &impl Fetch,
    server: &str,
    statements: &str,
    properties: Value,
    timeout: Duration,
) -> Result<Vec<Value>, KsqlError> {
    let body = json!({"ksql": statements, "streamsProperties": {}, "requestProperties": properties});
    let answer = fetch.post(&format!("{server}/ksql"), body.to_string(), timeout).await?;
    if answer.status != 200 {
        let message = serde_json::from_slice::<Value>(&answer.body).ok();
        let message = message.and_then(|body| body.get("message")?.as_str().map(str::to_owned)).unwrap_or_default();
        return Err(KsqlError::Status { status: answer.status, message });
    }
    serde_json::from_slice(&answer.body).map_err(|error| KsqlError::Form(error.to_string()))
}

impl Listing {
    pub const STATEMENTS: &str = "LIST PROPERTIES; LIST TABLES; LIST STREAMS; SHOW QUERIES EXTENDED; LIST TYPES;";

    /// Reads the entities of an answer; those of other types are left out.
    pub fn read(entities: Vec<Value>) -> Result<Self, KsqlError> {
        let mut listing = Listing::default();
        for mut entity in entities {
            let kind = entity.get("@type").and_then(Value::as_str).unwrap_or_default().to_owned();
            match kind.as_str() {
                "properties" => listing.properties = properties(&entity),
                "tables" => listing.tables = member(&mut entity, "tables")?,
                "streams" => listing.streams = member(&mut entity, "streams")?,
                "type_list" => listing.bounds = bounds(&entity),
                "query_descriptions" => listing.queries = member(&mut entity, "queryDescriptions")?,
                _ => {}
            }
        }
        Ok(listing)
    }

    /// The server's name in `/clusterStatus`: host and port of its `application.server`.
    pub fn own_name(&self) -> Option<String> {
        own_name(self.properties.get(APPLICATION_SERVER)?)
    }

    /// How often actives log what they have changed.
    pub fn commit_interval(&self) -> Option<Duration> {
        self.properties.get("ksql.streams.commit.interval.ms")?.parse().map(Duration::from_millis).ok()
    }

    /// What the server allows itself of pull queries; it writes "no limit" as the largest number.
    pub fn pull_limits(&self) -> PullLimits {
        let limit = |name: &str| {
            let limit: u64 = self.properties.get(name)?.parse().ok()?;
            (limit < i32::MAX as u64).then_some(limit)
        };
        PullLimits {
            queries_per_second: limit("ksql.query.pull.max.qps"),
            concurrent: limit("ksql.query.pull.max.concurrent.requests"),
        }
    }

    /// Whether standbys answer pull queries.
    pub fn standby_reads(&self) -> Option<bool> {
        self.properties.get("ksql.query.pull.enable.standby.reads")?.parse().ok()
    }
}

const APPLICATION_SERVER: &str = "ksql.streams.application.server";

/// Asks a server for its own name.
pub(super) async fn ask_name(fetch: &impl Fetch, server: &str, timeout: Duration) -> Option<String> {
    let entities = ask(fetch, server, "LIST PROPERTIES;", timeout).await.ok()?;
    Listing::read(entities).ok()?.own_name()
}

fn own_name(application_server: &str) -> Option<String> {
    let authority = application_server.split_once("://").map_or(application_server, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    (!authority.is_empty()).then(|| authority.to_owned())
}

fn properties(entity: &Value) -> BTreeMap<String, String> {
    let list = entity.get("properties").and_then(Value::as_array).cloned().unwrap_or_default();
    let pair = |property: &Value| {
        Some((property.get("name")?.as_str()?.to_owned(), property.get("value")?.as_str()?.to_owned()))
    };
    list.iter().filter_map(pair).collect()
}

/// The settings of tables that are kept as custom types.
fn bounds(entity: &Value) -> BTreeMap<String, u64> {
    let types = entity.get("types").and_then(Value::as_object).into_iter().flatten();
    let one = |(name, schema): (&String, &Value)| {
        let fields = schema.get("fields").and_then(Value::as_array).into_iter().flatten();
        read_bound(name, fields.filter_map(|field| field.get("name")?.as_str()))
    };
    types.filter_map(one).collect()
}

fn member<T: for<'de> Deserialize<'de>>(entity: &mut Value, name: &str) -> Result<Vec<T>, KsqlError> {
    let list = entity.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(list).map_err(|error| KsqlError::Form(format!("{name}: {error}")))
}

/// How many partitions the table's own topic and the input topics of its query have, from `DESCRIBE ... EXTENDED`.
///
/// Internal topics stand here with the application id in front. A topic of which partitions are missing is left out.
pub(super) fn input_partitions(entities: &[Value]) -> BTreeMap<String, u32> {
    let description = entities.iter().find_map(|entity| entity.get("sourceDescription"));
    let summaries = description.and_then(|d| d.get("queryOffsetSummaries")?.as_array()).cloned().unwrap_or_default();
    let topics = summaries.iter().filter_map(|summary| summary.get("topicSummaries")?.as_array()).flatten();
    let count = |topic: &Value| {
        let offsets = topic.get("offsets")?.as_array()?;
        let count = offsets.iter().filter_map(|offset| offset.get("partition")?.as_u64()).max()?.checked_add(1)?;
        let whole = usize::try_from(count) == Ok(offsets.len());
        whole.then_some((topic.get("kafkaTopic")?.as_str()?.to_owned(), u32::try_from(count).ok()?))
    };
    let own = description.and_then(|description| {
        let count = description.get("partitions")?.as_u64().filter(|count| *count > 0)?;
        Some((description.get("topic")?.as_str()?.to_owned(), u32::try_from(count).ok()?))
    });
    own.into_iter().chain(topics.filter_map(count)).collect()
}

/// Where a query is in its input: by topic and partition the start and end of the log, and the committed position.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InputOffsets(BTreeMap<(String, u64), Offsets>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Offsets {
    start: i64,
    end: i64,
    committed: i64,
}

impl InputOffsets {
    /// Reads the answer to `DESCRIBE ... EXTENDED`; `None` unless it tells of each of the topics, which it does only of
    /// those that are no repartition topics: what was read from a source may still wait in one of those.
    pub fn read(entities: &[Value], topics: &[String]) -> Option<Self> {
        let description = entities.iter().find_map(|entity| entity.get("sourceDescription"))?;
        let summaries = description.get("queryOffsetSummaries")?.as_array()?.iter();
        let summaries = summaries.filter_map(|summary| summary.get("topicSummaries")?.as_array()).flatten();
        let mut all = BTreeMap::new();
        for summary in summaries {
            let topic = summary.get("kafkaTopic")?.as_str()?;
            for offset in summary.get("offsets")?.as_array()? {
                let number = |name| offset.get(name).and_then(Value::as_i64);
                let start = number("logStartOffset")?;
                let committed = number("consumerOffset").unwrap_or(start);
                let place = (topic.to_owned(), offset.get("partition")?.as_u64()?);
                all.insert(place, Offsets { start, end: number("logEndOffset")?, committed });
            }
        }
        let tells = |topic: &String| all.keys().any(|(told, _)| told == topic);
        (!topics.is_empty() && topics.iter().all(tells)).then_some(InputOffsets(all))
    }

    /// Whether everything before `ends` has been processed.
    pub fn have_reached(&self, ends: &InputOffsets) -> bool {
        ends.0.iter().all(|(place, then)| {
            let now = self.0.get(place);
            then.end <= then.start || now.is_some_and(|now| now.committed >= then.end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(topic: &str, end: i64, committed: i64) -> Vec<Value> {
        let offsets = json!([
            {"partition": 0, "logStartOffset": 0, "logEndOffset": end, "consumerOffset": committed},
            {"partition": 1, "logStartOffset": 0, "logEndOffset": 0}
        ]);
        let summaries = json!([{"groupId": "g", "topicSummaries": [{"kafkaTopic": topic, "offsets": offsets}]}]);
        vec![json!({"@type": "sourceDescription", "sourceDescription": {"queryOffsetSummaries": summaries}})]
    }

    #[test]
    fn input_is_processed_when_the_committed_position_reaches_the_end_of_then() {
        let topics = ["s".to_owned()];
        let read = |end, committed| InputOffsets::read(&described("s", end, committed), &topics).expect("offsets");
        let then = read(10, 4);
        assert!(!read(20, 9).have_reached(&then));
        assert!(read(20, 10).have_reached(&then));
        assert!(!then.have_reached(&then) && read(7, 7).have_reached(&read(7, 7)));
    }

    #[test]
    fn a_table_behind_a_repartition_topic_tells_nothing() {
        let topics = ["Aggregate-GroupBy-repartition".to_owned()];
        assert_eq!(InputOffsets::read(&described("s", 10, 10), &topics), None);
        assert_eq!(InputOffsets::read(&described("s", 10, 10), &[]), None);
    }
}
