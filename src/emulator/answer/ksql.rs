//! `/ksql`: the discovery statements, INSERT, and custom types.

use super::describe::{query_description, running_query, source_description};
use super::types::{command, create_type, drop_type, types};
use super::{Answer, error, statement_error};
use crate::emulator::datum::Datum;
use crate::emulator::model::{Model, State};
use crate::emulator::query::Refusal;
use crate::emulator::statement::{Insert, Statement, Token, parse_all};
use serde_json::Value;
use std::time::Duration;

/// Answers a request of any number of statements; they run in order, and the first failure ends it.
pub fn ksql(model: &mut Model, server: usize, text: &str, internal: bool) -> Answer {
    if model.hosts.get(server).is_some_and(|h| h.state == State::Starting) {
        return error::refusal(model.config.version, false, &Refusal::NotReady, text, super::JSON);
    }
    let statements = match parse_all(text) {
        Ok(statements) => statements,
        Err(message) => {
            return error::refusal(model.config.version, false, &Refusal::Parse(message), text, super::JSON);
        }
    };
    let mut entities = Vec::new();
    for (text, statement) in statements {
        match entity(model, server, &text, &statement, internal) {
            Ok(Some(entity)) => entities.push(entity),
            Ok(None) => {}
            Err(message) => {
                let body = statement_error(&message, &text);
                let code = if message == WRONG_ENDPOINT { "40002" } else { "40001" };
                return Answer::json(400, body.replacen("40001", code, 1));
            }
        }
    }
    let mut answer = Answer::json(200, format!("[{}]", entities.join(",")));
    answer.delay = model.hosts.get(server).map_or(Duration::ZERO, |h| h.slow);
    let silent = |i: usize| model.hosts.get(i).is_some_and(|h| h.paused) || model.cut(server, i);
    let fans_out = !internal && FANNED_OUT.iter().any(|word| text.to_uppercase().contains(word));
    if fans_out && (0..model.hosts.len()).any(|i| i != server && model.asks(server, i) && silent(i)) {
        answer.delay += FAN_OUT_TIMEOUT;
    }
    answer
}

/// Statements that ask every server, unless the request says that it comes from one.
const FANNED_OUT: [&str; 2] = ["EXTENDED", "QUERIES"];

/// How long a server waits for the others' parts: `ksql.fetch.remote.hosts.max.timeout.seconds`.
const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(10);

fn entity(
    model: &mut Model,
    server: usize,
    text: &str,
    statement: &Statement,
    internal: bool,
) -> Result<Option<String>, String> {
    match statement {
        Statement::Insert(insert) => insert_values(model, insert).map(|()| None),
        Statement::Select(_) => Err(WRONG_ENDPOINT.to_owned()),
        Statement::Other(tokens) => {
            let words: Vec<&str> = tokens.iter().map(word).collect();
            other(model, server, text, &words, internal).map(Some)
        }
    }
}

const WRONG_ENDPOINT: &str =
    "The following statement types should be issued to the websocket endpoint '/query':\n\t* PRINT\n\t* SELECT";

fn word(token: &Token) -> &str {
    match token {
        Token::Word(word) | Token::Quoted(word) | Token::Text(word) | Token::Number(word) => word,
        Token::Symbol(symbol) => symbol,
    }
}

