//! Pull queries that wait for another server.

use super::Shared;
use crate::emulator::answer::{Answer, Shape};
use crate::emulator::envelope::Envelope;
use crate::emulator::exchange::{Exchange, pull, timed_out};
use crate::emulator::query::{Options, Outcome};
use crate::emulator::statement::Select;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a query that waits for another server looks whether it is back.
const LOOK: Duration = Duration::from_millis(20);

/// The answer to a pull query, waiting where the server would wait.
pub async fn answer(shared: &Arc<Shared>, server: usize, select: &Select, envelope: &Envelope, shape: Shape) -> Answer {
    let began = Instant::now();
    loop {
        // The lock is released before anything is waited for.
        let exchange = pull(&mut shared.model(), server, select, envelope, shape);
        match exchange {
            Exchange::Answered(answer) => return answer,
            Exchange::Waits { on, lost } if !back(shared, server, on, lost, began).await => {
                return timed_out(&mut shared.model(), server, select, envelope, shape);
            }
            _ => {}
        }
    }
}

/// The rows of a pull query, for the websocket; `None` if it waited in vain.
pub async fn rows(
    shared: &Arc<Shared>,
    server: usize,
    select: &Select,
    text: &str,
    options: &Options,
) -> Option<Outcome> {
    let began = Instant::now();
    loop {
        let outcome = shared.model().pull(server, select, text, options);
        match outcome {
            Outcome::Waits { on, lost } if !back(shared, server, on, lost, began).await => return None,
            Outcome::Waits { .. } => {}
            done => return Some(done),
        }
    }
}

/// Waits until a server can be reached again; false after the forwarding timeout.
async fn back(shared: &Arc<Shared>, server: usize, on: usize, lost: bool, began: Instant) -> bool {
    loop {
        tokio::time::sleep(LOOK).await;
        let model = shared.model();
        if began.elapsed() >= model.config.forwarding_timeout {
            return false;
        }
        if !lost && model.hosts.get(on).is_some_and(|h| !h.paused) && !model.cut(server, on) {
            return true;
        }
    }
}
