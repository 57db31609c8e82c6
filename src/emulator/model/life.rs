//! The phases of a server's life.

use super::{Event, Model, State};
use std::sync::Arc;
use std::time::Duration;

/// The order in which states follow each other in [`Event::Enter`].
const STATES: [State; 9] = [
    State::Down,
    State::Booting,
    State::Starting,
    State::Joining,
    State::Ready,
    State::Draining,
    State::PendingShutdown,
    State::NotQueryable,
    State::WorkersClosed,
];

/// From the first answer of a started server until the others' heartbeats know it again (`observed.md`: about 2 s).
const DISCOVERY: f64 = 0.8;

impl Model {
    pub(super) fn enter_later(&mut self, host: usize, state: State, after: Duration) {
        let epoch = self.hosts.get(host).map_or(0, |h| h.epoch);
        let state = STATES.iter().position(|s| *s == state).unwrap_or(0) as u8;
        self.schedule(after, Event::Enter { host, epoch, state });
    }

    pub(super) fn enter(&mut self, index: usize, state: u8) {
        let state = STATES.get(usize::from(state)).copied().unwrap_or(State::Down);
        let phases = self.config.phases;
        let now_ms = self.clock_ms(index);
        let Some(host) = self.hosts.get_mut(index) else { return };
        host.state = state;
        let epoch = host.epoch;
        match state {
            State::Starting => self.enter_later(index, State::Joining, phases.starting),
            State::Joining => {
                host.incarnation_ms = now_ms;
                self.schedule(phases.joining.mul_f64(DISCOVERY), Event::Discover { host: index, epoch });
                self.schedule(phases.joining, Event::Join { host: index, epoch });
            }
            State::PendingShutdown => {
                self.leave_tasks(index);
                self.expire_later(index, true);
                self.enter_later(index, State::NotQueryable, phases.pending_shutdown);
            }
            State::NotQueryable => self.enter_later(index, State::WorkersClosed, phases.not_queryable),
            State::WorkersClosed => self.enter_later(index, State::Down, phases.workers_closed),
            _ => {}
        }
        self.refresh_links();
    }

    pub(super) fn start(&mut self, index: usize) {
        let servers = self.hosts.len();
        let Some(host) = self.hosts.get_mut(index).filter(|h| h.state == State::Down) else { return };
        host.epoch += 1;
        host.state = State::Booting;
        host.paused = false;
        host.discovered = false;
        host.placement = None;
        host.replicas.clear();
        host.reports = vec![Default::default(); servers];
        self.expire_later(index, false);
        self.enter_later(index, State::Starting, self.config.phases.boot);
    }

    pub(super) fn close(&mut self, index: usize) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(index).filter(|h| h.state.open()) else { return };
        host.epoch += 1;
        let serving = host.state == State::Ready;
        host.state = if serving { State::Draining } else { State::Down };
        host.closing_since = now;
        match serving {
            true => self.enter_later(index, State::PendingShutdown, self.config.phases.draining),
            false => self.expire_later(index, false),
        }
        self.refresh_links();
    }

    pub(super) fn crash(&mut self, index: usize) {
        let Some(host) = self.hosts.get_mut(index) else { return };
        let beats = host.state.processes() && !host.paused;
        host.epoch += 1;
        host.state = State::Down;
        host.paused = false;
        host.replicas.clear();
        self.pending.remove(&index);
        self.expire_later(index, beats);
        self.refresh_links();
    }

    pub(super) fn pause(&mut self, index: usize) {
        let Some(host) = self.hosts.get_mut(index).filter(|h| h.state.open() && !h.paused) else { return };
        let beats = host.state.processes();
        host.epoch += 1;
        host.paused = true;
        self.expire_later(index, beats);
        self.refresh_links();
    }

    pub(super) fn resume(&mut self, index: usize) {
        let Some(host) = self.hosts.get_mut(index).filter(|h| h.paused) else { return };
        host.epoch += 1;
        host.paused = false;
        let (epoch, state, host_placement) = (host.epoch, host.state, host.placement.clone());
        // A server that was stopped in a phase of its start or end goes on with it from there.
        match state {
            State::Starting => self.enter_later(index, State::Joining, self.config.phases.starting),
            State::Draining => self.enter_later(index, State::PendingShutdown, Duration::from_millis(100)),
            State::PendingShutdown | State::NotQueryable | State::WorkersClosed => {
                self.enter_later(index, State::Down, self.config.phases.workers_closed);
            }
            _ => {}
        }
        // What the group decided in the meantime it learns after a while, and joins again.
        let current = host_placement.is_some_and(|p| Arc::ptr_eq(&p, &self.placement)) && self.members.contains(&index);
        if state == State::Joining || (state == State::Ready && !current) {
            let back = self.jitter(1000, 2000);
            self.schedule(back, Event::Join { host: index, epoch });
            self.schedule(back.mul_f64(DISCOVERY), Event::Discover { host: index, epoch });
        }
        self.refresh_links();
    }

    pub(super) fn discover(&mut self, index: usize) {
        if let Some(host) = self.hosts.get_mut(index) {
            host.discovered = true;
        }
        self.refresh_links();
    }

    /// Ends the membership of a server that falls silent now, or of one that has been silent, when its session times out.
    fn expire_later(&mut self, index: usize, silent_from_now: bool) {
        let spread = self.jitter(0, 500);
        let timeout = self.config.session_timeout + self.config.phases.rebalance + spread;
        let Some(host) = self.hosts.get_mut(index) else { return };
        if silent_from_now {
            host.expires = self.now + timeout;
        }
        let (epoch, left) = (host.epoch, host.expires.saturating_sub(self.now));
        self.schedule(left, Event::Expire { host: index, epoch });
    }

    /// Stops the tasks of a closing server in order: what they hold is committed and left on disk.
    fn leave_tasks(&mut self, index: usize) {
        self.commit(index);
        if let Some(host) = self.hosts.get_mut(index) {
            host.disk = host.replicas.drain().map(|(slot, replica)| (slot, replica.position)).collect();
            host.placement = None;
        }
    }

    /// Recomputes who hears whose heartbeats.
    pub(super) fn refresh_links(&mut self) {
        let now = self.now;
        for (from, row) in self.links.iter_mut().enumerate() {
            for (to, link) in row.iter_mut().enumerate() {
                let (Some(sender), Some(receiver)) = (self.hosts.get(from), self.hosts.get(to)) else { continue };
                // A beat whose time is outside the receiver's window of 2 s does not count.
                let believed = (sender.skew_ms - receiver.skew_ms).abs() <= 2000;
                let sends = sender.talks() && sender.discovered;
                link.set(sends && believed && !self.cuts.contains(&(from, to)), now);
            }
        }
    }
}
