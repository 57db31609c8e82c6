//! Finds out up to when a query has processed its input, where a request's token asks for it.

use super::fetch::Fetch;
use super::keeper::Event;
use super::ksql::{self, InputOffsets};
use crate::clock::Clock;
use crate::config::Config;
use crate::telemetry::{LoopHealth, Metrics};
use crate::view::{HostState, Moment, Processed, Published, TableInfo};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// How long a question is followed; a query that has stopped never processes its input.
const FOLLOWED: Duration = Duration::from_secs(120);

/// Tables followed at once; more wait for the next request that asks.
const AT_ONCE: usize = 32;

/// Follows the committed positions of queries.
pub(super) struct ProcessedLoop<F> {
    pub fetch: Arc<F>,
    pub clock: Clock,
    pub published: Arc<Published>,
    pub events: mpsc::Sender<Event>,
    pub asked: mpsc::Receiver<String>,
    interval: Duration,
    timeout: Duration,
    health: LoopHealth,
    followed: HashMap<String, Followed>,
}

/// One table's question.
struct Followed {
    since: Moment,
    /// When the ends of the input were asked for, and what they were.
    ends: Option<(Moment, InputOffsets)>,
}

impl<F: Fetch> ProcessedLoop<F> {
    pub fn new(
        config: &Config,
        fetch: Arc<F>,
        clock: Clock,
        published: Arc<Published>,
        events: mpsc::Sender<Event>,
        asked: mpsc::Receiver<String>,
        metrics: &Metrics,
    ) -> Self {
        ProcessedLoop {
            fetch,
            clock,
            published,
            events,
            asked,
            interval: config.lag.poll_interval,
            timeout: config.catalogue.timeout,
            health: LoopHealth::new(metrics, "processed"),
            followed: HashMap::new(),
        }
    }

    /// Runs until nobody can ask any more.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                asked = self.asked.recv() => match asked {
                    None => return,
                    Some(table) if self.followed.len() < AT_ONCE => {
                        let now = self.clock.now();
                        self.followed.entry(table).or_insert(Followed { since: now, ends: None });
                    }
                    Some(_) => {}
                },
                _ = ticks.tick(), if !self.followed.is_empty() => self.look().await,
            }
        }
    }

    async fn look(&mut self) {
        for table in self.followed.keys().cloned().collect::<Vec<_>>() {
            let now = self.clock.now();
            let known = self.published.load().tables.get(&table).cloned();
            let expired = self.followed.get(&table).is_none_or(|followed| now.since(followed.since) > FOLLOWED);
            let Some(info) = known.filter(|_| !expired) else {
                self.followed.remove(&table);
                continue;
            };
            let Some(offsets) = self.offsets(&info).await else { continue };
            let Some(followed) = self.followed.get_mut(&table) else { continue };
            let done = match &followed.ends {
                Some((asked, ends)) if offsets.have_reached(ends) => *asked,
                Some(_) => continue,
                None if offsets.have_reached(&offsets) => now,
                None => {
                    followed.ends = Some((now, offsets));
                    continue;
                }
            };
            self.followed.remove(&table);
            let processed = Processed { asked: done, done: self.clock.now() };
            let _ = self.events.send(Event::Processed(info.query_id.clone(), processed)).await; // the keeper ends last
        }
    }

    /// The positions of the query in its input, by the first live server that tells them.
    async fn offsets(&mut self, info: &TableInfo) -> Option<InputOffsets> {
        let view = self.published.load();
        let mut servers: Vec<_> = view.hosts.iter().filter(|host| host.state == HostState::Live).collect();
        servers.sort_by_key(|host| !host.local);
        let statement = format!("DESCRIBE `{}` EXTENDED;", info.name.replace('`', "``"));
        for server in servers {
            match ksql::ask(&*self.fetch, &server.url, &statement, self.timeout).await {
                Ok(entities) => {
                    self.health.succeeded();
                    return InputOffsets::read(&entities, &info.source_topics);
                }
                Err(error) => self.health.failed(&error),
            }
        }
        None
    }
}
