//! The last routing decisions, and sums of the last minutes, for people who look.
//!
//! Written from the request path: what a decision is made of is at hand, and the lock is held for a push.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds that sums are kept of.
pub const SECONDS: usize = 300;

/// Where one request went and why. Statements, keys, tokens and credentials are not in it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// When its answer ended.
    pub at: SystemTime,
    /// The request's `X-Request-Id`.
    pub request_id: Box<str>,
    /// Address of the client.
    pub client: SocketAddr,
    /// Class of the statement; `None` for requests without one.
    pub class: Option<&'static str>,
    /// Table and partition of a lookup on one key.
    pub slot: Option<(Arc<str>, u32)>,
    /// Why it went this way.
    pub why: Why,
    /// What the answer had to keep.
    pub bounds: Option<Kept>,
    /// The replicas of the last plan: those to ask, best first, then those not to ask.
    pub replicas: Vec<Considered>,
    /// Servers that were asked without success, and what was met there, in order.
    pub met: Vec<(Arc<str>, &'static str)>,
    /// Host whose answer the client got; `None` when the sidecar answered.
    pub served_by: Option<Arc<str>>,
    /// Offset lag that this host was chosen with, in changelog records.
    pub lag: Option<u64>,
    /// Age of the report that says so.
    pub age: Option<Duration>,
    /// How long it waited for a replica that keeps its bounds.
    pub waited: Option<Duration>,
    /// Attempts made.
    pub attempts: u32,
    /// Status of the answer.
    pub status: u16,
    /// Time from the request's head to the answer's end.
    pub duration: Duration,
    /// How it ended: the label of `requests_total`.
    pub outcome: &'static str,
}

/// A reason: its label, and what it means, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The label in metrics.
    pub label: &'static str,
    /// The same as a sentence's end.
    pub meaning: &'static str,
}

/// The bounds that a lookup's answer had to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Which replicas could answer.
    pub level: &'static str,
    /// Most records that it could lack.
    pub max_offset_lag: Option<u64>,
    /// Everything logged up to so long ago had to be in it.
    pub max_staleness: Option<Duration>,
    /// Whether the request had a token.
    pub token: bool,
}

/// A replica as the plan saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// The host.
    pub host: Arc<str>,
    /// Its role by the newest placement.
    pub role: &'static str,
    /// Why it stood where it stood, or why it was not to be asked.
    pub why: Why,
    /// Whether it was not to be asked.
    pub rejected: bool,
    /// Records it lacked at its newest report.
    pub lag: Option<u64>,
    /// Age of that report.
    pub age: Option<Duration>,
}

/// Sums of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Which: seconds since 1970.
    pub at: u64,
    /// Requests whose answers ended.
    pub requests: u32,
    /// Of these, those that a server or the sidecar failed to answer: a status from 500 on, or an answer that broke off.
    pub failed: u32,
    /// Attempts after the first.
    pub again: u32,
    /// The longest a pull query took.
    pub slowest: Duration,
    /// The largest offset lag that an answer was given with.
    pub lag: u64,
    /// The oldest report that an answering replica was chosen by.
    pub age: Duration,
}

/// Keeps the last decisions and the sums of the last [`SECONDS`].
#[derive(Debug, Default)]
pub struct Recent {
    most: usize,
    /// Seconds since 1970, and how many decisions were taken in that second.
    taken: (AtomicU64, AtomicU32),
    inner: Mutex<Inner>,
}

/// Ordinary decisions that are taken each second: of more, the last ones would be of the last milliseconds.
const TAKEN_EACH_SECOND: u32 = 100;

#[derive(Debug, Default)]
struct Inner {
    /// The number of the newest decision; the first has 1.
    newest: u64,
    decisions: VecDeque<Arc<Decision>>,
    seconds: VecDeque<Second>,
}

impl Decision {
    /// Whether a server or the sidecar failed to answer.
    pub fn is_failure(&self) -> bool {
        self.status >= 500 || self.outcome == "broken"
    }

    /// Whether it is worth a place among the last ones: every query, and whatever else failed.
    fn is_listed(&self) -> bool {
        self.class.is_some() || self.is_failure()
    }
}

impl Recent {
    /// Keeps up to `most` decisions.
    pub fn new(most: usize) -> Self {
        Recent { most, ..Recent::default() }
    }

    /// Whether a request that begins now is to be told of whatever becomes of it. Else its parts need not be gathered; one
    /// that fails or is asked again is told of all the same.
    pub fn takes(&self) -> bool {
        if self.most == 0 {
            return false;
        }
        let (second, taken) = &self.taken;
        let now = second_of(SystemTime::now());
        if second.swap(now, Ordering::Relaxed) != now {
            taken.store(0, Ordering::Relaxed);
        }
        taken.fetch_add(1, Ordering::Relaxed) < TAKEN_EACH_SECOND
    }

