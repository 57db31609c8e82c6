//! Brings in what each server says of the cluster: the own one's `/clusterStatus`, the others' by the sidecars beside
//! them, or directly while such a sidecar does not answer.

use super::fetch::{Fetch, FetchError, Fetched};
use super::keeper::{Event, ReportAge};
use super::membership::Member;
use crate::clock::Clock;
use crate::config::Config;
use crate::telemetry::LoopHealth;
use crate::view::{HostState, Interval, Moment, PeerLag, Published};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// How long a sidecar that did not answer is left alone while its server is asked directly.
const SIDECAR_PAUSE: Duration = Duration::from_secs(5);

/// How much longer than between two polls of the own server it is between two of another: every answer is as large as the
/// cluster, and the own server tells most of what the others do.
const OTHERS: u32 = 2;

/// Asks about one server.
pub(super) struct Reporter<F> {
    pub fetch: Arc<F>,
    pub clock: Clock,
    pub events: mpsc::Sender<Event>,
    pub member: Member,
    pub published: Arc<Published>,
    interval: Duration,
    timeout: Duration,
    sidecar_after: Instant,
    /// When the newest answer that was told was made; a sidecar tells the same one until it has another.
    newest: Option<Moment>,
    health: LoopHealth,
}

#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("status {0}")]
    Status(u16),
    #[error("a message of another form: {0}")]
    Form(#[from] serde_json::Error),
    #[error("the sidecar stands beside {0}")]
    OtherServer(String),
    #[error("the sidecar's server last answered {0:?} ago")]
    Old(Duration),
}

impl<F: Fetch> Reporter<F> {
    pub fn new(
        config: &Config,
        fetch: Arc<F>,
        clock: Clock,
        events: mpsc::Sender<Event>,
        member: Member,
        published: Arc<Published>,
        health: LoopHealth,
    ) -> Self {
        let (poll, local) = (config.lag.poll_interval, member.spec.local);
        Reporter {
            fetch,
            clock,
            events,
            member,
            published,
            interval: if local { poll } else { poll * OTHERS },
            timeout: config.lag.timeout,
            sidecar_after: Instant::now(),
            newest: None,
            health,
        }
    }

    /// Asks until aborted.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.report().await {
                Ok(events) => {
                    self.health.succeeded();
                    for event in events {
                        if self.events.send(event).await.is_err() {
                            return;
                        }
                    }
                }
                Err(_) if self.is_down() => {} // the probes say so
                Err(error) => self.health.failed(&error),
            }
        }
    }

    /// Whether the server is known to be down, starting or shutting down.
    fn is_down(&self) -> bool {
        let view = self.published.load();
        let known = view.hosts.iter().find(|host| host.name == self.member.spec.name);
        known.is_some_and(|host| host.state != HostState::Live)
    }

    async fn report(&mut self) -> Result<Vec<Event>, ReportError> {
        if self.member.spec.local {
            return self.ask_server().await;
        }
        if let Some(sidecar) = self.member.sidecar.clone().filter(|_| Instant::now() >= self.sidecar_after) {
            match self.ask_sidecar(&sidecar).await {
                Ok(events) => return Ok(events),
                Err(_) => self.sidecar_after = Instant::now() + SIDECAR_PAUSE,
            }
        }
        self.ask_server().await
    }

    /// Asks the server itself. 404 says that heartbeats are off, which is an answer.
    async fn ask_server(&self) -> Result<Vec<Event>, ReportError> {
        let local = self.member.spec.local;
        let url = format!("{}/clusterStatus", self.member.spec.url);
        let (answer, made) = self.timed(&url).await?;
        match answer.status {
            200 => {
                let age = if local { ReportAge::SharedClock(wall_ms()) } else { ReportAge::Told(None) };
                let asked = Arc::clone(&self.member.spec.name);
                let observed = Event::Observed { asked, body: answer.body, made, age };
                Ok(if local { vec![Event::Heartbeats(true), observed] } else { vec![observed] })
            }
            404 if local => Ok(vec![Event::Heartbeats(false)]),
            404 => Ok(Vec::new()),
            status => Err(ReportError::Status(status)),
        }
    }

    /// Asks the sidecar beside the server for what that server last said; nothing if it has been told already.
    async fn ask_sidecar(&mut self, sidecar: &str) -> Result<Vec<Event>, ReportError> {
        let (answer, made) = self.timed(&format!("{sidecar}/lag")).await?;
        if answer.status != 200 {
            return Err(ReportError::Status(answer.status));
        }
        let lag: PeerLag<'_> = serde_json::from_slice(&answer.body)?;
        if *lag.server != *self.member.spec.name {
            return Err(ReportError::OtherServer(lag.server));
        }
        let (age, took) = (Duration::from_millis(lag.age_ms), Duration::from_millis(lag.took_ms));
        if age > self.interval * 2 + self.timeout {
            return Err(ReportError::Old(age));
        }
        let made = Interval { from: made.from.back(age + took), to: made.to.back(age) };
        if self.newest.is_some_and(|newest| made.to <= newest) {
            return Ok(Vec::new());
        }
        self.newest = Some(made.to);
        let body: Bytes = answer.body.slice_ref(lag.cluster_status.get().as_bytes());
        let age = ReportAge::Told(lag.report_age_ms.map(Duration::from_millis));
        Ok(vec![Event::Observed { asked: Arc::clone(&self.member.spec.name), body, made, age }])
    }

    async fn timed(&self, url: &str) -> Result<(Fetched, Interval), FetchError> {
        let from = self.clock.now();
        let answer = self.fetch.get(url, self.timeout).await?;
        Ok((answer, Interval { from, to: self.clock.now() }))
    }
}

