//! Runs proofs of absence: the questions of [`crate::route`]'s absence module, asked of the host that answered empty.

use super::attempt::{Exchange, Failure, exchange};
use super::envelope::{Endpoint, pin_members};
use super::hosts::Host;
use super::request::Head;
use super::stores::Store;
use crate::http::{HttpVersion, Reuse};
use crate::partition::Partition;
use crate::route::{Key, Rows, any_key, first_at_or_after, together, windows_of};
use crate::sql::WindowBound;
use crate::telemetry::Metrics;
use crate::view::{HostName, TableInfo};
use bytes::Bytes;
use dashmap::{DashMap, Entry};
use http::{HeaderValue, Method, Uri, header};
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// What a proof showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The key is not in the store, or none of its windows is within the request's bounds.
    Absent,
    /// The key is there: the empty answer was false, and the original may be asked again.
    Present,
    /// The question was answered and shows nothing, e.g. because no row follows the key.
    Inconclusive,
    /// The store could not be read; the next replica is to be asked.
    Unreadable,
    /// The replica is not known to hold all that was logged: what it does not have may still exist.
    Behind,
}

impl Proof {
    /// The label in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Proof::Absent => "absent",
            Proof::Present => "present",
            Proof::Inconclusive => "inconclusive",
            Proof::Unreadable => "unreadable",
            Proof::Behind => "behind",
        }
    }
}

/// What a proof is about.
#[derive(Clone, Debug)]
pub(super) struct Absence {
    pub host: Arc<Host>,
    pub table: Arc<TableInfo>,
    pub store: Arc<Store>,
    pub partition: Partition,
    /// The client's request head: the questions carry its credentials.
    pub head: Head,
}

/// Keys asked in one question of B; more wait for the next.
const BATCH: usize = 50;

/// Canaries in one question of B.
const CANARIES: usize = 3;

/// Largest answer to a question; one of B has a row for each canary, and for windowed tables a row a window.
const ANSWER_BYTES: usize = 1024 * 1024;

/// Identifies keys that may be asked together: the same host, store and partition, with the same credentials.
type BatchKey = (HostName, String, Partition, Vec<HeaderValue>);

type Waiting = VecDeque<(Key, oneshot::Sender<Proof>)>;

/// Asks questions, within a bound on how many are under way.
#[derive(Debug)]
pub(super) struct Prover {
    under_way: Semaphore,
    timeout: Duration,
    batches: DashMap<BatchKey, Waiting>,
    metrics: Arc<Metrics>,
}

impl Prover {
    pub fn new(max_in_flight: usize, timeout: Duration, metrics: Arc<Metrics>) -> Self {
        Prover { under_way: Semaphore::new(max_in_flight), timeout, batches: DashMap::new(), metrics }
    }

