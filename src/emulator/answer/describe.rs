//! The entities of `DESCRIBE`, `SHOW QUERIES`, `EXPLAIN` and their EXTENDED forms.

use crate::emulator::catalogue::{Query, SERVICE_ID, Source};
use crate::emulator::model::Model;
use serde_json::{Value, json};
use std::fmt::Write;

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// One query as `SHOW QUERIES` and `DESCRIBE` list it; `hosts` is how many run it as far as the server asks.
pub fn running_query(query: &Query, hosts: usize) -> String {
    format!(
        r#"{{"queryString":{},"sinks":{sinks},"sinkKafkaTopics":{sinks},"id":"{}","statusCount":{{"RUNNING":{hosts}}},"queryType":"PERSISTENT","state":"RUNNING"}}"#,
        quoted(&query.statement),
        query.id,
        sinks = json!(query.sinks),
    )
}

/// One query as `SHOW QUERIES EXTENDED` and `EXPLAIN` describe it.
pub fn query_description(model: &Model, server: usize, query: usize, internal: bool) -> String {
    let Some(q) = model.catalogue.queries.get(query) else { return String::new() };
    let asked = |i: &usize| *i == server || (!internal && model.asks(server, *i));
    let status = |i: usize| {
        let host = model.hosts.get(i)?;
        let answers = i == server || (host.talks() && !model.cut(server, i));
        Some(format!(r#""{}":"{}""#, host.name, if answers { "RUNNING" } else { "UNRESPONSIVE" }))
    };
    let hosts: Vec<String> = (0..model.hosts.len()).rev().filter(asked).filter_map(status).collect();
    let task = |p: u32| {
        let (length, committed) = model.input_offsets((query, p));
        let topic = q.store_topics.last().map_or("", String::as_str);
        format!(
            r#"{{"taskId":"0_{p}","topicOffsets":[{{"topicPartitionEntity":{{"topic":"{topic}","partition":{p}}},"endOffset":{},"committedOffset":{committed}}}],"timeCurrentIdlingStarted":null}}"#,
            length as i64 - 1
        )
    };
    let tasks: Vec<u32> = model.tasks(server, query);
    format!(
        r#"{{"id":"{}","statementText":{},"windowType":{},"fields":{},"sources":{},"sinks":{},"topology":{},"executionPlan":{},"overriddenProperties":{{}},"ksqlHostQueryStatus":{{{}}},"queryType":"PERSISTENT","queryErrors":[],"tasksMetadata":{},"consumerGroupId":"_confluent-ksql-{SERVICE_ID}query_{}","state":"RUNNING"}}"#,
        q.id,
        quoted(&q.statement),
        json!(q.window_type),
        q.fields,
        json!(q.sources),
        json!(q.sinks),
        quoted(&q.topology),
        quoted(&q.execution_plan),
        hosts.join(","),
        list(tasks.into_iter().map(task)),
        q.id,
    )
}

/// A stream or table as `DESCRIBE` shows it.
pub fn source_description(model: &Model, server: usize, source: &Source, extended: bool) -> String {
    let serving = model.hosts.get(server).is_some_and(|h| h.placement.is_some());
    let catalogue = &model.catalogue;
    let of_source_table = |q: &&Query| q.table == source.name && q.sinks.is_empty();
    let reads = catalogue.readers(&source.name).filter_map(|i| catalogue.queries.get(i));
    let reads = reads.chain(catalogue.queries.iter().filter(of_source_table)).filter(|_| serving);
    let writes = catalogue.queries.iter().filter(|q| q.sinks.contains(&source.name) && serving);
    let write_query = writes.clone().next();
    let mut out = format!(
        r#"{{"name":"{}","windowType":{},"readQueries":{},"writeQueries":{},"fields":{},"type":"{}","timestamp":"","statistics":{},"errorStats":"","extended":{extended},"keyFormat":"{}","valueFormat":"{}","topic":"{}","partitions":{},"replication":{},"statement":{}"#,
        source.name,
        json!(source.window_type),
        list(reads.map(|q| running_query(q, 1))),
        list(writes.map(|q| running_query(q, 1))),
        source.fields,
        source.kind,
        quoted(if extended { &source.statistics } else { "" }),
        source.key_format,
        source.value_format,
        source.topic,
        if extended { model.config.partitions } else { 0 },
        i32::from(extended),
        quoted(if extended { &source.statement } else { "" }),
    );
    let offsets = write_query.filter(|_| extended).map(|q| offsets(model, q));
    _ = write!(
        out,
        r#","queryOffsetSummaries":{},"sourceConstraints":{},"clusterStatistics":[],"clusterErrorStats":[]}}"#,
        list(offsets),
        json!(source.source_constraints)
    );
    out
}

fn offsets(model: &Model, query: &Query) -> String {
    let index = model.catalogue.query_of(&query.table).unwrap_or_default();
    let partition = |p: u32| {
        let (end, committed) = model.input_offsets((index, p));
        format!(r#"{{"partition":{p},"logStartOffset":0,"logEndOffset":{end},"consumerOffset":{committed}}}"#)
    };
    let topic = |topic: &String| {
        let partitions = list((0..model.config.partitions).map(partition));
        format!(r#"{{"kafkaTopic":"{topic}","offsets":{partitions}}}"#)
    };
    let topics = list(query.input_topics.iter().map(topic));
    format!(r#"{{"groupId":"_confluent-ksql-{SERVICE_ID}query_{}","topicSummaries":{topics}}}"#, query.id)
}
