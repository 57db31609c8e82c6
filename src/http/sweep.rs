//! Closing connections that nobody uses.

use std::sync::{Arc, Weak};
use std::time::Duration;

/// A pool that can drop its idle connections.
pub(super) trait Sweep: Send + Sync + 'static {
    /// Closes what has been idle too long; `false` if nothing is left, and then the next connection starts a new sweeper.
    fn sweep(&self) -> bool;
}

/// Sweeps a pool at this interval until it is empty or gone.
pub(super) fn start<P: Sweep>(pool: &Arc<P>, every: Duration) {
    let pool: Weak<P> = Arc::downgrade(pool);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            if !pool.upgrade().is_some_and(|pool| pool.sweep()) {
                return;
            }
        }
    });
}
