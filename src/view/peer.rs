//! What sidecars tell each other, and what requests ask of the control loops.
//!
//! Messages are JSON, carry the version of their form, and are read leniently: unknown members are ignored, so that
//! neighbouring releases understand each other. Times travel as ages, never as clock readings.

use super::{HostName, HostState, Moment, Published};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The version of these messages.
pub const MESSAGE_VERSION: u32 = 1;

/// `POST /heartbeat`, and the answer to it: who is here, and how its server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// [`MESSAGE_VERSION`].
    pub version: u32,
    /// The sending sidecar's incarnation, new after each start.
    pub incarnation: String,
    /// The name of its server in `/clusterStatus`; empty while it does not know it.
    pub server: String,
    /// The sending sidecar's monotonic clock, milliseconds; to read the times in its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ms: Option<u64>,
    /// Its server's state as it sees it, one of the labels of [`HostState`](super::HostState).
    pub state: String,
    /// Whether its server seems to stand still.
    #[serde(default)]
    pub suspected: bool,
    /// What it believes of the receiver's server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_yours: Option<Belief>,
}

impl Heartbeat {
    /// The own heartbeat for the sidecar beside the server `to`.
    pub fn of(published: &Published, incarnation: &str, clock_ms: Option<u64>, to: &str) -> Self {
        let view = published.load();
        let own = view.local().map(|(_, host)| host);
        let of_yours = view.hosts.iter().find(|host| *host.name == *to).map(|host| Belief {
            state: host.state.as_str().to_owned(),
            in_flight: published.in_flight(&host.name).load(Ordering::Relaxed),
        });
        Heartbeat {
            version: MESSAGE_VERSION,
            incarnation: incarnation.to_owned(),
            server: own.map(|host| host.name.to_string()).unwrap_or_default(),
            clock_ms,
            state: own.map_or(HostState::Unknown, |host| host.state).as_str().to_owned(),
            suspected: own.is_some_and(|host| host.suspected.is_some()),
            of_yours,
        }
    }
}

/// What a sidecar believes of another one's server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Belief {
    /// Its state, one of the labels of [`HostState`](super::HostState).
    pub state: String,
    /// Attempts under way there.
    pub in_flight: u32,
}

/// The answer to `GET /lag`: what the own server last said to `GET /clusterStatus`, with ages.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerLag<'a> {
    /// [`MESSAGE_VERSION`].
    pub version: u32,
    /// The name of the server.
    pub server: String,
    /// How long ago its answer arrived, milliseconds.
    pub age_ms: u64,
    /// How long that exchange took, milliseconds.
    pub took_ms: u64,
    /// Age of the server's own lag report when its answer arrived, by the clock that both share, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_age_ms: Option<u64>,
    /// The answer, as it came.
    #[serde(borrow)]
    pub cluster_status: &'a RawValue,
}

/// The sidecar beside another server, as heartbeats to it show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSidecar {
    /// Its server.
    pub server: HostName,
    /// Base address of its admin port.
    pub url: Arc<str>,
    /// Whether it answers.
    pub answers: bool,
    /// Whether it has ever answered; if not, there may be none.
    pub heard: bool,
    /// Since when it has, or has not.
    pub since: Moment,
}

/// What a request or a peer asks of the control loops; sent without waiting, dropped if they are behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A table that the catalogue does not know, or that a server unexpectedly calls not queryable.
    RefreshCatalogue,
    /// A server that refused or broke a connection, by name: probe it now.
    Probe(String),
    /// A table by name: up to when has its query processed its input?
    Process(String),
    /// What a peer's heartbeat said.
    Heard(Heartbeat),
    /// The own server is about to be stopped: no query may be sent there. Or it is not, after all.
    Drain(bool),
}
