//! What a running sidecar's admin port tells, for the terminal.

use crate::config::BaseUrl;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::error::Error;
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// `GET /overview`, as far as it is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    pub version: String,
    pub lag_reporting: bool,
    pub advice: Vec<String>,
    pub servers: Vec<Server>,
    pub tables: Vec<Table>,
    pub traffic: Traffic,
}

/// A server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Server {
    pub name: String,
    pub state: String,
    pub since_ms: u64,
    pub local: bool,
    pub sidecar: Beside,
    pub actives: usize,
    pub standbys: usize,
    pub offset_lag: Option<u64>,
    pub age_ms: Option<u64>,
}

/// The sidecar beside a server.
#[derive(Debug, Deserialize)]
pub(super) struct Beside {
    pub state: String,
}

/// A table.
#[derive(Debug, Deserialize)]
pub(super) struct Table {
    pub name: String,
    pub partitions: Vec<Partition>,
}

/// A partition; hosts are places in the list of servers.
#[derive(Debug, Deserialize)]
pub(super) struct Partition {
    pub active: Option<usize>,
    pub ready: usize,
    pub replicas: Vec<Replica>,
}

/// A replica.
#[derive(Debug, Deserialize)]
pub(super) struct Replica {
    pub role: String,
    pub stands: String,
}

/// Sums by second.
#[derive(Debug, Deserialize)]
pub(super) struct Traffic {
    pub second: u64,
    pub seconds: Vec<Second>,
}

/// The sums of one second.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Second {
    pub at: u64,
    pub requests: u64,
    pub failed: u64,
    pub again: u64,
    pub slowest_ms: f64,
    pub offset_lag: u64,
    pub age_ms: u64,
}

/// `GET /decisions`, as far as it is shown.
#[derive(Debug, Deserialize)]
pub(super) struct Decisions {
    pub decisions: Vec<Decision>,
}

/// One decision.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decision {
    pub at_ms: u64,
    pub class: String,
    pub table: Option<String>,
    pub partition: Option<u32>,
    pub served_by: Option<String>,
    pub reason: String,
    pub offset_lag: Option<u64>,
    pub attempts: u32,
    pub duration_ms: f64,
    pub outcome: String,
}

/// Asks one sidecar.
pub(super) struct Asker {
    client: reqwest::Client,
    pub admin: BaseUrl,
}

impl Asker {
    /// Of the sidecar with that admin port.
    pub fn new(admin: &BaseUrl) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        Ok(Asker { client, admin: admin.clone() })
    }

    /// The answer to a GET.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Box<dyn Error>> {
        self.told(self.client.get(format!("{}{path}", self.admin))).await
    }

    /// The answer to a POST.
    pub async fn post(&self, path: &str, body: String) -> Result<Value, Box<dyn Error>> {
        self.told(self.client.post(format!("{}{path}", self.admin)).body(body)).await
    }

    async fn told<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Box<dyn Error>> {
        let cannot = |error: &dyn Error| format!("no sidecar answers at {}: {error}", self.admin);
        let response = request.send().await.map_err(|error| cannot(&error.without_url()))?;
        let ok = response.status().is_success();
        let body = response.bytes().await.map_err(|error| cannot(&error.without_url()))?;
        if ok {
            return serde_json::from_slice(&body).map_err(|error| cannot(&error).into());
        }
        let refusal: Value = serde_json::from_slice(&body).map_err(|error| cannot(&error))?;
        Err(refusal["message"].as_str().unwrap_or("the sidecar refuses, and does not say why").into())
    }
}

/// Rows as aligned columns; the columns named in `right` stand to the right. Control characters are left out, as names come
/// from elsewhere.
pub(super) fn columns(rows: &[Vec<String>], right: &[usize]) -> String {
    let clean = |cell: &String| cell.chars().filter(|c| !c.is_control()).collect::<String>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(clean).collect()).collect();
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..most).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match right.contains(&column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number; a dash where there is none.
pub(super) fn count(number: Option<u64>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

/// A span of time in its largest units; a dash where there is none.
pub(super) fn span(ms: Option<u64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 1000 => format!("{ms} ms"),
        Some(ms) if ms < 60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        Some(ms) if ms < 3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        Some(ms) => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cannot_steer_the_terminal() {
        let rows = [vec!["HOST", "LAG"], vec!["a\u{1b}[2J", "7"], vec!["longer", "100"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(columns(&rows, &[1]), "HOST    LAG\na[2J      7\nlonger  100\n");
    }

    #[test]
    fn spans_are_short() {
        let spans = [None, Some(999), Some(1999), Some(61_000), Some(7_260_000)].map(span);
        assert_eq!(spans, ["-", "999 ms", "1.9 s", "1 min 1 s", "2 h 1 min"]);
    }
}
