//! What requests learn about servers: latency, load, and the failures that the next plan must know at once.

use crate::http::{HttpClient, Target, Upstream};
use crate::route::{Concurrency, HostTraffic, Traffic};
use crate::view::{ClusterView, HostName, HostView, Latency, Moment, Published};
use dashmap::DashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server that said it is closing, or whose attempts are overdue, is asked last.
///
/// Each further sign renews it; after it one request finds out, at the cost of one attempt.
const SHUNNED: Duration = Duration::from_secs(1);

/// Overdue attempts without an answer between them that make a server suspect: one may be a slow row or a collection
/// pause, two in a row are the server's.
const OVERDUE: u32 = 2;

/// One server as requests know it.
#[derive(Debug)]
pub(super) struct Host {
    /// Its name in `/clusterStatus`.
    pub name: HostName,
    /// The connections to it.
    pub upstream: Arc<Upstream>,
    url: Arc<str>,
    in_flight: Arc<AtomicU32>,
    concurrency: Mutex<Concurrency>,
    /// With the time of its last sample.
    latency: Mutex<(Latency, Instant)>,
    /// Milliseconds since the clock's epoch, plus one; zero: never.
    broken_at: AtomicU64,
    /// In the same form.
    shunned_until: AtomicU64,
    overdue: AtomicU32,
    /// In the same form.
    answered_at: AtomicU64,
}

/// All servers that requests have met.
#[derive(Debug)]
pub(super) struct Hosts {
    client: HttpClient,
    published: Arc<Published>,
    /// Attempts that one server is given at once, at most.
    most_at_once: u32,
    known: DashMap<HostName, Arc<Host>>,
}

impl Hosts {
    pub fn new(client: HttpClient, published: Arc<Published>, most_at_once: u32) -> Self {
        Hosts { client, published, most_at_once, known: DashMap::new() }
    }

    /// The entry of a server of the view, made at its first use, when those of servers that are gone are forgotten; `None` if
    /// its address is none that can be dialled.
    pub fn get(&self, server: &HostView, view: &ClusterView) -> Option<Arc<Host>> {
        if let Some(host) = self.known.get(&server.name).filter(|host| host.url == server.url) {
            return Some(Arc::clone(&host));
        }
        let target: Target = server.url.parse().ok()?;
        self.known.retain(|name, _| view.hosts.iter().any(|host| host.name == *name));
        self.client.retain(|known| *known == target || self.known.iter().any(|host| *host.upstream.target() == *known));
        let host = Arc::new(Host {
            name: Arc::clone(&server.name),
            upstream: self.client.upstream(&target),
            url: Arc::clone(&server.url),
            in_flight: self.published.in_flight(&server.name),
            concurrency: Mutex::new(Concurrency::new(self.most_at_once)),
            latency: Mutex::new((Latency::default(), Instant::now())),
            broken_at: AtomicU64::new(0),
            shunned_until: AtomicU64::new(0),
            overdue: AtomicU32::new(0),
            answered_at: AtomicU64::new(0),
        });
        self.known.insert(Arc::clone(&server.name), Arc::clone(&host));
        Some(host)
    }

    /// What a plan needs of all this.
    pub fn traffic(&self, view: &ClusterView, last_served: Option<&HostName>) -> Traffic {
        let now = Instant::now();
        let of = |host: &HostView| self.known.get(&host.name).map(|known| known.traffic(now)).unwrap_or_default();
        let last_served = last_served.and_then(|name| view.hosts.iter().position(|host| host.name == *name));
        Traffic {
            hosts: view.hosts.iter().map(of).collect(),
            last_served: last_served.map(|index| index as u16),
            dice: rand::random(),
        }
    }
}

impl Host {
    fn traffic(&self, now: Instant) -> HostTraffic {
        let (latency, sampled) = *self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        HostTraffic {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            latency: latency.smoothed(now.saturating_duration_since(sampled)),
            broken_at: moment(self.broken_at.load(Ordering::Relaxed)),
            shunned_until: moment(self.shunned_until.load(Ordering::Relaxed)),
            answered_at: moment(self.answered_at.load(Ordering::Relaxed)),
        }
    }

    /// As [`begin`](Self::begin), unless the server has as much to do as it can.
    pub fn admit(self: &Arc<Self>) -> Option<InFlight> {
        let limit = self.concurrency.lock().unwrap_or_else(PoisonError::into_inner).limit();
        let more = |now: u32| (now < limit).then_some(now + 1);
        self.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(InFlight(Arc::clone(self)))
    }

    /// Counts an attempt until the returned guard is dropped.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Notes an answer, good or bad, and how long it took to begin.
    pub fn answered(&self, took: Duration) {
        self.overdue.store(0, Ordering::Relaxed);
        self.broken_at.store(0, Ordering::Relaxed);
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        self.concurrency.lock().unwrap_or_else(PoisonError::into_inner).record(took, in_flight);
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.0.record(took);
        latency.1 = Instant::now();
    }

    /// Notes that another server answered first: what this one would have taken is at least that.
    pub fn overtaken(&self, waited: Duration) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        if waited > latency.0.smoothed(Duration::ZERO) {
            latency.0.record(waited);
            latency.1 = Instant::now();
        }
    }

    /// Notes that an answer came at `now`.
    pub fn heard(&self, now: Moment) {
        self.answered_at.store(stamp(now), Ordering::Relaxed);
    }

    /// Notes that a connection was refused, or broke before an answer.
    pub fn broke(&self, now: Moment) {
        self.broken_at.store(stamp(now), Ordering::Relaxed);
    }

    /// Notes that the server called itself unfit.
    pub fn shun(&self, now: Moment) {
        self.shun_for(SHUNNED, now);
    }

    /// Asks it last for so long.
    pub fn shun_for(&self, span: Duration, now: Moment) {
        self.shunned_until.fetch_max(stamp(now + span), Ordering::Relaxed);
    }

    /// Notes that an attempt exceeded its limit.
    pub fn overdue(&self, now: Moment) {
        if self.overdue.fetch_add(1, Ordering::Relaxed) + 1 >= OVERDUE {
            self.shun(now);
        }
    }
}

/// An attempt under way.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Host>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn stamp(moment: Moment) -> u64 {
    u64::try_from(moment.since_epoch().as_millis()).unwrap_or(u64::MAX - 1) + 1
}

fn moment(stamp: u64) -> Option<Moment> {
    stamp.checked_sub(1).map(Moment::from_millis)
}
