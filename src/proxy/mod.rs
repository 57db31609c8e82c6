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
mod gate;
mod handle;
mod hosts;
mod lookup;
mod native;
mod prover;
mod push;
mod race;
mod reclaim;
mod record;
mod replan;
mod reply;
mod request;
mod request_id;
mod scatter;
mod session;
mod settings;
mod stores;
mod story;
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
use crate::error::ProxyError;
use crate::http::HttpClient;
use crate::route::{Budget, Retry};
use crate::telemetry::{Metrics, Recent};
use crate::view::{Ask, Latency, Published};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

/// What the request path obeys; see `config/sidecar.toml` for each.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Settings {
    pub deadline: Duration,
    pub patience: Duration,
    pub attempt_floor: Duration,
    pub attempt_ceiling: Duration,
    /// Attempts that one server is given at once, at most.
    pub concurrent_per_server: u32,
    pub hedge_ratio: f64,
    pub hedge_floor: Duration,
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

/// Requests that wait for room, for each that one server may be given.
const CROWD: usize = 4;

/// How long a request waits for room before it looks again.
const ROOM: Duration = Duration::from_millis(20);

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
    gate: gate::Gate,
    /// Places for requests that wait until a server has room.
    crowd: Semaphore,
    queries: Arc<Queries>,
    budget: Mutex<Budget>,
    /// What hedges cost.
    hedges: Mutex<Budget>,
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
    recent: Arc<Recent>,
}

impl Proxy {
    /// A proxy that has met no request yet; `incarnation` tells one life of this sidecar from the next.
    pub fn new(
        settings: Settings,
        clock: Clock,
        published: Arc<Published>,
        asks: mpsc::Sender<Ask>,
        client: HttpClient,
        (metrics, recent): (Arc<Metrics>, Arc<Recent>),
        incarnation: u64,
    ) -> Self {
        let budget = Budget::new(settings.retry_budget_ratio, settings.retry_budget_per_second, clock.now());
        let hedges = Budget::new(settings.hedge_ratio, 0.0, clock.now());
        let prover = Prover::new(settings.proofs_in_flight, settings.proof_timeout, Arc::clone(&metrics));
        let waiting = settings.freshness.max_waiting;
        let hosts = Hosts::new(client, Arc::clone(&published), settings.concurrent_per_server);
        let crowd = Semaphore::new(CROWD * settings.concurrent_per_server as usize);
        let answers = scatter::kib(settings.scatter_memory.max(settings.scatter_part));
        Proxy {
            settings,
            clock,
            published,
            asks,
            hosts,
            stores: Stores::default(),
            prover: Arc::new(prover),
            gate: gate::Gate::default(),
            crowd,
            queries: Arc::default(),
            budget: Mutex::new(budget),
            hedges: Mutex::new(hedges),
            pull_latency: Mutex::default(),
            answers: Arc::new(Semaphore::new(answers as usize)),
            audits: Arc::new(Semaphore::new(audit::AT_ONCE)),
            waiting: Semaphore::new(waiting),
            incarnation,
            metrics,
            recent,
        }
    }

    /// Asks something of the control loops; they are busy enough if the channel is full.
    fn ask(&self, ask: Ask) {
        let _ = self.asks.try_send(ask);
    }

    /// Waits a moment for a server to have room, if not too many wait already.
    async fn room(&self, deadline: Instant) -> Result<(), ProxyError> {
        let place = self.crowd.try_acquire();
        if place.is_err() || Instant::now() + ROOM >= deadline {
            let most = self.settings.concurrent_per_server;
            let message = format!(
                "every server has as many pull queries under way as it can do (at most {most} by requests.max_concurrent_per_server); retry after a backoff"
            );
            return Err(ProxyError::Overloaded { message });
        }
        tokio::time::sleep(ROOM.mul_f64(rand::random_range(0.5..=1.0))).await;
        Ok(())
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
