//! Ending a process without breaking the requests it is serving.

use std::future::Future;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Starts the end and waits for it; one for all listeners of a process.
///
/// What hyper cannot see (upgraded connections) is waited for as well, if it was started by [`DrainSignal::spawn`].
#[derive(Debug, Default)]
pub struct Drain {
    signal: DrainSignal,
}

/// Tells everything that may last (accept loops, connections, push streams, tunnels) that the process is ending.
#[derive(Clone, Debug, Default)]
pub struct DrainSignal {
    draining: CancellationToken,
    cut: CancellationToken,
    tasks: TaskTracker,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections and tunnels that were still open at the limit and were closed; 0 if all ended by themselves.
    pub cut: usize,
}

impl Drain {
    /// Nothing to wait for yet.
    pub fn new() -> Drain {
        Drain::default()
    }

    /// The end that connections and handlers watch.
    pub fn signal(&self) -> DrainSignal {
        self.signal.clone()
    }

    /// Ends everything: listeners close, idle connections close, busy ones after their answer, tunnels at once.
    ///
    /// Waits at most `limit`, then closes what is left and counts it.
    pub async fn drain(self, limit: Duration) -> Drained {
        let DrainSignal { draining, cut, tasks } = self.signal;
        draining.cancel();
        tasks.close();
        if tokio::time::timeout(limit, tasks.wait()).await.is_ok() {
            return Drained { cut: 0 };
        }
        let left = tasks.len();
        cut.cancel();
        tasks.wait().await;
        Drained { cut: left }
    }
}

impl DrainSignal {
    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Completes when the end begins; at once if it has.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Makes the drain wait until what is returned is dropped.
    pub fn hold(&self) -> TaskTrackerToken {
        self.tasks.token()
    }

    /// Runs a task that the drain waits for, and drops at its limit.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            cut.run_until_cancelled_owned(task).await;
        });
    }
}
