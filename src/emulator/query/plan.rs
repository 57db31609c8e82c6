//! Analysis: sources, columns, types, keys.

use super::Refusal;
use crate::emulator::catalogue::Source;
use crate::emulator::config::Version;
use crate::emulator::datum::Datum;
use crate::emulator::key::{Column, partition, serialize};
use crate::emulator::model::{Model, Row, State};
use crate::emulator::statement::{Expression, Select};

/// Where a selected value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Field {
    Key(usize),
    V,
    C,
    WindowStart,
    WindowEnd,
}

/// Columns with whether they belong to the key.
pub type Columns = Vec<(Column, bool)>;

/// A query that passed analysis.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The index of the persistent query.
    pub query: usize,
    /// The selected columns.
    pub columns: Vec<(Column, bool)>,
    /// Where each comes from.
    pub fields: Vec<Field>,
    /// The filter, its literals typed.
    pub filter: Option<Expression>,
    /// The names of the key's columns, for the filter.
    pub key_names: Vec<String>,
    /// Serialised key, its partition, and its text for error messages; `None` for ranges and scans.
    pub keys: Option<Vec<(Vec<u8>, u32, String)>>,
    /// Whether the native router sends it to one partition only.
    pub single: bool,
    /// Where a range scan starts.
    pub from: Vec<u8>,
    /// The limit.
    pub limit: usize,
    /// Whether the table is windowed.
    pub windowed: bool,
}

/// `SELECT` list and field of a column.
pub fn field(source: &Source, name: &str) -> Option<Field> {
    if let Some(i) = source.key.iter().position(|c| c.name == name) {
        return Some(Field::Key(i));
    }
    match name {
        "WINDOWSTART" if source.window_type.is_some() => Some(Field::WindowStart),
        "WINDOWEND" if source.window_type.is_some() => Some(Field::WindowEnd),
        "V" if source.columns.iter().any(|(c, _)| c.name == "V") => Some(Field::V),
        "C" if source.columns.iter().any(|(c, _)| c.name == "C") => Some(Field::C),
        _ => None,
    }
}

/// The value of a field; windows are given one at a time.
pub fn value(field: Field, key: &[Datum], row: &Row, window: Option<(i64, i64)>) -> Datum {
    match (field, window) {
        (Field::Key(i), _) => key.get(i).cloned().unwrap_or(Datum::Null),
        (Field::V, _) => row.v.map_or(Datum::Null, Datum::Int),
        (Field::C, Some((_, count))) => Datum::Int(count),
        (Field::C, None) => Datum::Int(row.c),
        (Field::WindowStart, Some((start, _))) => Datum::Int(start),
        (Field::WindowEnd, Some((start, _))) => Datum::Int(start + crate::emulator::model::WINDOW_MS),
        _ => Datum::Null,
    }
}

impl Model {
    pub(super) fn plan(&self, server: usize, select: &Select, text: &str) -> Result<Planned, Refusal> {
        let host = self.hosts.get(server).ok_or(Refusal::NotReady)?;
        match host.state {
            State::Starting => return Err(Refusal::NotReady),
            State::WorkersClosed => return Err(Refusal::WorkersClosed),
            _ => {}
        }
        let unknown =
            || Refusal::Prepare(format!("Exception while preparing statement: {} does not exist.", select.from));
        let source = self.catalogue.source(&select.from).ok_or_else(unknown)?;
        let (columns, fields) = columns(source, select)?;
        let filter = select.filter.clone().map(|f| typed(source, f, text)).transpose()?;
        let gone = host.state == State::NotQueryable;
        let query =
            self.catalogue.query_of(&source.name).filter(|_| !gone).ok_or_else(|| not_queryable(&source.name))?;
        if host.state == State::PendingShutdown {
            let stopped = self.config.version == Version::V8_0_1 && self.now().as_millis().is_multiple_of(2);
            let state = if stopped { "NOT_RUNNING" } else { "PENDING_SHUTDOWN" };
            return Err(Refusal::Locate(format!("KafkaStreams is not running. State is {state}.")));
        }
        let key_names: Vec<String> = source.key.iter().map(|c| c.name.clone()).collect();
        let names: Vec<&str> = key_names.iter().map(String::as_str).collect();
        let keys = filter.as_ref().and_then(|f| f.keys(&names)).map(|keys| self.keys(source, keys));
        let bound = filter.as_ref().zip(names.first()).and_then(|(f, name)| f.lower_bound(name));
        let text_key = matches!(bound, Some(Datum::String(_))) && source.key.len() == 1 && source.window_type.is_none();
        let from = bound.filter(|_| text_key).map(|b| serialize(source.format(), &source.key, std::slice::from_ref(b)));
        let single = names.len() == 1 && keys.as_ref().is_some_and(|k| k.len() == 1);
        Ok(Planned {
            query,
            columns,
            fields,
            filter,
            key_names,
            keys,
            single,
            from: from.unwrap_or_default(),
            limit: select.limit.unwrap_or(usize::MAX),
            windowed: source.window_type.is_some(),
        })
    }

