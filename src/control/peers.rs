//! Heartbeats between sidecars, after KLIP-12: each learns of the other's incarnation and of its server's state.
//!
//! What a peer says of its own server is a reason to probe that server at once, and to ask it last until it has answered,
//! never a verdict: liveness is this sidecar's own evidence. A change of the own server's state is told at once, over
//! connections that stand.

use super::fetch::Fetch;
use super::keeper::Event;
use crate::clock::Clock;
use crate::view::{
    Ask, Belief, ClockExchange, ClusterView, Heartbeat, HostName, HostState, Interval, Moment, PeerWord, Published,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Sends heartbeats to one peer.
pub(super) struct Beat<F> {
    pub fetch: Arc<F>,
    pub published: Arc<Published>,
    pub asks: mpsc::Sender<Ask>,
    /// The server beside the peer.
    pub host: HostName,
    pub sidecar: String,
    pub incarnation: Arc<str>,
    pub clock: Clock,
    pub events: mpsc::Sender<Event>,
    pub interval: Duration,
    pub timeout: Duration,
    /// Consecutive misses after which the sidecar is said not to answer.
    pub missed_threshold: u32,
}

impl<F: Fetch> Beat<F> {
    /// Beats until aborted; a peer that does not answer is simply asked again.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let url = format!("{}/heartbeat", self.sidecar);
        let (mut changes, mut told) = (self.published.changes(), None);
        let mut missed = 0_u32;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                Ok(()) = changes.changed() => {
                    if told == own_state(&self.published.load()) {
                        continue;
                    }
                }
            }
            told = own_state(&self.published.load());
            let own = Heartbeat::of(&self.published, &self.incarnation, None, &self.host);
            let Ok(message) = serde_json::to_string(&own) else { continue };
            let from = self.clock.now();
            let heard = match self.fetch.post(&url, message, self.timeout).await {
                Ok(answer) => serde_json::from_slice::<Heartbeat>(&answer.body).ok(),
                Err(_) => None,
            };
            let here = Interval { from, to: self.clock.now() };
            missed = if heard.is_some() { 0 } else { missed.saturating_add(1) };
            if missed == 0 || missed >= self.missed_threshold {
                self.published.note_sidecar(&self.host, &self.sidecar, missed == 0, here.to);
            }
            let Some(heard) = heard else { continue };
            if let (Ok(incarnation), Some(clock)) = (u64::from_str_radix(&heard.incarnation, 16), heard.clock_ms) {
                let exchange = ClockExchange { here, theirs: Duration::from_millis(clock) };
                let _ = self.events.send(Event::Clock(incarnation, exchange)).await; // the next heartbeat brings another
            }
            if self.asks.send(Ask::Heard(heard)).await.is_err() {
                return;
            }
        }
    }
}

/// The own server's state, and whether it is suspect.
fn own_state(view: &ClusterView) -> Option<(HostState, bool)> {
    view.local().map(|(_, host)| (host.state, host.suspected.is_some()))
}

/// What of a heartbeat is evidence.
pub(super) fn word(heard: &Heartbeat, now: Moment) -> PeerWord {
    let of_ours = heard.of_yours.as_ref();
    let shuns =
        |belief: &Belief| [HostState::Closing, HostState::Dead].iter().any(|state| state.as_str() == belief.state);
    PeerWord {
        at: now,
        closing: heard.state == HostState::Closing.as_str(),
        shuns_ours: of_ours.is_some_and(shuns),
        in_flight_at_ours: of_ours.map_or(0, |belief| belief.in_flight),
    }
}

/// Whether a peer says that its server stands still or is dead.
pub(super) fn gives_up(heard: &Heartbeat) -> bool {
    heard.suspected || heard.state == HostState::Dead.as_str()
}

/// Whether a peer's word about its own server gives reason to probe it: it says other than this sidecar believes.
pub(super) fn contradicts(heard: &Heartbeat, published: &Published) -> bool {
    let view = published.load();
    let known = view.hosts.iter().find(|host| *host.name == *heard.server);
    known.is_some_and(|host| !host.local && host.state.as_str() != heard.state)
}