fn other(model: &mut Model, server: usize, text: &str, words: &[&str], internal: bool) -> Result<String, String> {
    match words {
        ["LIST" | "SHOW", "PROPERTIES"] => Ok(wrap("properties", text, &properties(model, server))),
        ["LIST" | "SHOW", kind @ ("TABLES" | "STREAMS"), rest @ ..] => Ok(sources(model, server, text, kind, rest)),
        ["LIST" | "SHOW", "QUERIES"] => {
            let hosts = model.hosts.iter().filter(|h| h.talks()).count();
            let each = served(model, server).map(|q| running_query(q, if internal { 1 } else { hosts }));
            Ok(wrap("queries", text, &format!(r#""queries":[{}]"#, each.collect::<Vec<_>>().join(","))))
        }
        ["LIST" | "SHOW", "QUERIES", "EXTENDED"] => {
            let count = served(model, server).count();
            let each: Vec<String> = (0..count).map(|q| query_description(model, server, q, internal)).collect();
            Ok(wrap("query_descriptions", text, &format!(r#""queryDescriptions":[{}]"#, each.join(","))))
        }
        ["LIST" | "SHOW", "TYPES"] => Ok(wrap("type_list", text, &types(model))),
        ["DESCRIBE", name, rest @ ..] => {
            let extended = rest.first() == Some(&"EXTENDED");
            let missing = || format!("Could not find STREAM/TABLE '{name}' in the Metastore");
            let source = model.catalogue.source(name).ok_or_else(missing)?;
            let body = source_description(model, server, source, extended);
            Ok(wrap("sourceDescription", text, &format!(r#""sourceDescription":{body}"#)))
        }
        ["EXPLAIN", id] => {
            let query = model.catalogue.queries.iter().position(|q| q.id == *id);
            let query = query.ok_or_else(|| {
                format!("Query with id:{id} does not exist, use SHOW QUERIES to view the full set of queries.")
            })?;
            let body = query_description(model, server, query, internal);
            Ok(wrap("queryDescription", text, &format!(r#""queryDescription":{body}"#)))
        }
        ["CREATE", "TYPE", rest @ ..] => create_type(model, text, rest),
        ["DROP", "TYPE", rest @ ..] => drop_type(model, text, rest),
        ["CREATE", .., "ACCEPTABLE_OFFSET_LAG", "=", _, _] => Err(invalid_variable()),
        ["CREATE", ..] if words.contains(&"ACCEPTABLE_OFFSET_LAG") => Err(invalid_variable()),
        // the same table again, which changes nothing
        ["CREATE", "OR", "REPLACE", "TABLE", name, ..] if model.catalogue.query_of(name).is_some() => {
            let message = format!("Created query with ID CTAS_{name}");
            Ok(command(model, text, &format!("table/`{name}`/create"), &message))
        }
        _ => Err("The emulated cluster does not run this statement".to_owned()),
    }
}

fn invalid_variable() -> String {
    "Failed to prepare statement: Invalid config variable(s) in the WITH clause: ACCEPTABLE_OFFSET_LAG".to_owned()
}

pub(super) fn wrap(kind: &str, text: &str, members: &str) -> String {
    format!(r#"{{"@type":"{kind}","statementText":{},{members},"warnings":[]}}"#, Value::from(text))
}

/// The queries that a server runs: none before its streams run and after they stopped.
fn served(model: &Model, server: usize) -> impl Iterator<Item = &crate::emulator::catalogue::Query> {
    let gone = model.hosts.get(server).is_none_or(|h| h.state == State::NotQueryable);
    model.catalogue.queries.iter().filter(move |_| !gone)
}

fn sources(model: &Model, server: usize, text: &str, kind: &str, rest: &[&str]) -> String {
    let wanted = kind.trim_end_matches('S');
    let all = model.catalogue.sources.iter().filter(|s| s.kind == wanted);
    if rest.first() == Some(&"EXTENDED") {
        let each: Vec<String> = all.map(|s| source_description(model, server, s, true)).collect();
        return wrap("source_descriptions", text, &format!(r#""sourceDescriptions":[{}]"#, each.join(",")));
    }
    let each: Vec<String> = all
        .map(|s| {
            format!(
                r#"{{"type":"{}","name":"{}","topic":"{}","keyFormat":"{}","valueFormat":"{}","isWindowed":{}}}"#,
                s.kind,
                s.name,
                s.topic,
                model.config.key_formats.get(&s.name).unwrap_or(&s.key_format),
                s.value_format,
                s.window_type.is_some()
            )
        })
        .collect();
    let member = kind.to_lowercase();
    wrap(&member, text, &format!(r#""{member}":[{}]"#, each.join(",")))
}

fn properties(model: &Model, server: usize) -> String {
    let config = &model.config;
    let name = model.hosts.get(server).map_or("", |h| h.name.as_str());
    let mut all = vec![
        ("ksql.query.pull.stream.enabled", "true".to_owned(), "SERVER"),
        ("ksql.query.pull.max.allowed.offset.lag", i64::MAX.to_string(), "QUERY"),
        ("ksql.query.pull.max.qps", i32::MAX.to_string(), "SERVER"),
        ("ksql.query.pull.max.concurrent.requests", i32::MAX.to_string(), "SERVER"),
        ("ksql.query.pull.thread.pool.size", "50".to_owned(), "SERVER"),
        ("ksql.query.pull.router.thread.pool.size", "50".to_owned(), "SERVER"),
        ("ksql.service.id", crate::emulator::catalogue::SERVICE_ID.to_owned(), "SERVER"),
        ("ksql.persistent.prefix", "query_".to_owned(), "SERVER"),
        ("ksql.query.pull.forwarding.timeout.ms", config.forwarding_timeout.as_millis().to_string(), "SERVER"),
        ("ksql.streams.commit.interval.ms", config.commit_interval.as_millis().to_string(), "SERVER"),
        ("ksql.query.pull.table.scan.enabled", "true".to_owned(), "QUERY"),
        ("ksql.query.pull.enable.standby.reads", config.standby_reads.to_string(), "SERVER"),
        ("ksql.streams.application.server", format!("http://{name}"), "SERVER"),
    ];
    if config.standbys > 0 {
        all.push(("ksql.streams.num.standby.replicas", config.standbys.to_string(), "SERVER"));
    }
    all.retain(|(name, ..)| !config.settings.contains_key(*name));
    all.extend(config.settings.iter().map(|(name, value)| (name.as_str(), value.clone(), "SERVER")));
    let each: Vec<String> = all
        .into_iter()
        .map(|(name, value, level)| {
            let value = Value::from(value);
            let editable = level == "QUERY" || name == "ksql.streams.commit.interval.ms";
            format!(r#"{{"name":"{name}","scope":"KSQL","value":{value},"editable":{editable},"level":"{level}"}}"#)
        })
        .collect();
    format!(r#""properties":[{}],"overwrittenProperties":[],"defaultProperties":[]"#, each.join(","))
}

fn insert_values(model: &mut Model, insert: &Insert) -> Result<(), String> {
    let missing = || format!("Cannot insert values into an unknown stream/table: `{}`", insert.into);
    let catalogue = model.catalogue.clone();
    let source = catalogue.source(&insert.into).ok_or_else(missing)?;
    let names: Vec<&str> = match insert.columns.is_empty() {
        true => source.columns.iter().map(|(c, _)| c.name.as_str()).collect(),
        false => insert.columns.iter().map(String::as_str).collect(),
    };
    if names.len() != insert.values.len() {
        return Err("Failed to prepare statement: Expected a value for each column".to_owned());
    }
    let given = |name: &str| names.iter().position(|n| *n == name).and_then(|i| insert.values.get(i)).cloned();
    let key: Vec<Datum> = source.key.iter().map(|c| given(&c.name).unwrap_or(Datum::Null)).collect();
    let value = match given("V") {
        Some(Datum::Int(v)) => Some(v),
        _ => None,
    };
    model.write(&insert.into, &key, Some(value)).map(|_| ()).map_err(|e| e.to_string())
}
