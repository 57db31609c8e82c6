//! Probes one server: `GET /info` on an interval, whatever state it is in.

use super::fetch::{Fetch, FetchError, Fetched};
use super::keeper::{Event, Sign};
use super::membership::Member;
use crate::clock::Clock;
use crate::config::Config;
use crate::view::{HostName, Latency, Moment, Probe, ServerVersion};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

/// Probes of one server under way at the same time, at most: the timeout over the interval by default, and one asked for.
const UNDER_WAY: usize = 4;

/// Least time between two probes out of turn: every request that fails asks for one.
const OUT_OF_TURN: Duration = Duration::from_millis(20);

/// Probes of the local server for each of another one's. The machine is the same, and what it finds is told to all.
const LOCALLY: u32 = 4;

/// Least time after which a probe without an answer makes its server suspect; the usual time of probes may raise it. With
/// the local server's interval of 50 ms a freeze shows within 100 ms.
const OVERDUE: Duration = Duration::from_millis(40);

/// One server's prober.
pub(super) struct Prober<F> {
    pub fetch: Arc<F>,
    pub clock: Clock,
    pub events: mpsc::Sender<Event>,
    pub host: HostName,
    pub url: Arc<str>,
    /// Wakes it for a probe out of turn.
    pub now: Arc<Notify>,
    pub interval: Duration,
    pub timeout: Duration,
    /// Whether it is the local server, whose cluster is this one.
    pub local: bool,
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "KsqlServerInfo")]
    info: ServerInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerInfo {
    version: String,
    #[serde(default)]
    kafka_cluster_id: String,
    #[serde(default)]
    ksql_service_id: String,
}

impl<F: Fetch> Prober<F> {
    pub fn new(
        config: &Config,
        fetch: Arc<F>,
        clock: Clock,
        events: mpsc::Sender<Event>,
        member: &Member,
        now: Arc<Notify>,
    ) -> Self {
        Prober {
            fetch,
            clock,
            events,
            host: Arc::clone(&member.spec.name),
            url: Arc::clone(&member.spec.url),
            now,
            interval: if member.spec.local { config.health.interval / LOCALLY } else { config.health.interval },
            timeout: config.health.timeout,
            local: member.spec.local,
        }
    }

