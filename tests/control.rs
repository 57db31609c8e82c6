//! The control loops alone, over real sockets, against the emulated cluster while its servers fail.

use ksqldb_sidecar::app::install_crypto;
use ksqldb_sidecar::clock::Clock;
use ksqldb_sidecar::config::{Config, LoadOptions};
use ksqldb_sidecar::control::{Control, HttpFetch};
use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Fault, Phases};
use ksqldb_sidecar::telemetry::Metrics;
use ksqldb_sidecar::view::{Ask, ClusterView, HostState, Published, Role};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a condition may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The control loops of one sidecar.
struct Watcher {
    published: Arc<Published>,
    metrics: Arc<Metrics>,
    asks: mpsc::Sender<Ask>,
    stop: CancellationToken,
    loops: JoinHandle<()>,
}

impl Watcher {
    /// Beside the server with that URL; it finds the others from `/clusterStatus` or `SHOW QUERIES EXTENDED`.
    fn beside(url: &str, more: &[(&str, String)]) -> Self {
        install_crypto();
        // no sidecar listens there: servers are asked directly
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let set = [("SERVER__URL", url.to_owned()), ("PEERS__SIDECAR_PORT", closed.to_string())];
        let set = set.into_iter().chain(more.iter().cloned());
        let environment = set.map(|(key, value)| (format!("KSQLDB_SIDECAR__{key}"), value.into())).collect();
        let config = Config::load(LoadOptions { environment, ..LoadOptions::default() }).unwrap();
        let (published, metrics) = (Arc::<Published>::default(), Arc::new(Metrics::new().unwrap()));
        let fetch = HttpFetch::new(&config).unwrap();
        let control =
            Control::new(&config, fetch, Clock::start(), Arc::clone(&metrics), Arc::clone(&published), "test");
        let stop = CancellationToken::new();
        let (asks, loops) = control.spawn(stop.clone());
        Watcher { published, metrics, asks, stop, loops }
    }

    /// Waits until the view is so, and tells how long that took.
    async fn until(&self, what: &str, is_so: impl Fn(&ClusterView) -> bool) -> Duration {
        let begun = Instant::now();
        let mut changes = self.published.changes();
        let waiting = async {
            while !is_so(&self.published.load()) {
                changes.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("not {what}: {:#?}", self.published.load().hosts);
        }
        begun.elapsed()
    }

    /// The state of a server, by its place in the cluster.
    async fn until_state(&self, cluster: &Cluster, server: usize, state: HostState) -> Duration {
        let name = cluster.servers()[server].name.clone();
        self.until(&format!("{name} {state}"), |view| {
            view.hosts.iter().any(|host| *host.name == *name && host.state == state)
        })
        .await
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(1), self.loops).await.expect("the loops end").unwrap();
        assert!(self.asks.is_closed());
    }
}

fn names(cluster: &Cluster) -> BTreeSet<String> {
    cluster.servers().iter().map(|server| server.name.clone()).collect()
}

fn knows_all(view: &ClusterView, cluster: &Cluster) -> bool {
    view.is_complete() && view.hosts.iter().map(|host| host.name.to_string()).collect::<BTreeSet<_>>() == names(cluster)
}

/// Whether each slot has one believed, caught-up active, the server that really is it, and its standby.
fn places_all(view: &ClusterView, cluster: &Cluster) -> bool {
    let place = |host: u16| {
        let name = view.host(host).map(|host| host.name.to_string());
        cluster.servers().iter().position(|server| Some(&server.name) == name.as_ref())
    };
    view.tables.values().all(|table| {
        (0..).zip(view.slots(table)).all(|(partition, slot)| {
            let Some((active, standbys)) = cluster.holders(&table.name, partition) else { return false };
            let caught_up = slot.replicas.iter().filter(|replica| replica.is_caught_up_active());
            let standby = slot.replicas.iter().filter(|replica| replica.role == Role::Standby);
            caught_up.map(|replica| place(replica.host)).eq([Some(active)])
                && standby.map(|replica| place(replica.host)).eq(standbys.into_iter().map(Some))
        })
    })
}

