//! Where a request goes that the servers route themselves.

use super::Traffic;
use crate::view::{ClusterView, HostIndex, HostState, Moment};
use smallvec::SmallVec;

/// The servers to try with a request that is not pinned: the local one while it is fit, then the others.
///
/// A live server comes before one that is starting, and every known server is listed: a wrong belief about liveness must
/// not leave a request without an answer.
pub fn native_order(view: &ClusterView, traffic: &Traffic, now: Moment) -> SmallVec<[HostIndex; 4]> {
    let mut order: SmallVec<[HostIndex; 4]> = (0..view.hosts.len() as HostIndex).collect();
    order.sort_by_cached_key(|index| {
        let known = traffic.host(*index);
        let Some(host) = view.host(*index) else { return (u8::MAX, true, 0) };
        let broken = known.is_broken(host);
        let unfit = match host.state {
            HostState::Live if broken || known.is_shunned(host, now) => 1,
            HostState::Live => 0,
            HostState::Unknown if broken => 3,
            HostState::Unknown => 1,
            HostState::Starting => 2,
            HostState::Closing => 3,
            HostState::Dead => 4,
        };
        (unfit, !host.local, known.in_flight)
    });
    order
}
