//! A sidecar that takes over from another one on the same ports.

use crate::cluster::support::{Rig, client, free_address, sidecar, until};
use ksqldb_sidecar::emulator::ClusterConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;

/// Reads over kept connections until told to end; gives how many reads were answered and the first failure.
async fn read(address: SocketAddr, ended: Arc<AtomicBool>) -> (usize, Option<String>) {
    let (client, mut answered) = (client(), 0);
    let body = serde_json::json!({"ksql": "SELECT * FROM TL WHERE K='k1';", "streamsProperties": {}}).to_string();
    while !ended.load(Ordering::Relaxed) {
        match client.post(format!("http://{address}/query")).body(body.clone()).send().await {
            Ok(response) if response.status() == 200 => answered += 1,
            Ok(response) => return (answered, Some(response.status().to_string())),
            Err(error) => return (answered, Some(format!("{error:?}"))),
        }
    }
    (answered, None)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_one_sidecar_takes_over_from_another() {
    let rig = Rig::start(ClusterConfig { tables: vec!["TL".into()], ..ClusterConfig::default() }).await;
    let server = rig.cluster.servers()[0].url.clone();
    let (address, admin) = (free_address().to_string(), free_address().to_string());
    let set = [
        ("SERVER__URL", &*server),
        ("LISTEN__CLIENT", &address),
        ("LISTEN__ADMIN", &admin),
        ("LISTEN__REUSE_PORT", "true"),
    ];
    let old = sidecar(&set).await;
    let ended = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    (0..4).for_each(|_| _ = readers.spawn(read(address.parse().unwrap(), Arc::clone(&ended))));
    let new = sidecar(&set).await;
    until(&new, "the new one knows the tables", |view| !view.tables.is_empty()).await;
    old.shutdown().await;
    ended.store(true, Ordering::Relaxed);
    for (answered, failure) in readers.join_all().await {
        assert_eq!(failure, None, "after {answered} answers");
        assert!(answered > 0);
    }
    new.shutdown().await;
    rig.stop().await;
}