    /// The keys in hash order, the order in which they are looked up.
    fn keys(&self, source: &Source, keys: Vec<Vec<Datum>>) -> Vec<(Vec<u8>, u32, String)> {
        let describe = |key: &[Datum]| {
            let parts: Vec<String> = key.iter().map(sql_text).collect();
            format!("[{}]", parts.join(", "))
        };
        let located = |key: Vec<Datum>| {
            let bytes = serialize(source.format(), &source.key, &key);
            let partition = partition(&bytes, self.config.partitions);
            (bytes, partition, describe(&key))
        };
        let mut keys: Vec<_> = keys.into_iter().map(located).collect();
        if keys.len() > 1 {
            keys.sort_by_key(|(bytes, _, _)| partition(bytes, u32::MAX));
        }
        keys
    }
}

pub(super) fn columns(source: &Source, select: &Select) -> Result<(Columns, Vec<Field>), Refusal> {
    if select.columns.is_empty() {
        let fields = source.columns.iter().filter_map(|(c, _)| field(source, &c.name)).collect();
        return Ok((source.columns.clone(), fields));
    }
    let mut out = (Vec::new(), Vec::new());
    for (name, at) in &select.columns {
        let unknown = || Refusal::Plan(format!("Line: 1, Col: {at}: SELECT column '{name}' cannot be resolved."));
        let column = source.columns.iter().find(|(c, _)| c.name == *name).ok_or_else(unknown)?;
        out.1.push(field(source, name).ok_or_else(unknown)?);
        out.0.push(column.clone());
    }
    Ok(out)
}

/// Gives every literal the type of its column.
fn typed(source: &Source, mut filter: Expression, text: &str) -> Result<Expression, Refusal> {
    filter.comparisons(&mut |name, comparison, literal| {
        let unknown = || Refusal::Plan(format!("Line: 1, Col: 1: WHERE column '{name}' cannot be resolved."));
        let (column, _) = source.columns.iter().find(|(c, _)| c.name == name).ok_or_else(unknown)?;
        if *literal == Datum::Null {
            return Err(Refusal::Plan(format!("Primary key columns can not be NULL: ({name} {} null)", comparison.symbol())));
        }
        let refused = || {
            let shown = sql_text(literal);
            let echo = format!("Statement: ({name} {} {shown})", comparison.symbol());
            let (column, ty, with) = (column.ty.sql(), literal.sql_type(), comparison.name());
            Refusal::Plan(format!(
                "Error in WHERE expression: Cannot compare {name} ({column}) to {shown} ({ty}) with {with}.\n{echo}\n{echo}\nStatement: {text}"
            ))
        };
        *literal = literal.coerce(&column.ty).ok_or_else(refused)?;
        Ok(())
    })?;
    Ok(filter)
}

fn not_queryable(table: &str) -> Refusal {
    Refusal::Plan(format!(
        "The `{table}` table isn't queryable. To derive a queryable table, you can do 'CREATE TABLE QUERYABLE_{table} AS SELECT * \
         FROM {table}'. See https://cnfl.io/queries for more info.\nAdd EMIT CHANGES if you intended to issue a push query."
    ))
}

fn sql_text(value: &Datum) -> String {
    match value {
        Datum::String(text) => format!("'{}'", text.replace('\'', "''")),
        other => {
            let mut out = String::new();
            other.write_json(&mut out);
            out
        }
    }
}
