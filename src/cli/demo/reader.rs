//! A client that reads one key after the other and compares what it gets with what the cluster knows to be true.

use super::report::{Finding, Side, Tally};
use crate::emulator::{Cluster, Truth};
use http::HeaderMap;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A read that takes longer is counted as hung; clients of databases seldom wait longer.
const HUNG: Duration = Duration::from_secs(5);

const TOKEN: &str = "X-Ksqldb-Sidecar-Token";

/// Words of the refusal of a bound.
const REFUSED: &str = "no replica is ";

/// What all readers share.
pub(super) struct Scene {
    pub cluster: Arc<Cluster>,
    pub tally: Arc<Mutex<Tally>>,
    pub keys: usize,
}

/// One client.
pub(super) struct Reader {
    scene: Arc<Scene>,
    side: Side,
    url: String,
    client: reqwest::Client,
    random: StdRng,
    /// The largest value seen of each key: values grow, so a smaller one is older.
    seen: HashMap<String, i64>,
    /// What the last answer gave, of a reader that carries tokens.
    token: String,
}

/// How long a reader with a token waits for a replica that is not older than what it has read.
pub(super) const PATIENCE: &str = "4s";

impl Reader {
    pub fn new(scene: Arc<Scene>, side: Side, address: SocketAddr, seed: u64) -> Result<Self, Box<dyn Error>> {
        let client = client()?;
        let random = StdRng::seed_from_u64(seed ^ u64::from(address.port()));
        let url = format!("http://{address}/query");
        Ok(Reader { scene, side, url, client, random, seen: HashMap::new(), token: String::new() })
    }

    /// Reads until the task is aborted.
    pub async fn run(mut self, every: Duration) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let key = format!("k{}", self.random.random_range(0..self.scene.keys));
            let (begun, at) = (Instant::now(), self.scene.cluster.now());
            let finding = match self.read(&key).await {
                Ok(value) => self.judge(&key, value, at),
                Err(error) if error.is_timeout() => Finding::Hung,
                Err(error) => Finding::Failed(error.to_string()),
            };
            let mut tally = self.scene.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(self.side, &finding, begun.elapsed());
        }
    }

    /// The value of a key: `None` without a row, an error row or a status other than 200 counting as failures.
    async fn read(&mut self, key: &str) -> Result<Answer, reqwest::Error> {
        let statement = format!("SELECT V FROM TL WHERE K='{key}';");
        let mut request = self.client.post(&self.url);
        if self.side == Side::Session {
            request = request.header(TOKEN, &self.token).header("X-Ksqldb-Sidecar-Wait", PATIENCE);
        }
        let (answer, headers) = send(request, &statement).await?;
        if let Some(token) = headers.get(TOKEN).and_then(|value| value.to_str().ok()) {
            token.clone_into(&mut self.token);
        }
        Ok(answer)
    }

    fn judge(&mut self, key: &str, answer: Answer, at: Duration) -> Finding {
        let value = match answer {
            Answer::Value(value) => value,
            Answer::Empty => return Finding::WrongEmpty,
            Answer::Refused => return Finding::Refused,
            Answer::Error(error) => return Finding::Failed(error),
        };
        let seen = self.seen.entry(key.to_owned()).or_insert(value);
        let back = value < *seen;
        *seen = value.max(*seen);
        let truth = self.scene.cluster.truth("TL", &Value::from(key));
        Finding::Read { back, staleness: staleness(&truth, value, at) }
    }
}

/// A client that gives up after a while.
pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().no_proxy().timeout(HUNG).build()
}

/// Asks a statement: the answer, and which server gave it, by a sidecar's word.
pub(super) async fn ask(request: reqwest::RequestBuilder, statement: &str) -> reqwest::Result<(Answer, String)> {
    let (answer, headers) = send(request, statement).await?;
    let served_by = headers.get("x-ksqldb-sidecar-served-by").and_then(|value| value.to_str().ok());
    Ok((answer, served_by.unwrap_or_default().to_owned()))
}

async fn send(request: reqwest::RequestBuilder, statement: &str) -> reqwest::Result<(Answer, HeaderMap)> {
    let body = serde_json::json!({"ksql": statement, "streamsProperties": {}}).to_string();
    let response = request.header("Accept", "application/vnd.ksql.v1+json").body(body).send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await?;
    let answer = match serde_json::from_str::<Vec<Value>>(&text) {
        Ok(elements) if status.is_success() => {
            let error = elements.iter().find_map(|element| element.get("errorMessage"));
            let row = elements.iter().find_map(|element| element.get("row")?.get("columns")?.get(0)?.as_i64());
            error.map_or(row.map_or(Answer::Empty, Answer::Value), |error| Answer::Error(error.to_string()))
        }
        _ if text.contains(REFUSED) => Answer::Refused,
        _ => Answer::Error(format!("{status}: {text}")),
    };
    Ok((answer, headers))
}

/// What one read brought: no row and no error is `Empty`.
pub(super) enum Answer {
    Value(i64),
    Empty,
    Refused,
    Error(String),
}

/// How long before `at` the first write was made that an answer of `value` lacks.
fn staleness(truth: &[Truth], value: i64, at: Duration) -> Duration {
    let missing = truth.iter().find(|row| row.v.is_some_and(|v| v > value) && row.at < at);
    missing.map_or(Duration::ZERO, |row| at.saturating_sub(row.at))
}
