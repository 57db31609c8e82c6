//! The skin: the model on real ports.

mod body;
mod insert;
mod io;
mod pull;
mod push;
mod route;
mod server;
mod websocket;

pub use body::{AnswerBody, Never};
pub use route::reply;
pub use server::Port;
pub use websocket::parameter;

use super::config::Version;
use super::model::{Model, Written};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Records that a push query may be behind before it loses some.
const WRITTEN_BEHIND: usize = 16_384;

/// What all servers of a cluster share.
pub struct Shared {
    model: Mutex<Model>,
    started: Instant,
    /// The version of every server.
    pub version: Version,
    /// The servers' ports.
    pub ports: Vec<Arc<Port>>,
    /// What is written, for push queries.
    pub written: broadcast::Sender<Arc<Written>>,
    /// The number of the next query id.
    pub next_id: AtomicU64,
    /// Running push queries by id.
    pub pushes: Mutex<HashMap<String, CancellationToken>>,
    /// How many push queries run.
    pub running: AtomicUsize,
}

impl Shared {
    /// Begins the life of a cluster.
    pub fn new(model: Model, ports: Vec<Arc<Port>>) -> Self {
        Shared {
            version: model.config.version,
            model: Mutex::new(model),
            started: Instant::now(),
            ports,
            written: broadcast::Sender::new(WRITTEN_BEHIND),
            next_id: AtomicU64::new(0),
            pushes: Mutex::default(),
            running: AtomicUsize::new(0),
        }
    }

    /// The model, brought to now.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.advance(self.started.elapsed());
        model
    }

    /// The ids of the running push queries.
    pub fn push_ids(&self) -> Vec<String> {
        self.pushes.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Opens, closes and stops ports as the model has it, and hands on what was written.
    pub fn follow(self: &Arc<Self>) {
        let (states, written) = {
            let mut model = self.model();
            let states: Vec<(bool, bool)> = model.hosts.iter().map(|h| (h.state.open(), h.paused)).collect();
            (states, model.take_written())
        };
        for (index, ((open, paused), port)) in states.into_iter().zip(&self.ports).enumerate() {
            port.gate.set(paused);
            port.set_open(open, self, index);
        }
        for record in written {
            // Without a push query nobody listens.
            _ = self.written.send(Arc::new(record));
        }
    }
}
