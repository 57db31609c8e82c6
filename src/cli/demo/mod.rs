//! `ksqldb-sidecar demo`: an emulated cluster behind sidecars while its servers fail, compared with reading from the
//! servers.

mod promises;
mod reader;
mod report;
mod script;

use self::promises::Asker;
use self::reader::{Reader, Scene};
use self::report::{Promise, Side, Tally};
use crate::app::Sidecar;
use crate::cli::DemoArgs;
use crate::config::{Config, LoadOptions};
use crate::emulator::{Cluster, ClusterConfig, Control, write_on};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keys that are written and read.
const KEYS: usize = 60;

/// As in the captures of real servers.
const WRITES_PER_SECOND: u32 = 100;

/// Time between two reads of one reader.
const READ_EVERY: Duration = Duration::from_millis(15);

/// Longest time that starting takes: the catalogue must be read and every server be seen alive by every sidecar.
const START: Duration = Duration::from_secs(10);

/// Runs the demonstration.
///
/// # Errors
/// When a promise was broken, or a part cannot be started.
pub fn demo(args: &DemoArgs) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}

async fn run(args: &DemoArgs) -> Result<(), Box<dyn Error>> {
    let seed = args.seed.unwrap_or_else(rand::random);
    println!("seed {seed}: three emulated ksqlDB servers, a sidecar beside each, readers on both");
    let config = ClusterConfig { seed, keys: KEYS, ..script::cluster() };
    let cluster = Arc::new(Cluster::start(config).await?);
    let sidecars = sidecars(&cluster).await?;
    ready(&sidecars).await?;

    let tally = Arc::new(Mutex::new(Tally::default()));
    let scene = Arc::new(Scene { cluster: Arc::clone(&cluster), tally: Arc::clone(&tally), keys: KEYS });
    let writer = write_on(Arc::clone(&cluster), WRITES_PER_SECOND, KEYS);
    let mut readers = Vec::new();
    for (side, address) in addresses(&cluster, &sidecars) {
        readers.push(tokio::spawn(Reader::new(Arc::clone(&scene), side, address, seed)?.run(READ_EVERY)));
    }
    for promise in Promise::ALL {
        let asker = Asker::new(Arc::clone(&cluster), promise, &sidecars, KEYS, seed)?;
        let tally = Arc::clone(&tally);
        let note = move |promise, verdict| {
            tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner).judge(promise, verdict);
        };
        readers.push(tokio::spawn(asker.run(READ_EVERY, note)));
    }
    script::play(&cluster, &tally, Duration::from_secs(args.seconds)).await;
    readers.iter().for_each(tokio::task::JoinHandle::abort);

    let kept = {
        let tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        println!("\n{tally}");
        tally.promises_kept()
    };
    if args.keep {
        keep(&cluster, &sidecars).await?;
    }
    writer.abort();
    for sidecar in sidecars {
        sidecar.shutdown().await;
    }
    if let Some(cluster) = Arc::into_inner(scene).and_then(|scene| Arc::into_inner(scene.cluster)) {
        cluster.shutdown().await;
    }
    if kept {
        Ok(())
    } else {
        Err("a read through a sidecar failed, hung or was wrong, one with a token went back in time, or a bound was broken".into())
    }
}

/// A sidecar beside each server, with every other as its peer.
async fn sidecars(cluster: &Cluster) -> Result<Vec<Sidecar>, Box<dyn Error>> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let admin: Vec<SocketAddr> =
        cluster.servers().iter().map(|_| std::net::TcpListener::bind(any)?.local_addr()).collect::<Result<_, _>>()?;
    let peers = cluster.servers().iter().zip(&admin);
    let peers: Vec<String> = peers
        .map(|(server, admin)| format!("{{ server = \"{}\", sidecar = \"http://{admin}\" }}", server.url))
        .collect();
    let mut sidecars = Vec::new();
    for (server, admin) in cluster.servers().iter().zip(&admin) {
        let set = [
            ("SERVER__URL", server.url.clone()),
            ("LISTEN__CLIENT", any.to_string()),
            ("LISTEN__ADMIN", admin.to_string()),
            ("PEERS__DISCOVERY", "static".to_owned()),
            ("PEERS__STATIC", format!("[{}]", peers.join(", "))),
        ];
        let environment =
            set.into_iter().map(|(key, value)| (format!("KSQLDB_SIDECAR__{key}"), value.into())).collect();
        let config = Config::load(LoadOptions { environment, ..LoadOptions::default() })?;
        sidecars.push(Sidecar::start(config).await?);
    }
    Ok(sidecars)
}

/// Waits until every sidecar knows the tables and sees every server alive.
async fn ready(sidecars: &[Sidecar]) -> Result<(), Box<dyn Error>> {
    let all = async {
        for sidecar in sidecars {
            let mut changes = sidecar.published().changes();
            while !sidecar.published().load().is_complete() {
                changes.changed().await?;
            }
        }
        Ok::<(), Box<dyn Error>>(())
    };
    tokio::time::timeout(START, all).await.map_err(|_| "the sidecars did not find the cluster in time")?
}

fn addresses(cluster: &Cluster, sidecars: &[Sidecar]) -> Vec<(Side, SocketAddr)> {
    let native = cluster.servers().iter().map(|server| (Side::Native, server.address));
    let through = |side| sidecars.iter().map(move |sidecar| (side, sidecar.client_addr()));
    native.chain(through(Side::Sidecar)).chain(through(Side::Session)).collect()
}

async fn keep(cluster: &Cluster, sidecars: &[Sidecar]) -> Result<(), Box<dyn Error>> {
    let control = Control::start(cluster, 0).await?;
    println!("\nleft running until ctrl-c:");
    for (server, sidecar) in cluster.servers().iter().zip(sidecars) {
        println!(
            "  server {}   sidecar http://{}   admin http://{}",
            server.url,
            sidecar.client_addr(),
            sidecar.admin_addr()
        );
    }
    if let Some(sidecar) = sidecars.first() {
        let (client, admin) = (sidecar.client_addr(), sidecar.admin_addr());
        println!("open http://{admin}/ for the status page, or try:");
        println!("  curl -si http://{client}/query -d '{{\"ksql\":\"SELECT * FROM TL WHERE K='\\''k1'\\'';\"}}'");
        println!("  curl -s http://{admin}/explain -d \"SELECT * FROM TL WHERE K='k1';\"");
        println!("  curl -s http://{admin}/metrics | grep routing_decisions");
        println!("  curl -s http://{admin}/clusterStatus");
        println!("  curl -s http://{}/fault -d '{{\"crash\":1}}'", control.address);
    }
    tokio::signal::ctrl_c().await?;
    Ok(())
}
