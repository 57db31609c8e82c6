//! A sidecar's knowledge, without its sockets: what its control loops would learn, when they would.

use ksqldb_sidecar::emulator::{Ask, Exchange, Model, exchange};
use ksqldb_sidecar::proxy::TokenKey;
use ksqldb_sidecar::view::{
    Catalogue, ClockExchange, ClusterStatus, Evidence, HostSpec, Interval, LivenessSettings, Moment, Observation,
    Probe, Processed, Settings,
};
use rand::Rng;
use rand::rngs::StdRng;
use std::sync::Arc;
use std::time::Duration;

pub const POLL: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_millis(500);

/// The newest answer of the server beside a sidecar.
#[derive(Clone)]
pub struct Own {
    pub received: Duration,
    pub took: Duration,
    pub report_age: Option<Duration>,
    pub body: Arc<str>,
}

/// What arrives at a sidecar, and when.
enum News {
    Probed { host: usize, probe: Probe, sent: Duration },
    Observed { host: usize, body: Arc<str>, made: (Duration, Duration), age: Option<Duration>, own: Option<Own> },
    Clock { incarnation: u64, sent: Duration, theirs: Duration },
}

pub struct Watcher {
    pub place: usize,
    /// Where this sidecar's clock stood when the simulation began.
    offset: Duration,
    pub evidence: Evidence,
    pub key: TokenKey,
    pub own: Option<Own>,
    names: Vec<String>,
    arriving: Vec<(Duration, News)>,
    polled: Vec<Duration>,
    probed: Vec<Duration>,
    /// A question of how far the query has come: when it was asked, and the ends of then.
    pub processing: Option<(Duration, Vec<u64>)>,
}

impl Watcher {
    pub fn new(place: usize, names: &[String], catalogue: Arc<Catalogue>, rng: &mut StdRng) -> Self {
        let liveness = LivenessSettings { missed_threshold: 2, received_threshold: 2, window: Duration::from_secs(2) };
        let mut evidence = Evidence::new(Settings { liveness, max_report_age: Duration::from_secs(15) });
        let offset = Duration::from_millis(rng.random_range(60_000..900_000));
        let specs = names.iter().enumerate().map(|(index, name)| HostSpec {
            name: name.as_str().into(),
            url: format!("http://{name}").into(),
            local: index == place,
        });
        evidence.set_hosts(&specs.collect::<Vec<_>>(), Moment::after_epoch(offset));
        evidence.set_catalogue(catalogue);
        evidence.set_standby_reads(Some(true));
        evidence.set_cluster_id("simulated/cluster");
        let spread = |rng: &mut StdRng| names.iter().map(|_| Duration::from_millis(rng.random_range(0..500))).collect();
        Watcher {
            place,
            offset,
            evidence,
            key: TokenKey::new("simulated/cluster", place as u64 + 1),
            own: None,
            names: names.to_vec(),
            arriving: Vec::new(),
            polled: spread(rng),
            probed: spread(rng),
            processing: None,
        }
    }

    /// A time of the simulation on this sidecar's clock.
    pub fn moment(&self, at: Duration) -> Moment {
        Moment::after_epoch(self.offset + at)
    }

    /// A moment of this sidecar's clock as a time of the simulation.
    pub fn time(&self, at: Moment) -> Duration {
        at.since_epoch().saturating_sub(self.offset)
    }

    /// Does what is due: sends questions, takes in answers. `others` are what the other sidecars know of their servers.
    pub fn step(&mut self, model: &mut Model, others: &[Option<Own>], offsets: &[Duration], rng: &mut StdRng) {
        let now = model.now();
        for (host, offset) in offsets.iter().enumerate() {
            if now >= self.probed[host] {
                self.probed[host] = now + POLL;
                self.probe(host, model, rng);
            }
            if now >= self.polled[host] {
                self.polled[host] = now + POLL;
                self.poll(host, model, others, rng);
                if host != self.place && !model.cut(self.place, host) {
                    let (sent, back) = trip(now, rng);
                    let theirs = *offset + now;
                    self.arriving.push((back, News::Clock { incarnation: host as u64 + 1, sent, theirs }));
                }
            }
        }
        let due = |(at, _): &mut (Duration, News)| *at <= now;
        let arrived: Vec<_> = self.arriving.extract_if(.., due).collect();
        for (at, news) in arrived {
            self.take_in(at, news);
        }
    }