    /// Proves that the key of a lookup is absent on the host that answered empty, by A, else B, else C.
    ///
    /// `original` is the client's own statement, for C.
    pub async fn prove(
        self: &Arc<Self>,
        absence: &Absence,
        key: Option<&Key>,
        windows: &[WindowBound<'_>],
        original: &str,
    ) -> Proof {
        let methods = async {
            if let Some(key) = key {
                for by_canaries in [false, true] {
                    let proof = match by_canaries {
                        false => self.by_range(absence, key).await,
                        true => self.by_canaries(absence, key).await,
                    };
                    self.count(if by_canaries { "canaries" } else { "range" }, proof);
                    match proof {
                        Proof::Inconclusive => {}
                        Proof::Present if !windows.is_empty() => match self.by_windows(absence, key, windows).await {
                            Proof::Inconclusive => break,
                            proof => return proof,
                        },
                        proof => return proof,
                    }
                }
            }
            let proof = self.by_old_writer(absence, original).await;
            self.count("old_writer", proof);
            proof
        };
        tokio::time::timeout(self.timeout, methods).await.unwrap_or(Proof::Unreadable)
    }

    fn count(&self, method: &'static str, proof: Proof) {
        self.metrics.absence_proofs.with([method, proof.as_str()]).inc();
    }

    async fn by_range(&self, absence: &Absence, key: &Key) -> Proof {
        let Some(question) = first_at_or_after(&absence.table, key) else { return Proof::Inconclusive };
        match self.rows(absence, &question).await {
            None => Proof::Unreadable,
            Some(rows) => match rows.first() {
                None => Proof::Inconclusive,
                Some(first) if first == key => Proof::Present,
                Some(canary) => {
                    absence.store.exists(absence.partition, canary.clone());
                    Proof::Absent
                }
            },
        }
    }

    /// Whether the answer is empty because of the request's window bounds: a row of the key was read, and none fits.
    async fn by_windows(&self, absence: &Absence, key: &Key, windows: &[WindowBound<'_>]) -> Proof {
        let proof = match self.rows(absence, &windows_of(&absence.table, key)).await {
            None => Proof::Unreadable,
            Some(rows) if rows.is_empty() => Proof::Unreadable,
            Some(rows) => match rows.none_within(&absence.table, windows) {
                Some(true) => Proof::Absent,
                Some(false) => Proof::Present,
                None => Proof::Inconclusive,
            },
        };
        self.count("windows", proof);
        proof
    }

    /// Joins the next question of B about that host and partition; the first to come asks it for all.
    async fn by_canaries(self: &Arc<Self>, absence: &Absence, key: &Key) -> Proof {
        let credentials = [header::AUTHORIZATION, header::COOKIE];
        let credentials = credentials.iter().filter_map(|name| absence.head.headers.get(name).cloned()).collect();
        let batch: BatchKey =
            (Arc::clone(&absence.host.name), absence.table.query_id.clone(), absence.partition, credentials);
        let (answer, proof) = oneshot::channel();
        let first = match self.batches.entry(batch.clone()) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back((key.clone(), answer));
                false
            }
            Entry::Vacant(place) => {
                place.insert(VecDeque::from([(key.clone(), answer)]));
                true
            }
        };
        if first {
            let (prover, absence) = (Arc::clone(self), absence.clone());
            tokio::spawn(async move { prover.run_batches(batch, absence).await });
        }
        proof.await.unwrap_or(Proof::Unreadable)
    }

    /// Asks one question after the other until no key waits; a task of its own, as those who wait may leave.
    async fn run_batches(&self, batch: BatchKey, absence: Absence) {
        loop {
            let keys: Vec<(Key, oneshot::Sender<Proof>)> = match self.batches.entry(batch.clone()) {
                Entry::Vacant(_) => return,
                Entry::Occupied(waiting) if waiting.get().is_empty() => {
                    waiting.remove();
                    return;
                }
                Entry::Occupied(mut waiting) => {
                    let most = waiting.get().len().min(BATCH);
                    waiting.get_mut().drain(..most).collect()
                }
            };
            let asked: Vec<Key> = keys.iter().map(|(key, _)| key.clone()).collect();
            let proofs = tokio::time::timeout(self.timeout, self.ask_together(&absence, &asked)).await;
            let proofs = proofs.unwrap_or_else(|_| vec![Proof::Unreadable; asked.len()]);
            for ((_, answer), proof) in keys.into_iter().zip(proofs) {
                let _ = answer.send(proof); // whoever asked may have left
            }
        }
    }