    /// The most decisions that are kept.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes in a request that has ended, and lists it if it is to be `told` of.
    pub fn note(&self, decision: Decision, told: bool) {
        let (at, again) = (second_of(decision.at), decision.attempts.saturating_sub(1));
        let failed = u32::from(decision.is_failure());
        let pulled = matches!(decision.class, Some(class) if class != "push" && class != "other" && class != "unsure");
        let took = if pulled { decision.duration } else { Duration::ZERO };
        let (lag, age) = (decision.lag.unwrap_or(0), decision.age.unwrap_or(Duration::ZERO));
        let listed = (self.most > 0 && told && decision.is_listed()).then(|| Arc::new(decision));
        let mut inner = self.lock();
        let second = inner.second(at);
        second.requests = second.requests.saturating_add(1);
        second.failed += failed;
        second.again = second.again.saturating_add(again);
        second.slowest = second.slowest.max(took);
        second.lag = second.lag.max(lag);
        second.age = second.age.max(age);
        let Some(decision) = listed else { return };
        let oldest = if inner.decisions.len() >= self.most { inner.decisions.pop_front() } else { None };
        inner.newest += 1;
        inner.decisions.push_back(decision);
        drop(inner);
        drop(oldest); // its memory is given back without the lock
    }

    /// The decisions after the one of that number, each with its number, newest first.
    pub fn decisions_after(&self, number: u64) -> Vec<(u64, Arc<Decision>)> {
        let inner = self.lock();
        let numbers = (1..=inner.newest).rev();
        let newest = numbers.zip(inner.decisions.iter().rev().map(Arc::clone));
        newest.take_while(|(own, _)| *own > number).collect()
    }

    /// The sums of the seconds from `at` on, oldest first; seconds without a request are left out.
    pub fn seconds_from(&self, at: u64) -> Vec<Second> {
        self.lock().seconds.iter().filter(|second| second.at >= at).copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The sums of that second; of the newest one if the clock was set back.
    fn second(&mut self, at: u64) -> &mut Second {
        let newest = self.seconds.back().map_or(0, |second| second.at);
        if at > newest || self.seconds.is_empty() {
            if self.seconds.len() >= SECONDS {
                self.seconds.pop_front();
            }
            self.seconds.push_back(Second { at, ..Second::default() });
        }
        let last = self.seconds.len() - 1; // one was pushed if there was none
        &mut self.seconds[last]
    }
}

/// The second of a time, since 1970.
pub fn second_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(second: u64, class: Option<&'static str>, status: u16) -> Decision {
        Decision {
            at: UNIX_EPOCH + Duration::from_secs(second),
            request_id: format!("r{second}").into(),
            client: "127.0.0.1:50000".parse().unwrap(),
            class,
            slot: Some(("TL".into(), 3)),
            why: Why { label: "freshest", meaning: "no other replica is ahead of it" },
            bounds: None,
            replicas: Vec::new(),
            met: Vec::new(),
            served_by: Some("ksql-1:8088".into()),
            lag: Some(second),
            age: Some(Duration::from_millis(10 * second)),
            waited: None,
            attempts: 2,
            status,
            duration: Duration::from_millis(second),
            outcome: if status < 500 { "ok" } else { "exhausted" },
        }
    }

    #[test]
    fn the_last_ones_are_kept_newest_first() {
        let recent = Recent::new(3);
        (1..=5).for_each(|second| recent.note(decision(second, Some("lookup"), 200), true));
        let numbers = |after| recent.decisions_after(after).iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(numbers(0), [5, 4, 3]);
        assert_eq!(numbers(4), [5]);
        assert_eq!(&*recent.decisions_after(4)[0].1.request_id, "r5");
        assert!(numbers(5).is_empty());
    }

    #[test]
    fn what_is_no_query_is_listed_only_if_it_failed() {
        let recent = Recent::new(9);
        recent.note(decision(1, None, 200), true);
        recent.note(decision(2, None, 503), true);
        let listed = recent.decisions_after(0);
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].1.status, 503);
        assert_eq!(recent.seconds_from(0).iter().map(|second| second.requests).sum::<u32>(), 2, "both are counted");
    }

    #[test]
    fn seconds_are_summed_and_only_the_last_minutes_kept() {
        let recent = Recent::new(0);
        recent.note(decision(7, Some("lookup"), 200), true);
        recent.note(decision(7, Some("lookup"), 503), true);
        recent.note(decision(6, Some("lookup"), 200), true); // the clock was set back
        let ms = Duration::from_millis;
        let expected = Second { at: 7, requests: 3, failed: 1, again: 3, slowest: ms(7), lag: 7, age: ms(70) };
        assert_eq!(recent.seconds_from(0), [expected]);
        (100..100 + SECONDS as u64).for_each(|second| recent.note(decision(second, Some("push"), 200), true));
        assert_eq!(recent.seconds_from(0).len(), SECONDS);
        assert_eq!(recent.seconds_from(0)[0].at, 100);
        assert_eq!(recent.seconds_from(0)[0].slowest, Duration::ZERO, "a stream is not slow because it lasts");
        assert!(recent.decisions_after(0).is_empty() && !recent.takes());
    }

    #[test]
    fn of_many_requests_in_a_second_some_are_taken() {
        let recent = Recent::new(9);
        let taken = (0..10_000).filter(|_| recent.takes()).count();
        assert!((100..=300).contains(&taken), "{taken} in a moment that may touch two or three seconds");
    }
}