    pub fn offset(&self) -> Duration {
        self.offset
    }

    fn ask(&self, host: usize, path: &str, model: &mut Model) -> Exchange {
        if host != self.place && model.cut(self.place, host) {
            return Exchange::Silent;
        }
        exchange(model, host, &Ask { method: "GET", path, accept: None, body: b"" })
    }

    fn probe(&mut self, host: usize, model: &mut Model, rng: &mut StdRng) {
        let (sent, back) = trip(model.now(), rng);
        let (probe, at) = match self.ask(host, "/info", model) {
            Exchange::Answered(answer) if answer.status == 503 => (Probe::NotReady, back),
            Exchange::Answered(answer) if answer.delay < TIMEOUT => (Probe::Answered, back + answer.delay),
            Exchange::Refused => (Probe::Refused, back),
            _ => (Probe::Missed, sent + TIMEOUT),
        };
        self.arriving.push((at, News::Probed { host, probe, sent }));
    }

    fn poll(&mut self, host: usize, model: &mut Model, others: &[Option<Own>], rng: &mut StdRng) {
        let now = model.now();
        let (sent, back) = trip(now, rng);
        if host != self.place
            && !model.cut(self.place, host)
            && let Some(own) = &others[host]
            && now.saturating_sub(own.received) <= POLL * 3
        {
            let age = now - own.received;
            let made = (sent.saturating_sub(age + own.took), back.saturating_sub(age));
            let news = News::Observed { host, body: Arc::clone(&own.body), made, age: own.report_age, own: None };
            self.arriving.push((back, news));
            return;
        }
        let Exchange::Answered(answer) = self.ask(host, "/clusterStatus", model) else { return };
        if answer.status != 200 {
            return;
        }
        let back = back + answer.delay;
        let body: Arc<str> = answer.body.into();
        let own = (host == self.place).then(|| {
            let status = ClusterStatus::parse(body.as_bytes()).unwrap();
            let reported = status.hosts.0.iter().find(|(name, _)| **name == *self.names[host]);
            let updated = reported.map_or(0, |(_, host)| host.host_store_lags.update_time_ms);
            let wall = model.clock_ms(host) + i64::try_from((back - now).as_millis()).unwrap();
            let age = u64::try_from(wall - updated).ok().filter(|_| updated > 0).map(Duration::from_millis);
            Own { received: back, took: back - sent, report_age: age, body: Arc::clone(&body) }
        });
        let age = own.as_ref().and_then(|own| own.report_age);
        self.arriving.push((back, News::Observed { host, body, made: (sent, back), age, own }));
    }

    fn take_in(&mut self, at: Duration, news: News) {
        match news {
            News::Probed { host, probe, sent } => {
                let (sent, at) = (self.moment(sent), self.moment(at));
                self.evidence.probe(&self.names[host], probe, sent, at);
            }
            News::Observed { host, body, made, age, own } => {
                let status = ClusterStatus::parse(body.as_bytes()).unwrap();
                let made = Interval { from: self.moment(made.0), to: self.moment(made.1) };
                let asked = &self.names[host];
                self.evidence.observe(&Observation { asked, status: &status, made, own_report_age: age });
                self.own = own.or(self.own.take());
            }
            News::Clock { incarnation, sent, theirs } => {
                let here = Interval { from: self.moment(sent), to: self.moment(at) };
                self.evidence.note_clock(incarnation, ClockExchange { here, theirs });
            }
        }
    }

    /// Follows the committed positions of a query, as the control loop does.
    pub fn follow(&mut self, query: usize, query_id: &str, model: &Model) {
        let Some((asked, ends)) = &self.processing else { return };
        let now = model.now();
        let reached = (0..).zip(ends).all(|(partition, end)| model.input_offsets((query, partition)).1 >= *end);
        if reached {
            let processed = Processed { asked: self.moment(*asked), done: self.moment(now) };
            self.evidence.set_processed(query_id, processed);
            self.processing = None;
        }
    }
}

/// When a question asked at `now` was sent and its answer is back: it is answered somewhere in between.
fn trip(now: Duration, rng: &mut StdRng) -> (Duration, Duration) {
    let way = |rng: &mut StdRng| Duration::from_millis(rng.random_range(0..15));
    (now.saturating_sub(way(rng)), now + way(rng))
}
