//! Heartbeats between sidecars, after KLIP-12: each learns of the other's incarnation and of its server's state.
//!
//! What a peer says of its own server is a reason to probe that server at once, never a verdict: liveness is this sidecar's
//! own evidence.

use super::fetch::Fetch;
use super::keeper::Event;
use crate::clock::Clock;
use crate::view::{Ask, ClockExchange, Heartbeat, HostState, Interval, MESSAGE_VERSION, Published};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Sends heartbeats to one peer.
pub(super) struct Beat<F> {
    pub fetch: Arc<F>,
    pub published: Arc<Published>,
    pub asks: mpsc::Sender<Ask>,
    pub sidecar: String,
    pub incarnation: Arc<str>,
    pub clock: Clock,
    pub events: mpsc::Sender<Event>,
    pub interval: Duration,
    pub timeout: Duration,
}

impl<F: Fetch> Beat<F> {
    /// Beats until aborted; a peer that does not answer is simply asked again.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let url = format!("{}/heartbeat", self.sidecar);
        loop {
            ticks.tick().await;
            let Ok(message) = serde_json::to_string(&self.own()) else { continue };
            let from = self.clock.now();
            let Ok(answer) = self.fetch.post(&url, message, self.timeout).await else { continue };
            let here = Interval { from, to: self.clock.now() };
            let Ok(heard) = serde_json::from_slice::<Heartbeat>(&answer.body) else { continue };
            if let (Ok(incarnation), Some(clock)) = (u64::from_str_radix(&heard.incarnation, 16), heard.clock_ms) {
                let exchange = ClockExchange { here, theirs: Duration::from_millis(clock) };
                let _ = self.events.send(Event::Clock(incarnation, exchange)).await; // the next heartbeat brings another
            }
            if self.asks.send(Ask::Heard(heard)).await.is_err() {
                return;
            }
        }
    }

    fn own(&self) -> Heartbeat {
        let view = self.published.load();
        let own = view.local().map(|(_, host)| host);
        Heartbeat {
            version: MESSAGE_VERSION,
            incarnation: self.incarnation.to_string(),
            clock_ms: None,
            server: own.map(|host| host.name.to_string()).unwrap_or_default(),
            state: own.map_or(HostState::Unknown, |host| host.state).as_str().to_owned(),
        }
    }
}

/// Whether a peer's word about its own server gives reason to probe it: it says other than this sidecar believes.
pub(super) fn contradicts(heard: &Heartbeat, published: &Published) -> bool {
    let view = published.load();
    let known = view.hosts.iter().find(|host| *host.name == *heard.server);
    known.is_some_and(|host| !host.local && host.state.as_str() != heard.state)
}
