//! The request path: the only async code that a request runs through.
//!
//! [`Proxy::handle`](crate::http::Handler::handle) reads a request, has its statement classified and its key located,
//! and sends it on its way: a lookup to the replicas of its plan (`lookup`), another pull query to a server that routes
//! it (`native`) or to those that hold its partitions (`scatter`), everything else to the local server untouched
//! (`forward`).

mod answer;
mod attempt;
mod audit;
mod bounds;
mod demand;
mod envelope;
mod forward;
mod guarded;
mod handle;
mod hosts;
mod lookup;
mod native;
mod prover;
mod push;
mod race;
mod reclaim;
mod record;
mod reply;
mod request;
mod scatter;
mod session;
mod settings;
mod stores;
mod trail;
mod versions;

pub use answer::{AnswerScanner, End};
pub use demand::{FIELDS, Field};
pub use envelope::{Endpoint, Envelope};
pub use session::{BadToken, Session, TokenKey};

use self::attempt::Failure;
use self::hosts::{Host, Hosts};
use self::prover::Prover;
use self::push::Queries;
use self::stores::Stores;
use crate::clock::Clock;
use crate::config::Freshness;
use crate::http::HttpClient;
use crate::route::{Budget, Latency, Retry};
use crate::telemetry::Metrics;
use crate::view::{Ask, Published};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// What the request path obeys; see `config/sidecar.toml` for each.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Settings {
    pub deadline: Duration,
    pub patience: Duration,
    pub attempt_floor: Duration,
    pub attempt_ceiling: Duration,
    pub retry_budget_ratio: f64,
    pub retry_budget_per_second: f64,
    /// Largest body that is looked into, bytes.
    pub max_inspected_body: usize,
    /// Largest answer that is held to its end, bytes.
    pub held_answer: usize,
    /// Whether pull queries that are no lookups are asked partition by partition.
    pub scatter: bool,
    /// Largest part of such an answer, bytes.
    pub scatter_part: usize,
    /// What all such answers under way may hold, bytes; at least one part.
    pub scatter_memory: usize,
    pub prove_absence: bool,
    pub proofs_in_flight: usize,
    pub proof_timeout: Duration,
    pub freshness: Freshness,
    /// Whether settings of tables are kept in the metastore.
    pub table_settings: bool,
    pub lag_poll_interval: Duration,
    /// Whether answers tell who served them.
    pub headers: bool,
    /// The own client port: a local server that is known under it advertises this sidecar as its listener.
    pub client_port: u16,
}

/// Answers the clients' requests.
#[derive(Debug)]
pub struct Proxy {
    settings: Settings,
    clock: Clock,
    published: Arc<Published>,
    asks: mpsc::Sender<Ask>,
    hosts: Hosts,
    stores: Stores,
    prover: Arc<Prover>,
    queries: Arc<Queries>,
    budget: Mutex<Budget>,
    pull_latency: Mutex<Latency>,
    /// Room for answers that are put together, in KiB.
    answers: Arc<Semaphore>,
    /// Places for audits.
    audits: Arc<Semaphore>,
    /// Places for requests that wait for a fresher replica.
    waiting: Semaphore,
    /// Marks the tokens that this sidecar makes.
    incarnation: u64,
    metrics: Arc<Metrics>,
}

impl Proxy {
    /// A proxy that has met no request yet; `incarnation` tells one life of this sidecar from the next.
    pub fn new(
        settings: Settings,
        clock: Clock,
        published: Arc<Published>,
        asks: mpsc::Sender<Ask>,
        client: HttpClient,
        metrics: Arc<Metrics>,
        incarnation: u64,
    ) -> Self {
        let budget = Budget::new(settings.retry_budget_ratio, settings.retry_budget_per_second, clock.now());
        let prover = Prover::new(settings.proofs_in_flight, settings.proof_timeout, Arc::clone(&metrics));
        let waiting = settings.freshness.max_waiting;
        let answers = scatter::kib(settings.scatter_memory.max(settings.scatter_part));
        Proxy {
            settings,
            clock,
            published,
            asks,
            hosts: Hosts::new(client),
            stores: Stores::default(),
            prover: Arc::new(prover),
            queries: Arc::default(),
            budget: Mutex::new(budget),
            pull_latency: Mutex::default(),
            answers: Arc::new(Semaphore::new(answers as usize)),
            audits: Arc::new(Semaphore::new(audit::AT_ONCE)),
            waiting: Semaphore::new(waiting),
            incarnation,
            metrics,
        }
    }

    /// Asks something of the control loops; they are busy enough if the channel is full.
    fn ask(&self, ask: Ask) {
        let _ = self.asks.try_send(ask);
    }

    fn note_failure(&self, host: &Arc<Host>, failure: Failure) {
        if failure.unsent || failure.label == "closed" {
            host.broke(self.clock.now());
            self.ask(Ask::Probe(host.name.to_string()));
        }
    }

    fn note_retry(&self, host: &Arc<Host>, retry: Retry) {
        if retry.condemns_host() {
            host.shun(self.clock.now());
            self.ask(Ask::Probe(host.name.to_string()));
        }
        if retry == Retry::NotQueryable {
            self.ask(Ask::RefreshCatalogue);
        }
    }
}
