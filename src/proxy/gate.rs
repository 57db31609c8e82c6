//! The limits that a server sets for its own pull queries, kept in its place: pinned requests bypass them there.

use super::Proxy;
use crate::error::ProxyError;
use crate::view::{ClusterView, Moment};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What counts against the local server's limits.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// When the next query may be let in, if queries were spread evenly.
    next: Mutex<Moment>,
    under_way: AtomicU64,
}

/// A query that was let in.
#[derive(Debug)]
pub(super) struct Entered<'a>(&'a Gate);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much of its rate a server may be given at once: it counts by the second too.
const BURST: Duration = Duration::from_secs(1);

impl Proxy {
    /// Lets a lookup in, or refuses it in the server's words.
    pub(super) fn enter(&self, view: &ClusterView, now: Moment) -> Result<Entered<'_>, ProxyError> {
        let gate = &self.gate;
        if let Some(limit) = view.pull_limits.queries_per_second {
            let mut next = gate.next.lock().unwrap_or_else(PoisonError::into_inner);
            let from = (*next).max(now.back(BURST));
            if from > now {
                return Err(overloaded(format!(
                    "Host is at rate limit for pull queries. Currently set to {limit} qps."
                )));
            }
            *next = from + Duration::from_secs(1).div_f64(limit.max(1) as f64);
        }
        let entered = Entered(gate);
        let under_way = gate.under_way.fetch_add(1, Ordering::Relaxed);
        match view.pull_limits.concurrent {
            Some(limit) if under_way >= limit => Err(overloaded(format!(
                "Host is at concurrency limit for pull queries. Currently set to {limit} maximum concurrent operations."
            ))),
            _ => Ok(entered),
        }
    }
}

fn overloaded(message: String) -> ProxyError {
    ProxyError::Overloaded { message }
}
