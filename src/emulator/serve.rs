//! The cluster as a program: `ksqldb-sidecar emulate`.

use super::cluster::Cluster;
use super::config::ClusterConfig;
use super::control::Control;
use super::fault::Fault;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The cluster.
    pub cluster: ClusterConfig,
    /// The control port; 0 is any.
    pub control_port: u16,
    /// Records written into `S` each second, over all its keys in turn; 0 for none.
    pub writes_per_second: u32,
}

/// Runs a cluster and prints how to use it, until `stop` is done.
///
/// # Errors
/// A port that cannot be bound.
pub async fn serve(options: ServeOptions, stop: impl Future<Output = ()>) -> io::Result<()> {
    let keys = options.cluster.keys;
    let cluster = Arc::new(Cluster::start(options.cluster).await?);
    let control = Control::start(&cluster, options.control_port).await?;
    let writer = (options.writes_per_second > 0).then(|| write_on(cluster.clone(), options.writes_per_second, keys));
    println!("{}", introduction(&cluster, &control));
    stop.await;
    writer.into_iter().for_each(|w| w.abort());
    drop(control);
    cluster.end();
    Ok(())
}

/// Writes to the keys of `S` in turn until the task is aborted.
pub fn write_on(cluster: Arc<Cluster>, per_second: u32, keys: usize) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
        for n in 0.. {
            ticks.tick().await;
            // `S` exists unless the cluster was cut to tables without it; then there is nothing to write.
            if cluster.write("S", &json!(format!("k{}", n % keys.max(1))), None).is_err() {
                return;
            }
        }
    })
}

fn introduction(cluster: &Cluster, control: &Control) -> String {
    let mut out = String::from("emulated ksqlDB servers:\n");
    for (index, server) in cluster.servers().iter().enumerate() {
        out += &format!("  {index}  {}\n", server.url);
    }
    let url = cluster.servers().first().map_or("", |s| s.url.as_str());
    let control = format!("http://{}", control.address);
    out += &format!(
        "\ntry\n  curl -s {url}/query -d '{{\"ksql\":\"SELECT * FROM TL WHERE K='\\''k1'\\'';\"}}'\n  curl -s {url}/clusterStatus\n  \
         curl -s {control}/state\n  curl -s {control}/write -d '{{\"key\":\"k1\"}}'\n  curl -s {control}/fault -d '{{\"crash\":2}}'\n  \
         curl -s {control}/fault -d '{{\"start\":2}}'\n  curl -s {control}/fault -d '\"heal\"'\nfaults: {}\n",
        Fault::EXAMPLES
    );
    out
}
