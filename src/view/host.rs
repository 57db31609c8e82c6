//! Servers: names, addresses, states.

use super::{Interval, Moment, ServerVersion};
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

/// A server's name in `/clusterStatus`: `host:port` of its `application.server`.
pub type HostName = Arc<str>;

/// A server's place in [`ClusterView::hosts`](super::ClusterView::hosts) of one snapshot.
pub type HostIndex = u16;

/// What this sidecar itself has found out about a server. Nobody else's word enters here but that of the sidecar beside
/// it, which may say that it is closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostState {
    /// Not yet heard from; tried after every live server.
    Unknown,
    /// Answers over HTTP.
    Live,
    /// Answers, but with 503: it is starting or has been told to terminate.
    Starting,
    /// Its own `/clusterStatus` or answers show that it is shutting down.
    Closing,
    /// Missed the configured number of probes, or refuses connections.
    Dead,
}

impl HostState {
    /// Every state, in the order of the gauge's labels.
    pub const ALL: [HostState; 5] =
        [HostState::Unknown, HostState::Live, HostState::Starting, HostState::Closing, HostState::Dead];

    /// The label in metrics, logs and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            HostState::Unknown => "unknown",
            HostState::Live => "live",
            HostState::Starting => "starting",
            HostState::Closing => "closing",
            HostState::Dead => "dead",
        }
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server as one snapshot sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostView {
    /// Its name in `/clusterStatus`.
    pub name: HostName,
    /// Where it is dialled: scheme, host and port, no path.
    pub url: Arc<str>,
    /// Its state.
    pub state: HostState,
    /// Since when it has been in this state.
    pub since: Moment,
    /// When it last came back from the dead, or from starting.
    pub returned: Option<Moment>,
    /// When the newest probe that succeeded was sent; what traffic learned before it is out of date.
    pub last_ok: Option<Moment>,
    /// Its version, once `GET /info` told it.
    pub version: Option<ServerVersion>,
    /// Tells one life of its process from the next: its own `lastStatusUpdateMs`.
    pub incarnation: Option<i64>,
    /// Since when it seems to stand still or to have ended, and no probe sent later was answered: it is asked last.
    pub suspected: Option<Moment>,
    /// What the sidecar beside it said last.
    pub peer: Option<PeerWord>,
    /// Whether this sidecar runs beside it.
    pub local: bool,
    /// From when to when the process of that incarnation certainly ran without a pause that cost it its tasks.
    pub ran: Option<Interval>,
    /// The same of the process before it, or of this one before such a pause.
    pub ran_before: Option<(u64, Interval)>,
}

/// What the sidecar beside a server said in its newest heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWord {
    /// When it was heard.
    pub at: Moment,
    /// Whether it calls its server closing, as one that is drained is.
    pub closing: bool,
    /// Whether it takes this sidecar's server for closing, or dead, and so does not choose it.
    pub shuns_ours: bool,
    /// Its attempts under way at this sidecar's server.
    pub in_flight_at_ours: u32,
}

impl HostView {
    /// A number for its process: name and incarnation.
    pub fn process(&self) -> u64 {
        process(&self.name, self.incarnation)
    }
}

/// See [`HostView::process`]. The same on every sidecar.
pub(super) fn process(name: &str, incarnation: Option<i64>) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(name.as_bytes());
    hasher.write_u8(0xff);
    hasher.write_i64(incarnation.unwrap_or(0));
    hasher.finish()
}
