//! One server, in the form in which what is known of it arrives.

use super::HostSpec;
use crate::view::host::process;
use crate::view::placement::Placement;
use crate::view::report::Reports;
use crate::view::{HostState, HostView, Interval, Liveness, Moment, PeerWord, ServerVersion};
use std::sync::Arc;
use std::time::Duration;

/// What is known of a server.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub spec: HostSpec,
    pub liveness: Liveness,
    pub version: Option<ServerVersion>,
    pub incarnation: Option<i64>,
    /// See [`HostView::ran`].
    pub ran: Option<Interval>,
    pub ran_before: Option<(u64, Interval)>,
    /// What the sidecar beside it said last.
    pub peer: Option<PeerWord>,
    /// Since when its own placement shows nothing although others place partitions there.
    pub closing: Option<Moment>,
    pub reports: Arc<Reports>,
    pub placement: Option<Arc<Placement>>,
}

impl Host {
    pub fn new(spec: HostSpec, now: Moment) -> Self {
        Host {
            spec,
            liveness: Liveness::new(now),
            version: None,
            incarnation: None,
            ran: None,
            ran_before: None,
            peer: None,
            closing: None,
            reports: Arc::new(Reports::settled()),
            placement: None,
        }
    }

    /// Notes the incarnation of its process; a new one begins its reports anew.
    pub fn recognise(&mut self, incarnation: i64, at: Moment) {
        if self.incarnation.is_some_and(|known| known != incarnation) {
            self.interrupt();
            self.reports = Arc::default();
            self.placement = None;
        }
        self.incarnation = Some(incarnation);
        // one that is taken for dead may have lost its tasks, whatever it answers
        if self.liveness.state() != HostState::Dead {
            let from = self.ran.map_or(at, |ran| ran.from.min(at));
            self.ran = Some(Interval { from, to: self.ran.map_or(at, |ran| ran.to.max(at)) });
        }
    }

    /// It ended or stood still: from now on it runs anew.
    pub fn interrupt(&mut self) {
        if let Some(ran) = self.ran.take() {
            self.ran_before = Some((process(&self.spec.name, self.incarnation), ran));
        }
    }

    /// The server at `now`; what its sidecar said counts for `heard_for`.
    pub fn view(&self, draining: Option<Moment>, heard_for: Duration, now: Moment) -> HostView {
        let told = self.peer.filter(|word| word.closing && now.since(word.at) <= heard_for).map(|word| word.at);
        let drained = draining.filter(|_| self.spec.local);
        let (state, since) = match (self.liveness.state(), self.closing.or(drained).or(told)) {
            (HostState::Live, Some(closing)) => (HostState::Closing, closing),
            (state, _) => (state, self.liveness.since()),
        };
        HostView {
            name: Arc::clone(&self.spec.name),
            url: Arc::clone(&self.spec.url),
            state,
            since,
            last_ok: self.liveness.last_ok(),
            returned: self.liveness.returned(),
            suspected: self.liveness.suspected(),
            peer: self.peer,
            version: self.version,
            incarnation: self.incarnation,
            local: self.spec.local,
            ran: self.ran,
            ran_before: self.ran_before,
        }
    }
}
