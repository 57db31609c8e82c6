//! Random queries that are no lookups, in every form in which they can be asked, and their answers as rows.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::time::Duration;

/// The endpoint, the format and the protocol of one request.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    stream: bool,
    accept: Option<&'static str>,
    http2: bool,
}

const V1: &str = "application/vnd.ksql.v1+json";
const LINES: &str = "application/vnd.ksqlapi.delimited.v1";
const ARRAY: &str = "application/json";

impl Way {
    pub fn plain() -> Way {
        Way { stream: false, accept: Some(V1), http2: false }
    }

    pub fn any(rng: &mut StdRng) -> Way {
        let stream = rng.random_bool(0.5);
        let accept = [None, Some(V1), Some(LINES), Some(ARRAY)][rng.random_range(0..4)];
        Way { stream, accept, http2: rng.random_bool(0.3) }
    }

    pub async fn ask(&self, clients: &Clients, base: &str, sql: &str) -> Result<Vec<String>, String> {
        let (path, body) = match self.stream {
            true => ("/query-stream", json!({"sql": sql, "properties": {}})),
            false => ("/query", json!({"ksql": sql, "streamsProperties": {}})),
        };
        let client = if self.http2 { &clients.http2 } else { &clients.http1 };
        let mut request = client.post(format!("{base}{path}")).body(body.to_string());
        if let Some(accept) = self.accept {
            request = request.header("Accept", accept);
        }
        let response = request.send().await.map_err(|error| format!("no answer: {error:?}"))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| format!("broken off: {error}"))?;
        if status != 200 {
            return Err(format!("{status} {text}"));
        }
        rows(&text).ok_or_else(|| format!("no clean answer: {text}"))
    }
}

pub struct Clients {
    http1: reqwest::Client,
    http2: reqwest::Client,
}

impl Clients {
    pub fn new() -> Clients {
        ksqldb_sidecar::app::install_crypto();
        let builder = || reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30));
        Clients { http1: builder().build().unwrap(), http2: builder().http2_prior_knowledge().build().unwrap() }
    }
}

/// The rows of an answer in any format, sorted; `None` if it is anything but one header, rows and an end.
fn rows(text: &str) -> Option<Vec<String>> {
    let elements: Vec<Value> = match text.starts_with('[') {
        true => serde_json::from_str(text).ok()?,
        false if !text.ends_with('\n') => return None,
        false => text.lines().map(|line| serde_json::from_str(line).ok()).collect::<Option<_>>()?,
    };
    let (header, rest) = elements.split_first()?;
    header.get("header").or_else(|| header.get("queryId"))?;
    let row = |element: &Value| match element {
        Value::Array(_) => Some(element.to_string()),
        other => other.get("row")?.get("columns").map(Value::to_string),
    };
    let mut rows: Vec<String> = rest.iter().map(row).collect::<Option<_>>()?;
    rows.sort();
    Some(rows)
}

/// A query and the same without its limit.
#[derive(Clone, Debug)]
pub struct Question {
    pub sql: String,
    pub unlimited: String,
    pub limit: Option<usize>,
}

/// A table, its columns, and its keys as literals.
type Shape = (&'static str, &'static [&'static str], fn(u32) -> String);

const TABLES: [Shape; 6] = [
    ("TL", &["K", "V", "C"], |n| format!("'k{n}'")),
    ("T", &["K", "C"], |n| format!("'k{n}'")),
    ("TI", &["ID", "C"], |n| n.to_string()),
    ("TJ", &["ID", "C"], |n| format!("'k{n}'")),
    ("TW", &["K", "C"], |n| format!("'k{n}'")),
    ("TM", &["A", "B", "C"], |n| format!("(A='a{n}' AND B={n})")),
];

pub const NAMES: [&str; 7] = ["TL", "T", "TI", "TJ", "TW", "TM", "TST"];

impl Question {
    pub fn any(rng: &mut StdRng) -> Question {
        let (table, columns, key) = TABLES[rng.random_range(0..TABLES.len())];
        let select = match rng.random_range(0..5) {
            0 | 1 => "*".to_owned(),
            2 => columns.join(", "),
            3 => columns[columns.len() - 1].to_owned(), // without the key
            _ => columns.iter().rev().copied().collect::<Vec<_>>().join(", "),
        };
        let kind = rng.random_range(0..7);
        let keys: Vec<String> = (0..rng.random_range(2..7)).map(|_| key(rng.random_range(0..70))).collect();
        let (first, low, high) = (columns[0], key(1), key(4));
        let filter = match (table, kind) {
            ("TM", 0..4) => format!(" WHERE {}", keys.join(" OR ")),
            (_, 0) => format!(" WHERE {first} IN ({})", keys.join(", ")),
            ("TM", _) => " WHERE C >= 1".to_owned(),
            (_, 1) => {
                let equals: Vec<String> = keys.iter().map(|key| format!("{first} = {key}")).collect();
                format!(" WHERE {}", equals.join(" OR "))
            }
            (_, 2) => format!(" WHERE {first} >= {low}"),
            (_, 3) => format!(" WHERE {first} > {low} AND {first} < {high}"),
            ("TL", 4) => format!(" WHERE V = {}", keys.len() * 9),
            ("TW", 4) => " WHERE WINDOWSTART > 5".to_owned(),
            (_, 4) => " WHERE C > 100".to_owned(),
            _ => String::new(),
        };
        let limit = [None, None, Some(1), Some(7)][rng.random_range(0..4)];
        let unlimited = format!("SELECT {select} FROM {table}{filter};");
        let sql = match limit {
            Some(limit) => format!("SELECT {select} FROM {table}{filter} LIMIT {limit};"),
            None => unlimited.clone(),
        };
        match rng.random_range(0..12) {
            0 => Question { sql: "SELECT * FROM TST;".into(), unlimited: "SELECT * FROM TST;".into(), limit: None },
            _ => Question { sql, unlimited, limit },
        }
    }
}
