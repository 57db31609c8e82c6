//! What a request asks of the replicas that may answer it.

use crate::config::Level;
use crate::view::{HostIndex, Moment};

/// What a request asks of the replicas that may answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most records that the answering replica may lack, by its newest report; `None`: no bound.
    pub max_offset_lag: Option<u64>,
    /// The replica must hold everything that was logged until then; `None`: no bound.
    pub complete_until: Option<Moment>,
    /// The replica must not be older than what the request's session read of this slot.
    pub after: Option<After>,
    /// Which replicas may answer.
    pub level: Level,
    /// The host that the request's session read last, which is asked first if it is as fit as any.
    pub favourite: Option<HostIndex>,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_offset_lag: None, complete_until: None, after: None, level: Level::Latest, favourite: None }
    }
}

/// What a session read of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The replica must hold everything that was logged until then, or be the one that was read; `None`: nothing can show
    /// yet that a replica does, as the active that was read is gone.
    pub until: Option<Moment>,
    /// The host that was read, if the same process still runs there, and when it was read, at the earliest.
    pub same: Option<(HostIndex, Moment)>,
}

impl Options {
    /// Whether the plan needs [slots with history](crate::view::ClusterView::slot_with_history).
    pub fn need_history(&self) -> bool {
        self.complete_until.is_some() || self.after.is_some()
    }

    /// Whether a replica may be refused for its freshness or role.
    pub fn are_bounds(&self) -> bool {
        self.max_offset_lag.is_some() || self.need_history() || self.level == Level::Active
    }
}