    /// Question B: both of two answers hold every canary; one proof a key.
    ///
    /// A canary that is missing is forgotten: it was deleted, or the store was not read, which costs the next question no
    /// more than looking for another.
    async fn ask_together(&self, absence: &Absence, keys: &[Key]) -> Vec<Proof> {
        let all = |proof| vec![proof; keys.len()];
        let canaries = match self.canaries(absence, keys).await {
            Ok(canaries) => canaries,
            Err(proof) => return all(proof),
        };
        let question = together(&absence.table, keys.iter().chain(&canaries));
        let mut proofs = all(Proof::Absent);
        for _ in 0..2 {
            let Some(rows) = self.rows(absence, &question).await else { return all(Proof::Unreadable) };
            let missing: Vec<&Key> = canaries.iter().filter(|canary| !rows.holds(canary)).collect();
            missing.iter().for_each(|canary| absence.store.deleted(absence.partition, canary));
            for (proof, key) in proofs.iter_mut().zip(keys) {
                *proof = match (rows.holds(key), missing.is_empty()) {
                    (true, _) => Proof::Present,
                    (false, true) => *proof,
                    (false, false) => Proof::Unreadable,
                };
            }
        }
        proofs
    }

    /// Keys known to exist in the partition and not asked about; one is looked for if none is known.
    async fn canaries(&self, absence: &Absence, keys: &[Key]) -> Result<Vec<Key>, Proof> {
        let mut known = absence.store.canaries(absence.partition);
        known.retain(|canary| !keys.contains(canary));
        known.truncate(CANARIES);
        if known.is_empty() {
            let rows = self.rows(absence, &any_key(&absence.table)).await.ok_or(Proof::Unreadable)?;
            let found = rows.first().filter(|found| !keys.contains(found)).ok_or(Proof::Inconclusive)?;
            absence.store.exists(absence.partition, found.clone());
            known.push(found.clone());
        }
        Ok(known)
    }

    /// Question C: the original, answered by the writer that does not lose errors.
    async fn by_old_writer(&self, absence: &Absence, original: &str) -> Proof {
        match self.ask(absence, original, "{\"ksql.endpoint.migrate.query\":false}").await {
            Exchange::Empty(_) => Proof::Absent,
            Exchange::Rows(_) => Proof::Present,
            Exchange::Final(_) | Exchange::Retry(..) | Exchange::Failed(_) => Proof::Unreadable,
        }
    }

    /// The rows of a question's answer; `None` if the store was not read to the end.
    async fn rows(&self, absence: &Absence, question: &str) -> Option<Rows> {
        match self.ask(absence, question, "{}").await {
            Exchange::Rows(answer) | Exchange::Empty(answer) => {
                let body = answer.into_response().into_body().collect().await.ok()?.to_bytes();
                Rows::read(&absence.table, &body)
            }
            Exchange::Final(_) | Exchange::Retry(..) | Exchange::Failed(_) => None,
        }
    }

    async fn ask(&self, absence: &Absence, statement: &str, properties: &str) -> Exchange {
        self.question(&absence.host, &absence.head, &[absence.partition], statement, properties).await
    }

    /// Asks a host one question, pinned to some of its partitions, within the bound on how many are under way.
    ///
    /// `head` is that of the client's request, whose credentials the question carries.
    pub async fn question(
        &self,
        host: &Arc<Host>,
        head: &Head,
        partitions: &[Partition],
        statement: &str,
        properties: &str,
    ) -> Exchange {
        let Ok(_permit) = self.under_way.acquire().await else {
            return Exchange::Failed(Failure { label: "shutting_down", unsent: true, stale_connection: false });
        };
        let pin = pin_members(Endpoint::Query, partitions);
        let statement_json = serde_json::Value::from(statement);
        let body =
            format!("{{\"ksql\":{statement_json},\"streamsProperties\":{properties},\"requestProperties\":{{{pin}}}}}");
        let mut head = head.clone();
        head.method = Method::POST;
        head.uri = Uri::from_static("/query");
        head.headers.insert(header::ACCEPT, HeaderValue::from_static("application/vnd.ksql.v1+json"));
        let request = head.with_bytes(Bytes::from(body));
        let _under_way = host.begin();
        exchange(host, HttpVersion::Http1, Reuse::Allowed, request, statement, ANSWER_BYTES, |_| {}).await
    }
}
