//! Alive or not, from this sidecar's own probes, as KLIP-12 describes it: missed and received thresholds over a window.

use super::{HostState, Moment};
use std::collections::VecDeque;
use std::time::Duration;

/// When a server is declared dead and when alive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessSettings {
    /// Consecutive missed probes after which a server is dead, at least 1.
    pub missed_threshold: u32,
    /// Probes that must be answered within `window` before a dead server is alive again, at least 1.
    pub received_threshold: u32,
    /// How far back answered probes count.
    pub window: Duration,
}

/// What one probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// An answer over HTTP that is not a 503; 401 and 403 count, they only say that credentials are missing.
    Answered,
    /// A 503: starting, or told to terminate.
    NotReady,
    /// No answer in time, or an answer that is not HTTP.
    Missed,
    /// The connection was refused or reset: nothing listens there.
    Refused,
}

/// The state of one server, stepped by probes.
#[derive(Clone, Debug)]
pub struct Liveness {
    state: HostState,
    since: Moment,
    missed: u32,
    answered: VecDeque<Moment>,
    last_ok: Option<Moment>,
    heard: Option<Moment>,
    suspected: Option<Moment>,
    returned: Option<Moment>,
}

impl Liveness {
    /// A server not heard from yet.
    pub fn new(now: Moment) -> Self {
        Liveness {
            state: HostState::Unknown,
            since: now,
            missed: 0,
            answered: VecDeque::new(),
            last_ok: None,
            heard: None,
            suspected: None,
            returned: None,
        }
    }

    /// The state.
    pub fn state(&self) -> HostState {
        self.state
    }

    /// Since when.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// When the newest answered probe was sent.
    pub fn last_ok(&self) -> Option<Moment> {
        self.last_ok
    }

    /// When an answer last arrived; the detection time of a death is counted from here.
    pub fn last_heard(&self) -> Option<Moment> {
        self.heard
    }

    /// Since when it seems to stand still; see [`suspect`](Self::suspect).
    pub fn suspected(&self) -> Option<Moment> {
        self.suspected
    }

    /// When it last came back from the dead, or from starting.
    pub fn returned(&self) -> Option<Moment> {
        self.returned
    }

    /// Takes in a sign that a live server stands still or has ended, which is no proof; returns whether that is news.
    ///
    /// It is asked last until it answers a probe that was sent after the sign.
    pub fn suspect(&mut self, now: Moment) -> bool {
        if self.state != HostState::Live || self.suspected.is_some() {
            return false;
        }
        self.suspected = Some(now);
        true
    }

    /// Takes in one probe, sent at `sent` and settled at `now`; returns the state it left if the state changed.
    ///
    /// A refused connection is dead at once: the kernel itself says that no process listens. A server that was never
    /// heard from is alive at its first answer; one that was dead must answer `received_threshold` probes.
    pub fn probe(&mut self, probe: Probe, sent: Moment, now: Moment, settings: &LivenessSettings) -> Option<HostState> {
        if matches!(probe, Probe::Answered | Probe::NotReady) && self.suspected.is_some_and(|at| sent >= at) {
            self.suspected = None;
        }
        match probe {
            Probe::Answered => {
                self.missed = 0;
                self.heard = Some(now);
                self.last_ok = self.last_ok.max(Some(sent));
                self.answered.push_back(now);
                let horizon = now.back(settings.window);
                while self.answered.len() > settings.received_threshold as usize
                    || self.answered.front().is_some_and(|at| *at < horizon)
                {
                    self.answered.pop_front();
                }
                let enough = self.answered.len() >= settings.received_threshold as usize;
                match self.state {
                    HostState::Live => None,
                    HostState::Dead if !enough => None,
                    _ => self.enter(HostState::Live, now),
                }
            }
            Probe::NotReady => {
                self.missed = 0;
                self.heard = Some(now);
                self.answered.clear();
                let next = if self.state == HostState::Closing { HostState::Closing } else { HostState::Starting };
                self.enter(next, now)
            }
            Probe::Missed => {
                self.missed = self.missed.saturating_add(1);
                self.answered.clear();
                if self.missed >= settings.missed_threshold { self.enter(HostState::Dead, now) } else { None }
            }
            Probe::Refused => {
                self.missed = self.missed.saturating_add(1);
                self.answered.clear();
                self.enter(HostState::Dead, now)
            }
        }
    }

    fn enter(&mut self, state: HostState, now: Moment) -> Option<HostState> {
        if self.state == state {
            return None;
        }
        if state == HostState::Live && self.state != HostState::Unknown {
            self.returned = Some(now);
        }
        self.since = now;
        self.suspected = None;
        Some(std::mem::replace(&mut self.state, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: LivenessSettings =
        LivenessSettings { missed_threshold: 2, received_threshold: 2, window: Duration::from_secs(2) };

    fn run(probes: &[(u64, Probe)]) -> Liveness {
        let mut liveness = Liveness::new(Moment::EPOCH);
        for (at, probe) in probes {
            let at = Moment::from_millis(*at);
            liveness.probe(*probe, at, at, &SETTINGS);
        }
        liveness
    }

    #[test]
    fn dead_after_the_missed_threshold_and_alive_after_the_received_one() {
        use Probe::*;
        assert_eq!(run(&[(0, Answered)]).state(), HostState::Live);
        assert_eq!(run(&[(0, Answered), (200, Missed)]).state(), HostState::Live);
        assert_eq!(run(&[(0, Answered), (200, Missed), (400, Missed)]).state(), HostState::Dead);
        let dead = [(0, Answered), (200, Missed), (400, Missed), (600, Answered)];
        assert_eq!(run(&dead).state(), HostState::Dead);
        assert_eq!(run(&[&dead[..], &[(800, Answered)]].concat()).state(), HostState::Live);
        assert_eq!(run(&[&dead[..], &[(2700, Answered)]].concat()).state(), HostState::Dead, "outside the window");
        assert_eq!(run(&[&dead[..], &[(700, Missed), (800, Answered)]].concat()).state(), HostState::Dead);
    }

    #[test]
    fn a_suspicion_lasts_until_a_probe_that_was_sent_after_it_is_answered() {
        let at = Moment::from_millis;
        let mut liveness = run(&[(0, Probe::Answered)]);
        assert!(liveness.suspect(at(250)));
        assert!(!liveness.suspect(at(260)), "it is no news");
        liveness.probe(Probe::Answered, at(200), at(270), &SETTINGS);
        assert_eq!((liveness.state(), liveness.suspected()), (HostState::Live, Some(at(250))));
        liveness.probe(Probe::Answered, at(250), at(280), &SETTINGS);
        assert_eq!(liveness.suspected(), None);
        liveness.probe(Probe::Refused, at(300), at(300), &SETTINGS);
        assert!(!liveness.suspect(at(310)), "it is dead");
    }

    #[test]
    fn a_refused_connection_is_dead_at_once_and_a_503_is_starting() {
        use Probe::*;
        assert_eq!(run(&[(0, Answered), (200, Refused)]).state(), HostState::Dead);
        assert_eq!(run(&[(0, Answered), (200, Refused), (400, NotReady)]).state(), HostState::Starting);
        assert_eq!(run(&[(0, NotReady), (200, Answered)]).state(), HostState::Live);
    }
}