/// This machine's clock, epoch milliseconds; only compared with the report times of the server on the same machine.
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::fetch::script::{Script, ok};
    use super::*;
    use crate::config::LoadOptions;
    use crate::telemetry::Metrics;
    use crate::view::HostSpec;

    const STATUS: &str = r#"{"clusterStatus":{}}"#;

    fn lag(server: &str, age_ms: u64) -> String {
        format!(
            r#"{{"version":1,"server":"{server}","age_ms":{age_ms},"took_ms":4,"report_age_ms":700,"cluster_status":{STATUS}}}"#
        )
    }

    fn reporter(sidecar: Result<Fetched, FetchError>) -> Reporter<Script> {
        let fetch = Script::new(move |url, _| if url == "http://s:2/lag" { sidecar.clone() } else { ok(STATUS) });
        let spec = HostSpec { name: "b:1".into(), url: "http://b:1".into(), local: false };
        let member = Member { spec, sidecar: Some("http://s:2".into()) };
        let config = Config::load(LoadOptions::default()).unwrap();
        let (events, _) = mpsc::channel(1);
        let health = LoopHealth::new(&Metrics::new().unwrap(), "peer_reports");
        Reporter::new(&config, Arc::new(fetch), Clock::start(), events, member, Arc::default(), health)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_sidecar_tells_is_dated_by_ages() {
        let mut reporter = reporter(ok(lag("b:1", 300)));
        tokio::time::advance(Duration::from_secs(10)).await;
        let events = reporter.report().await.unwrap();
        let [Event::Observed { asked, body, made, age: ReportAge::Told(Some(age)) }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((&**asked, &body[..], age.as_millis()), ("b:1", STATUS.as_bytes(), 700));
        assert_eq!((made.from, made.to), (Moment::from_millis(9_696), Moment::from_millis(9_700)));
        assert_eq!(reporter.fetch.asked(), ["http://s:2/lag"]);
        assert!(reporter.report().await.unwrap().is_empty(), "the same answer is not told twice");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sidecar_that_does_not_help_is_passed_over_for_a_while() {
        for sidecar in [
            Err(FetchError::Refused),
            Ok(Fetched { status: 503, body: Bytes::new() }),
            ok("nonsense"),
            ok(lag("another:1", 5)),
            ok(lag("b:1", 60_000)),
        ] {
            let mut reporter = reporter(sidecar);
            for _ in 0..2 {
                let events = reporter.report().await.unwrap();
                assert!(matches!(&events[..], [Event::Observed { age: ReportAge::Told(None), .. }]), "{events:?}");
            }
            let server = "http://b:1/clusterStatus";
            assert_eq!(reporter.fetch.asked(), ["http://s:2/lag", server, server]);
            tokio::time::advance(SIDECAR_PAUSE).await;
            reporter.report().await.unwrap();
            assert_eq!(reporter.fetch.asked()[3..], ["http://s:2/lag", server]);
        }
    }
}
