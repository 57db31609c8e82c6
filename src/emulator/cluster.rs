//! A running cluster: started, written to, broken and shut down from a test or the demonstration.

use super::config::ClusterConfig;
use super::datum::Datum;
use super::fault::Fault;
use super::http::{Port, Shared};
use super::model::{Model, Position, State, Truth, WriteError};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;

/// How often the ports follow the model.
const TICK: Duration = Duration::from_millis(5);

/// An emulated server.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    /// Its name in `/clusterStatus`.
    pub name: String,
    /// Its address; it stays the same over restarts.
    pub address: SocketAddr,
    /// Its URL, without a final slash.
    pub url: String,
}

/// A cluster on real ports.
pub struct Cluster {
    shared: Arc<Shared>,
    servers: Vec<ServerHandle>,
    driver: JoinHandle<()>,
}

impl Cluster {
    /// Binds the ports and starts with every server ready.
    ///
    /// # Errors
    /// A port that cannot be bound.
    pub async fn start(mut config: ClusterConfig) -> io::Result<Self> {
        let port = |i: usize| config.ports.get(i).copied().unwrap_or(0);
        let ports =
            (0..config.servers).map(|i| Port::reserve(port(i)).map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
        let handle = |(index, port): (usize, &Arc<Port>)| {
            let address = port.address.to_string();
            let url = format!("http://{address}");
            ServerHandle { url, address: port.address, name: config.advertised.get(index).cloned().unwrap_or(address) }
        };
        let servers: Vec<ServerHandle> = ports.iter().enumerate().map(handle).collect();
        if config.epoch_ms == 0 {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            config.epoch_ms = i64::try_from(since.as_millis()).unwrap_or_default();
        }
        let names = servers.iter().map(|s| s.name.clone()).collect();
        let model = Model::new(config, names).map_err(io::Error::other)?;
        let shared = Arc::new(Shared::new(model, ports));
        shared.follow();
        let driver = tokio::spawn(drive(shared.clone()));
        Ok(Cluster { shared, servers, driver })
    }

    /// The servers, by index.
    pub fn servers(&self) -> &[ServerHandle] {
        &self.servers
    }

    /// Does a fault now.
    pub fn inject(&self, fault: Fault) {
        self.shared.model().inject(fault);
        self.shared.follow();
    }

    /// Writes a record into a stream; without a value, one larger than all before.
    ///
    /// A key is a string, a number, an object for a STRUCT, or an array for several columns.
    ///
    /// # Errors
    /// An unknown or read-only source, or a key of another type.
    pub fn write(&self, stream: &str, key: &Value, value: Option<i64>) -> Result<Position, WriteError> {
        self.shared.model().put(stream, key, value)
    }

    /// Every row that a table has had for a key with the time it was written, oldest first; the last 4,096.
    pub fn truth(&self, table: &str, key: &Value) -> Vec<Truth> {
        self.shared.model().truth(table, &Datum::key_from_json(key))
    }

    /// The `V` of a key's newest record in a table's changelog as it was at `until`; `None` without one.
    pub fn logged(&self, table: &str, key: &Value, until: Duration) -> Option<i64> {
        self.shared.model().logged(table, key, until)
    }

    /// How many changelog records a server's replica of a partition holds; `None` if it has none.
    pub fn position(&self, server: usize, table: &str, partition: u32) -> Option<u64> {
        self.shared.model().position(server, table, partition)
    }

    /// The time that [`truth`](Self::truth) counts in.
    pub fn now(&self) -> Duration {
        self.shared.model().now()
    }

    /// The state of a server.
    pub fn state(&self, server: usize) -> Option<State> {
        self.shared.model().hosts.get(server).map(|h| h.state)
    }

    /// The server that is active for a partition of a table, and its standbys, as the group has it now.
    pub fn holders(&self, table: &str, partition: u32) -> Option<(usize, Vec<usize>)> {
        let model = self.shared.model();
        let query = model.catalogue.query_of(table)?;
        let assignment = model.group_placement().get(query)?.get(partition as usize)?.clone();
        Some((assignment.active, assignment.standbys))
    }

    /// Push queries that run, over all servers.
    pub fn push_queries(&self) -> usize {
        self.shared.running.load(Ordering::Relaxed)
    }

    /// What the control port and the writer share with the cluster.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends every server at once.
    pub async fn shutdown(self) {
        self.end();
    }

    /// Ends every server at once; what is asked afterwards is refused.
    pub fn end(&self) {
        self.driver.abort();
        for (index, port) in self.shared.ports.iter().enumerate() {
            port.gate.set(false);
            port.set_open(false, &self.shared, index);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end();
    }
}

async fn drive(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.follow();
    }
}