    /// Probes until aborted. A probe is sent on its tick although the one before has no answer yet, so that a frozen server
    /// is recognised after one timeout and not after several. The ticks of several servers are spread over the interval.
    pub async fn run(self) {
        let spread = self.interval.mul_f64(rand::random());
        let mut ticks = tokio::time::interval_at(Instant::now() + spread, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut under_way = FuturesUnordered::from_iter([self.probe()]);
        let (mut sent, mut wanted, mut broke) = (Instant::now(), false, false);
        let mut answered: Option<Moment> = None;
        let mut told: Option<String> = None;
        let mut latency = Latency::default();
        let mut unanswered = Some(sent); // since when a probe has been under way without any answer
        loop {
            let room = under_way.len() < UNDER_WAY;
            let overdue = unanswered.map(|since| since + latency.limit(OVERDUE, self.timeout / 2));
            tokio::select! {
                () = tokio::time::sleep_until(overdue.unwrap_or(sent)), if overdue.is_some() => {
                    (unanswered, wanted) = (None, true); // said once
                    let event = Event::Suspected { host: Arc::clone(&self.host), sign: Sign::Overdue, now: self.clock.now() };
                    if self.events.send(event).await.is_err() {
                        return;
                    }
                    continue;
                }
                _ = ticks.tick(), if room => {}
                () = tokio::time::sleep_until(sent + OUT_OF_TURN), if wanted && room => {}
                () = self.now.notified(), if !wanted => {
                    wanted = true;
                    continue;
                }
                Some(settled) = under_way.next() => {
                    // a connection that broke may be a death or chance: another probe tells at once
                    wanted |= settled.broke && !broke;
                    broke = settled.broke;
                    let overtaken = settled.probe == Probe::Missed && answered.is_some_and(|at| settled.sent < at);
                    if settled.probe == Probe::Answered {
                        answered = answered.max(Some(settled.sent));
                        latency.record(settled.now.since(settled.sent));
                    }
                    unanswered = (!under_way.is_empty() && settled.probe != Probe::Missed).then(Instant::now);
                    let cluster = settled.cluster.clone().filter(|_| self.local);
                    if !overtaken && self.events.send(self.event(settled)).await.is_err() {
                        return;
                    }
                    if let Some(cluster) = cluster.filter(|cluster| told.as_ref() != Some(cluster)) {
                        told = Some(cluster.clone());
                        let _ = self.events.send(Event::ClusterId(cluster)).await; // the keeper ends last
                    }
                    continue;
                }
            }
            (sent, wanted) = (Instant::now(), false);
            if under_way.is_empty() {
                unanswered = Some(sent);
            }
            under_way.push(self.probe());
        }
    }

    async fn probe(&self) -> Settled {
        let sent = self.clock.now();
        let answer = self.fetch.get(&format!("{}/info", self.url), self.timeout).await;
        let (probe, version, cluster) = judge(&answer);
        let broke = matches!(answer, Err(FetchError::Failed(_)));
        Settled { probe, version, cluster, sent, now: self.clock.now(), broke }
    }

    fn event(&self, Settled { probe, version, sent, now, .. }: Settled) -> Event {
        Event::Probed { host: Arc::clone(&self.host), probe, version, sent, now }
    }
}

/// What became of one probe.
struct Settled {
    probe: Probe,
    version: Option<ServerVersion>,
    cluster: Option<String>,
    sent: Moment,
    now: Moment,
    broke: bool,
}

/// Any HTTP answer but a 503 is a sign of life; 401 and 403 only say that credentials are missing.
fn judge(answer: &Result<Fetched, FetchError>) -> (Probe, Option<ServerVersion>, Option<String>) {
    match answer {
        Ok(Fetched { status: 503, .. }) => (Probe::NotReady, None, None),
        Ok(Fetched { body, .. }) => {
            let info = serde_json::from_slice::<Info>(body).ok().map(|info| info.info);
            let version = info.as_ref().and_then(|info| ServerVersion::parse(&info.version));
            let cluster = info.map(|info| format!("{}/{}", info.kafka_cluster_id, info.ksql_service_id));
            (Probe::Answered, version, cluster)
        }
        Err(FetchError::Refused) => (Probe::Refused, None, None),
        Err(FetchError::TimedOut | FetchError::TooLarge(_) | FetchError::Failed(_)) => (Probe::Missed, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fetch::script::{Script, ok};
    use super::*;
    use crate::view::{HostState, Liveness, LivenessSettings};
    use std::sync::Mutex;

    const SETTINGS: LivenessSettings =
        LivenessSettings { missed_threshold: 2, received_threshold: 2, window: Duration::from_secs(2) };

    /// A prober of a server that answers as `answer` says, and what its events make of the server.
    struct Watch {
        clock: Clock,
        answer: Arc<Mutex<Result<Fetched, FetchError>>>,
        fetch: Arc<Script>,
        now: Arc<Notify>,
        events: mpsc::Receiver<Event>,
        liveness: Liveness,
    }

    impl Watch {
        fn start() -> Self {
            let clock = Clock::start();
            let info = r#"{"KsqlServerInfo":{"version":"0.29.0"}}"#;
            let answer = Arc::new(Mutex::new(ok(info)));
            let now = Arc::new(Notify::new());
            let fetch = Arc::new(Script::new({
                let answer = Arc::clone(&answer);
                move |_, _| answer.lock().unwrap().clone()
            }));
            let (sender, events) = mpsc::channel(64);
            let prober = Prober {
                fetch: Arc::clone(&fetch),
                clock,
                events: sender,
                host: "a:1".into(),
                url: "http://a:1".into(),
                now: Arc::clone(&now),
                interval: Duration::from_millis(200),
                timeout: Duration::from_millis(500),
                local: false,
            };
            tokio::spawn(prober.run());
            Watch { clock, answer, fetch, now, events, liveness: Liveness::new(Moment::EPOCH) }
        }

        fn answers(&self, answer: Result<Fetched, FetchError>) {
            *self.answer.lock().unwrap() = answer;
        }

        /// How long it takes until the server is in that state.
        async fn until(&mut self, state: HostState) -> Duration {
            let begun = self.clock.now();
            while self.liveness.state() != state {
                self.step().await;
            }
            self.clock.now().since(begun)
        }

        async fn step(&mut self) {
            let event = tokio::time::timeout(Duration::from_secs(10), self.events.recv()).await;
            match event.expect("an event") {
                Some(Event::Probed { probe, sent, now, .. }) => _ = self.liveness.probe(probe, sent, now, &SETTINGS),
                Some(Event::Suspected { now, .. }) => _ = self.liveness.suspect(now),
                other => panic!("no probe: {other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_server_is_dead_within_two_intervals_and_one_timeout_and_back_as_soon() {
        let mut watch = Watch::start();
        watch.until(HostState::Live).await;
        watch.answers(Err(FetchError::TimedOut));
        assert!(watch.until(HostState::Dead).await <= Duration::from_millis(900));
        watch.answers(ok("{}"));
        assert!(watch.until(HostState::Live).await <= Duration::from_millis(600));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_takes_longer_than_they_do_makes_its_server_suspect_until_the_next_answer() {
        let mut watch = Watch::start();
        watch.until(HostState::Live).await;
        watch.answers(Err(FetchError::TimedOut));
        let begun = watch.clock.now();
        while watch.liveness.suspected().is_none() {
            watch.step().await;
        }
        assert!(watch.clock.now().since(begun) <= Duration::from_millis(200) + OVERDUE);
        watch.answers(ok("{}"));
        while watch.liveness.suspected().is_some() {
            watch.step().await;
        }
        assert_eq!(watch.liveness.state(), HostState::Live);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_probe_that_was_asked_for_tells_at_once() {
        let mut watch = Watch::start();
        watch.until(HostState::Live).await;
        watch.answers(Err(FetchError::Refused));
        watch.now.notify_one();
        assert!(watch.until(HostState::Dead).await <= OUT_OF_TURN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_connection_alone_kills_nobody_but_is_looked_into() {
        let mut watch = Watch::start();
        watch.until(HostState::Live).await;
        watch.answers(Err(FetchError::Failed("reset".into())));
        assert!(watch.until(HostState::Dead).await <= Duration::from_millis(200) + OUT_OF_TURN);
    }

    #[tokio::test(start_paused = true)]
    async fn many_asks_are_few_probes() {
        let mut watch = Watch::start();
        watch.until(HostState::Live).await;
        let before = watch.fetch.asked().len();
        for _ in 0..100 {
            watch.now.notify_one();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let probes = watch.fetch.asked().len() - before;
        assert!((2..=7).contains(&probes), "{probes} probes in 100 ms");
    }

    #[test]
    fn any_answer_but_a_503_is_a_sign_of_life() {
        let status = |status| judge(&Ok(Fetched { status, body: Default::default() })).0;
        assert_eq!([200, 401, 403, 500, 404].map(status), [Probe::Answered; 5]);
        assert_eq!(status(503), Probe::NotReady);
        assert_eq!(judge(&Err(FetchError::TooLarge(1))).0, Probe::Missed);
        let (_, version, _) = judge(&ok(r#"{"KsqlServerInfo":{"version":"7.4.0","serverStatus":"RUNNING"}}"#));
        assert_eq!(version, ServerVersion::parse("7.4.0"));
    }
}
