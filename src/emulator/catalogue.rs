//! What the emulated cluster's metastore holds: the streams, tables and persistent queries of the captured servers.

use super::datum::Type;
use super::key::{Column, Format};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The service id of the emulated cluster, as in the captures.
pub const SERVICE_ID: &str = "oracle_";

/// How a query turns its input into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `COUNT(*) C`.
    Count,
    /// `LATEST_BY_OFFSET(V) V, COUNT(*) C`.
    Latest,
    /// `COUNT(*) C` in tumbling windows of an hour.
    Window,
    /// A table as it is.
    Copy,
    /// `TL` joined with `QSRC`.
    Join,
}

/// A stream or table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub name: String,
    pub kind: String,
    pub topic: String,
    pub key_format: String,
    pub value_format: String,
    pub window_type: Option<String>,
    pub fields: Value,
    pub statement: String,
    pub source_constraints: Vec<String>,
    pub statistics: String,
    /// The columns of the key.
    #[serde(skip)]
    pub key: Vec<Column>,
    /// All columns in the order of `SELECT *`, window bounds included; true for those of the key.
    #[serde(skip)]
    pub columns: Vec<(Column, bool)>,
}

impl Source {
    /// The format of the key.
    pub fn format(&self) -> Format {
        match self.key_format.as_str() {
            "JSON" => Format::Json,
            "DELIMITED" => Format::Delimited,
            _ => Format::Kafka,
        }
    }

    /// True for tables.
    pub fn is_table(&self) -> bool {
        self.kind == "TABLE"
    }

    fn read_fields(&mut self) {
        let fields = self.fields.as_array().map(Vec::as_slice).unwrap_or_default();
        for field in fields {
            let column = Column {
                name: field["name"].as_str().unwrap_or_default().to_owned(),
                ty: Type::from_schema(&field["schema"]),
            };
            let key = field["type"].as_str() == Some("KEY");
            if key {
                self.key.push(column.clone());
            } else if self.window_type.is_some() && self.columns.len() == self.key.len() {
                for bound in ["WINDOWSTART", "WINDOWEND"] {
                    self.columns.push((Column { name: bound.to_owned(), ty: Type::Bigint }, true));
                }
            }
            self.columns.push((column, key));
        }
    }
}

/// A persistent query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    pub id: String,
    /// The table that pull queries name.
    pub table: String,
    pub kind: Kind,
    pub statement: String,
    pub window_type: Option<String>,
    pub fields: Value,
    pub sources: Vec<String>,
    pub sinks: Vec<String>,
    pub topology: String,
    pub execution_plan: String,
    /// Topics that `/clusterStatus` lists for an active.
    pub input_topics: Vec<String>,
    /// Topics that it lists for a standby: those of the sub-topology with the stores.
    pub store_topics: Vec<String>,
    pub stores: Vec<String>,
    /// Which member is active for partition 0.
    pub shift: usize,
}

/// Everything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Catalogue {
    pub sources: Vec<Source>,
    pub queries: Vec<Query>,
    /// The order of queries in `/clusterStatus`.
    pub status_order: Vec<String>,
    /// The order of stores in a lag report.
    pub lag_order: Vec<String>,
    #[serde(skip)]
    by_name: HashMap<String, usize>,
    #[serde(skip)]
    query_of_table: HashMap<String, usize>,
}

impl Catalogue {
    /// Reads the embedded catalogue, cut to `tables` and what they read (all if it is empty), with that many partitions.
    pub fn load(tables: &[String], partitions: u32) -> Result<Self, serde_json::Error> {
        let text = include_str!("catalogue.json").replace("PARTITIONS=6", &format!("PARTITIONS={partitions}"));
        let mut catalogue: Catalogue = serde_json::from_str(&text)?;
        if !tables.is_empty() {
            catalogue.cut(tables);
        }
        catalogue.sources.iter_mut().for_each(Source::read_fields);
        catalogue.by_name = catalogue.sources.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
        catalogue.query_of_table = catalogue.queries.iter().enumerate().map(|(i, q)| (q.table.clone(), i)).collect();
        Ok(catalogue)
    }

    fn cut(&mut self, tables: &[String]) {
        let mut wanted = tables.to_vec();
        let mut next = 0;
        while let Some(name) = wanted.get(next).cloned() {
            next += 1;
            let reads = self.queries.iter().filter(|q| q.table == name).flat_map(|q| q.sources.iter().cloned());
            let reads: Vec<String> = reads.filter(|s| !wanted.contains(s)).collect();
            wanted.extend(reads);
        }
        self.queries.retain(|q| wanted.contains(&q.table));
        self.sources.retain(|s| wanted.contains(&s.name));
        let ids: Vec<String> = self.queries.iter().map(|q| q.id.clone()).collect();
        self.status_order.retain(|id| ids.contains(id));
        self.lag_order.retain(|store| ids.iter().any(|id| store.starts_with(&format!("{id}#"))));
    }

    /// The stream or table of that name.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.by_name.get(name).and_then(|i| self.sources.get(*i))
    }

    /// The index of the query that materialises a table.
    pub fn query_of(&self, table: &str) -> Option<usize> {
        self.query_of_table.get(table).copied()
    }

    /// The indexes of the queries that read a stream or table.
    pub fn readers<'a>(&'a self, source: &'a str) -> impl Iterator<Item = usize> + 'a {
        let reads = move |(_, q): &(usize, &Query)| q.table != source && q.sources.iter().any(|s| s == source);
        self.queries.iter().enumerate().filter(reads).map(|(i, _)| i)
    }
}