fn hasty() -> ClusterConfig {
    ClusterConfig {
        session_timeout: Duration::from_secs(2),
        phases: Phases::default().scaled(0.2),
        ..ClusterConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_tables_and_replicas_are_found_from_one_address() {
    let cluster = Cluster::start(hasty()).await.unwrap();
    cluster.inject(Fault::GhostHost("ghost.invalid:8088".into()));
    let watchers: Vec<_> = cluster.servers().iter().map(|server| Watcher::beside(&server.url, &[])).collect();
    for (watcher, server) in watchers.iter().zip(cluster.servers()) {
        watcher.until("complete", |view| knows_all(view, &cluster) && places_all(view, &cluster)).await;
        let view = watcher.published.load();
        assert_eq!(view.local().map(|(_, host)| &*host.name), Some(server.name.as_str()));
        assert_eq!(view.standby_reads, Some(true));
        assert!(view.lag_reporting && view.advice().is_empty());
        assert!(view.hosts.iter().all(|host| host.version.is_some() && host.incarnation.is_some()), "{:?}", view.hosts);
        assert!(view.tables.values().all(|table| table.partitions.get() == 6));
        let own = watcher.published.own().expect("what the own server said");
        assert_eq!(*own.server, *server.name);
        assert!(own.report_age.is_some_and(|age| age < Duration::from_secs(3)), "{own:?}");
        let text = watcher.metrics.encode().unwrap();
        assert!(text.contains("unroutable_hosts 1") && !text.contains("ghost"), "{text}");
        assert!(text.contains("peers{state=\"live\"} 2"), "{text}");
    }
    for watcher in watchers {
        watcher.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_calm_cluster_no_replica_is_doubted() {
    let cluster = std::sync::Arc::new(Cluster::start(hasty()).await.unwrap());
    let writer = ksqldb_sidecar::emulator::write_on(std::sync::Arc::clone(&cluster), 100, 60);
    let servers: Vec<String> = cluster.servers().iter().map(|server| server.url.clone()).collect();
    let sidecars = crate::cluster::support::sidecars(&servers, &[]).await;
    let mut changes = sidecars[0].published().changes();
    let calm = async {
        let mut reports = std::collections::BTreeSet::new();
        while reports.len() < 12 {
            changes.changed().await.unwrap();
            let view = sidecars[0].published().load();
            for slot in view.tables.values().flat_map(|table| view.slots(table)) {
                for replica in &slot.replicas {
                    assert!(replica.settled && replica.reliable, "{replica:?}");
                    reports.extend(replica.reported.map(|at| (replica.host, at)));
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), calm).await.expect("reports arrive");
    writer.abort();
    for sidecar in sidecars {
        sidecar.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_a_pause_and_a_roll_are_seen() {
    let cluster = Cluster::start(hasty()).await.unwrap();
    let watcher = Watcher::beside(&cluster.servers()[0].url, &[]);
    watcher.until("complete", |view| knows_all(view, &cluster)).await;

    cluster.inject(Fault::Pause(1));
    let noticed = watcher.until_state(&cluster, 1, HostState::Dead).await;
    assert!(noticed < Duration::from_secs(3), "{noticed:?}");
    cluster.inject(Fault::Resume(1));
    watcher.until_state(&cluster, 1, HostState::Live).await;
    watcher.until("settled", |view| places_all(view, &cluster)).await;

    let incarnation = |view: &ClusterView| view.hosts.iter().map(|host| host.incarnation).collect::<Vec<_>>();
    let before = incarnation(&watcher.published.load());
    cluster.inject(Fault::Crash(2));
    let _ = watcher.asks.try_send(Ask::Probe(cluster.servers()[2].name.clone()));
    let noticed = watcher.until_state(&cluster, 2, HostState::Dead).await;
    assert!(noticed < Duration::from_secs(2), "{noticed:?}");
    cluster.inject(Fault::Start(2));
    watcher.until_state(&cluster, 2, HostState::Starting).await;
    watcher.until_state(&cluster, 2, HostState::Live).await;
    watcher.until("another incarnation", |view| view.is_complete() && incarnation(view) != before).await;
    watcher.until("settled", |view| places_all(view, &cluster)).await;

    cluster.inject(Fault::Close(0));
    watcher.until_state(&cluster, 0, HostState::Closing).await;
    watcher.until_state(&cluster, 0, HostState::Dead).await;
    watcher
        .until("moved", |view| {
            let live = |host: u16| view.host(host).is_some_and(|host| host.state == HostState::Live);
            let slots = view.tables.values().flat_map(|table| view.slots(table));
            !view.tables.is_empty()
                && slots.into_iter().all(|slot| slot.replicas.iter().any(|r| r.is_caught_up_active() && live(r.host)))
        })
        .await;
    watcher.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_heartbeats_the_hosts_come_from_the_queries() {
    let config = ClusterConfig { tables: vec!["TL".into()], ..ClusterConfig::server_defaults() };
    let cluster = Cluster::start(config).await.unwrap();
    let watcher = Watcher::beside(&cluster.servers()[0].url, &[]);
    watcher
        .until("complete with every host a candidate", |view| {
            let slots = view.tables.values().flat_map(|table| view.slots(table));
            knows_all(view, &cluster) && slots.into_iter().all(|slot| slot.replicas.len() == 3)
        })
        .await;
    let view = watcher.published.load();
    assert_eq!((view.lag_reporting, view.standby_reads, view.advice().len()), (false, Some(false), 2));
    assert_eq!(view.tables["TL"].partitions.get(), 6);
    let text = watcher.metrics.encode().unwrap();
    for capability in ["heartbeats", "lag_reporting", "standby_reads"] {
        let line = format!("server_capability{{capability=\"{capability}\"}} 0");
        assert!(text.contains(&line), "{line} in {text}");
    }
    watcher.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_down_at_first_is_found_when_it_comes() {
    let cluster = Cluster::start(hasty()).await.unwrap();
    cluster.inject(Fault::Crash(2));
    let watcher = Watcher::beside(&cluster.servers()[0].url, &[]);
    watcher.until("two servers", |view| view.is_complete() && view.hosts.len() == 2).await;
    cluster.inject(Fault::Start(2));
    watcher.until("all servers", |view| knows_all(view, &cluster)).await;
    watcher.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_a_name_become_servers_under_the_name_they_give() {
    let cluster = Cluster::start(ClusterConfig { tables: vec!["TL".into()], ..hasty() }).await.unwrap();
    let port = cluster.servers()[1].address.port().to_string();
    let dns = [
        ("PEERS__DISCOVERY", "dns".to_owned()),
        ("PEERS__DNS_NAME", "localhost".to_owned()),
        ("PEERS__SERVER_PORT", port),
    ];
    let watcher = Watcher::beside(&cluster.servers()[0].url, &dns);
    watcher.until("two servers", |view| view.is_complete() && view.hosts.len() == 2).await;
    let view = watcher.published.load();
    let found: BTreeSet<_> = view.hosts.iter().map(|host| host.name.to_string()).collect();
    assert_eq!(found, cluster.servers()[..2].iter().map(|server| server.name.clone()).collect());
    watcher.stop().await;
}
