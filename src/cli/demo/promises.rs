//! Readers that ask for a bound, and hold the answer against what the cluster knows to be true.

use super::reader::{Answer, PATIENCE, ask};
use super::report::{Promise, Verdict};
use crate::app::Sidecar;
use crate::emulator::Cluster;
use crate::route::locate;
use crate::sql::classify;
use crate::view::Published;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The bounds that the readers ask for. Servers report every second here.
pub(super) const RECORDS: i64 = 20;
pub(super) const STALENESS: Duration = Duration::from_secs(5);

/// One client of one promise, which goes from sidecar to sidecar.
pub(super) struct Asker {
    cluster: Arc<Cluster>,
    promise: Promise,
    sidecars: Vec<(SocketAddr, Arc<Published>)>,
    client: reqwest::Client,
    random: StdRng,
    keys: usize,
}

impl Asker {
    pub fn new(
        cluster: Arc<Cluster>,
        promise: Promise,
        sidecars: &[Sidecar],
        keys: usize,
        seed: u64,
    ) -> Result<Self, reqwest::Error> {
        let sidecars = sidecars.iter().map(|sidecar| (sidecar.client_addr(), Arc::clone(sidecar.published())));
        let client = super::reader::client()?;
        let random = StdRng::seed_from_u64(seed ^ promise as u64);
        Ok(Asker { cluster, promise, sidecars: sidecars.collect(), client, random, keys })
    }

    /// Asks until the task is aborted; `note` is told of every verdict.
    pub async fn run(mut self, every: Duration, note: impl Fn(Promise, Verdict)) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let key = format!("k{}", self.random.random_range(0..self.keys));
            let place = self.random.random_range(0..self.sidecars.len());
            let Some((address, published)) = self.sidecars.get(place) else { return };
            let verdict = self.verdict(*address, published, &key).await;
            note(self.promise, verdict);
        }
    }

    async fn verdict(&self, address: SocketAddr, published: &Published, key: &str) -> Verdict {
        let statement = format!("SELECT V FROM TL WHERE K='{key}';");
        let begun = self.cluster.now();
        let (header, value) = match self.promise {
            Promise::Offset => ("X-Ksqldb-Sidecar-Max-Offset-Lag", RECORDS.to_string()),
            Promise::Time => ("X-Ksqldb-Sidecar-Max-Staleness", format!("{}ms", STALENESS.as_millis())),
            Promise::Written => ("X-Ksqldb-Sidecar-Token", "written".to_owned()),
        };
        let due = match self.promise {
            Promise::Offset => None,
            Promise::Time => self.logged(key, begun.saturating_sub(STALENESS)),
            Promise::Written => match self.cluster.write("S", &Value::from(key), None) {
                Ok(written) => written.value,
                Err(error) => return Verdict::Broken(error.to_string()),
            },
        };
        let view = published.load();
        let slot = locate(&classify(&statement), &view).ok();
        let request = self.client.post(format!("http://{address}/query"));
        let request = request.header(header, value).header("X-Ksqldb-Sidecar-Wait", PATIENCE);
        let (answer, served_by) = match ask(request, &statement).await {
            Ok(told) => told,
            Err(error) => return Verdict::Broken(error.to_string()),
        };
        match answer {
            Answer::Refused => Verdict::Refused,
            Answer::Error(error) => Verdict::Broken(error),
            Answer::Empty => Verdict::Broken(format!("{key} exists, and came back empty")),
            Answer::Value(value) if due.is_some_and(|due| value < due) => {
                Verdict::Broken(format!("{key} is {value}, {due:?} was due"))
            }
            Answer::Value(_) => {
                let served_by = self.cluster.servers().iter().position(|server| server.name == served_by);
                let reaches = slot.zip(served_by).is_none_or(|(located, server)| {
                    let end = view.slot(&located.table, located.partition).end;
                    let position = self.cluster.position(server, "TL", located.partition);
                    end.zip(position).is_none_or(|(end, position)| position as i64 >= end - RECORDS)
                });
                match self.promise == Promise::Offset && !reaches {
                    true => {
                        Verdict::Broken(format!("the replica that answered for {key} lacked more than was allowed"))
                    }
                    false => Verdict::Kept,
                }
            }
        }
    }

    fn logged(&self, key: &str, until: Duration) -> Option<i64> {
        self.cluster.logged("TL", &Value::from(key), until)
    }
}
