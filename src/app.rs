//! The only wiring: builds, spawns, owns the shutdown order.

use crate::admin::Admin;
use crate::clock::Clock;
use crate::config::{AbsenceMode, Config};
use crate::control::{Control, HttpFetch};
use crate::http::{ClientSettings, Drain, Drained, HttpClient, Server, ServerSettings};
use crate::proxy::{Proxy, Settings};
use crate::telemetry::{Metrics, Recent};
use crate::view::Published;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long requests wait for the first server to become known.
const FIRST_VIEW: Duration = Duration::from_secs(2);

/// How long idle connections of clients stay open when the end has begun: longer than a request takes to arrive.
const LINGER: Duration = Duration::from_secs(1);

/// A running sidecar; several can run in one process.
#[derive(Debug)]
pub struct Sidecar {
    client: SocketAddr,
    admin_addr: SocketAddr,
    admin: Arc<Admin>,
    published: Arc<Published>,
    metrics: Arc<Metrics>,
    drain: Drain,
    admin_drain: Drain,
    control: CancellationToken,
    loops: tokio::task::JoinHandle<()>,
    grace: Duration,
}

/// Why a sidecar cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port cannot be bound.
    #[error("cannot listen on {address} ({key}): {cause}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The key that sets it.
        key: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// The metrics cannot be registered.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The client of the control loops cannot be made.
    #[error("cannot make the client of the control loops: {0}")]
    Control(#[from] reqwest::Error),
}

impl Sidecar {
    /// Binds both ports, starts the control loops, then serves.
    ///
    /// # Errors
    /// When a port is taken, or a client or the metrics cannot be made; nothing runs then.
    pub async fn start(config: Config) -> Result<Sidecar, StartError> {
        install_crypto();
        let (clock, metrics, published) = (Clock::start(), Arc::new(Metrics::new()?), Arc::<Published>::default());
        let bound = |address, key, linger, connections| {
            let settings = ServerSettings {
                max_connections: config.listen.max_connections,
                max_head_bytes: u32::try_from(config.listen.max_header_bytes.bytes()).unwrap_or(u32::MAX),
                head_timeout: config.listen.header_timeout,
                max_upgrade_body_bytes: config.listen.max_inspected_body.bytes(),
                linger,
                reuse_port: config.listen.reuse_port,
                connections,
                ..ServerSettings::default()
            };
            let bind = Server::bind(address, settings).and_then(|server| Ok((server.local_addr()?, server)));
            bind.map_err(|cause| StartError::Bind { address, key, cause })
        };
        let linger = LINGER.min(config.shutdown.grace / 2);
        let (client, client_port) =
            bound(config.listen.client, "listen.client", linger, Some(metrics.client_connections.clone()))?;
        let (admin_addr, admin_port) = bound(config.listen.admin, "listen.admin", Duration::ZERO, None)?;
        let recent = Arc::new(Recent::new(config.log.decisions));
        let incarnation = rand::random::<u64>();
        let name = format!("{incarnation:016x}");

        let stop = CancellationToken::new();
        let fetch = HttpFetch::new(&config)?;
        let control = Control::new(&config, fetch, clock, Arc::clone(&metrics), Arc::clone(&published), &name);
        let (asks, loops) = control.spawn(stop.clone());

        let (drain, admin_drain) = (Drain::new(), Drain::new());
        let freshness = (config.freshness.clone(), config.lag.poll_interval, config.requests.scatter);
        let telemetry = (Arc::clone(&metrics), Arc::clone(&recent));
        let admin = Admin::new(clock, Arc::clone(&published), asks.clone(), telemetry, freshness, name);
        let admin = Arc::new(admin);
        tokio::spawn(admin_port.serve(Arc::clone(&admin), admin_drain.signal()));
        let upstreams = HttpClient::new(client_settings(&config, &metrics))?;
        let proxy = Proxy::new(
            settings(&config, client),
            clock,
            Arc::clone(&published),
            asks,
            upstreams,
            (Arc::clone(&metrics), recent),
            incarnation,
        );
        // until a server is known, connections wait in the kernel's queue
        let (mut changes, known, signal) = (published.changes(), Arc::clone(&published), drain.signal());
        tokio::spawn(async move {
            let some_server = async { while known.load().hosts.is_empty() && changes.changed().await.is_ok() {} };
            let _ = tokio::time::timeout(FIRST_VIEW, some_server).await; // then requests are told that there is none
            client_port.serve(Arc::new(proxy), signal).await;
        });
        let grace = config.shutdown.grace;
        Ok(Sidecar { client, admin_addr, admin, published, metrics, drain, admin_drain, control: stop, loops, grace })
    }

    /// Where clients connect.
    pub fn client_addr(&self) -> SocketAddr {
        self.client
    }

    /// Where peers, Prometheus and the kubelet connect.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// The snapshots that requests are planned on.
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Shuts down: not ready, no new connections, requests under way finish up to the configured grace, then the loops
    /// stop, and the admin port last, so that the end can be watched.
    pub async fn shutdown(self) -> Drained {
        self.admin.stop();
        let drained = self.drain.drain(self.grace).await;
        self.control.cancel();
        let _ = self.loops.await; // a loop that panicked is no reason not to end
        self.admin_drain.drain(Duration::from_secs(1)).await;
        drained
    }
}

/// Installs the process's one crypto provider; later calls change nothing.
pub fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // fails only if it is installed already
}

fn client_settings(config: &Config, metrics: &Metrics) -> ClientSettings {
    ClientSettings {
        connect_timeout: config.server.connect_timeout,
        max_idle: config.upstream.max_idle_per_host,
        idle_timeout: config.upstream.idle_timeout,
        connections: Some(["http1", "http2"].map(|protocol| metrics.upstream_connections.with([protocol]))),
        ..ClientSettings::default()
    }
}

fn settings(config: &Config, client: SocketAddr) -> Settings {
    Settings {
        deadline: config.requests.deadline,
        patience: config.requests.patience,
        attempt_floor: config.requests.attempt_floor,
        attempt_ceiling: config.requests.attempt_ceiling,
        concurrent_per_server: config.requests.max_concurrent_per_server,
        hedge_ratio: config.requests.hedge_ratio,
        hedge_floor: config.requests.hedge_floor,
        retry_budget_ratio: config.requests.retry_budget_ratio,
        retry_budget_per_second: f64::from(config.requests.retry_budget_min_per_second),
        max_inspected_body: config.listen.max_inspected_body.bytes(),
        held_answer: config.requests.held_answer.bytes(),
        scatter: config.requests.scatter,
        scatter_part: config.requests.scatter_part.bytes(),
        scatter_memory: config.requests.scatter_memory.bytes(),
        prove_absence: config.absence.mode == AbsenceMode::Prove,
        proofs_in_flight: config.absence.max_in_flight,
        proof_timeout: config.absence.timeout,
        freshness: config.freshness.clone(),
        table_settings: config.catalogue.table_settings,
        lag_poll_interval: config.lag.poll_interval,
        headers: config.answers.headers,
        client_port: client.port(),
    }
}
