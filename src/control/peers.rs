//! Heartbeats between sidecars, after KLIP-12: each learns of the other's incarnation and of its server's state.
//!
//! What a peer says of its own server is a reason to probe that server at once, never a verdict: liveness is this sidecar's
//! own evidence.

use super::fetch::Fetch;
use super::membership::Member;
use crate::config::Config;
use crate::view::{Ask, Heartbeat, HostState, MESSAGE_VERSION, Published};
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
    interval: Duration,
    timeout: Duration,
}

impl<F: Fetch> Beat<F> {
    pub fn new(
        config: &Config,
        fetch: Arc<F>,
        published: Arc<Published>,
        asks: mpsc::Sender<Ask>,
        member: &Member,
        incarnation: Arc<str>,
    ) -> Option<Self> {
        let sidecar = member.sidecar.clone()?;
        let (interval, timeout) = (config.health.interval, config.health.timeout);
        Some(Beat { fetch, published, asks, sidecar, incarnation, interval, timeout })
    }

    /// Beats until aborted; a peer that does not answer is simply asked again.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let url = format!("{}/heartbeat", self.sidecar);
        loop {
            ticks.tick().await;
            let Ok(message) = serde_json::to_string(&self.own()) else { continue };
            let Ok(answer) = self.fetch.post(&url, message, self.timeout).await else { continue };
            if let Ok(heard) = serde_json::from_slice::<Heartbeat>(&answer.body)
                && self.asks.send(Ask::Heard(heard)).await.is_err()
            {
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
