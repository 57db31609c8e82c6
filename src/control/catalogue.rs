//! Which tables there are, and which of them can be routed.

use super::fetch::Fetch;
use super::keeper::Event;
use super::ksql::{KsqlError, Listing, Query, Source, ask, input_partitions};
use super::membership::Members;
use super::topology::{self, pulled_store};
use crate::config::Config;
use crate::partition::{KeyFormat, KeySchema, Partitions};
use crate::telemetry::{LoopHealth, Metrics};
use crate::view::{Catalogue, ClusterStatus, HostState, Published, TableInfo, TopicPartition, is_topic};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// Reads `/ksql` on an interval, and at once when asked.
pub(super) struct CatalogueLoop<F> {
    fetch: Arc<F>,
    events: mpsc::Sender<Event>,
    published: Arc<Published>,
    members: watch::Receiver<Members>,
    asked: Arc<Notify>,
    interval: Duration,
    least: Duration,
    timeout: Duration,
    /// The most partitions that each query's store was ever seen with: a query's id is never given again.
    most: HashMap<String, u32>,
    last: Arc<Catalogue>,
    health: LoopHealth,
}

impl<F: Fetch> CatalogueLoop<F> {
    pub fn new(
        config: &Config,
        fetch: Arc<F>,
        events: mpsc::Sender<Event>,
        published: Arc<Published>,
        members: watch::Receiver<Members>,
        asked: Arc<Notify>,
        metrics: &Metrics,
    ) -> Self {
        CatalogueLoop {
            fetch,
            events,
            published,
            members,
            asked,
            interval: config.catalogue.refresh_interval,
            least: config.catalogue.min_refresh_interval,
            timeout: config.catalogue.timeout,
            most: HashMap::new(),
            last: Arc::default(),
            health: LoopHealth::new(metrics, "catalogue"),
        }
    }

    pub async fn run(mut self) {
        if self.members.wait_for(|members| !members.0.is_empty()).await.is_err() {
            return;
        }
        let mut pause = self.least;
        loop {
            let complete = match self.refresh().await {
                Ok(complete) => {
                    self.health.succeeded();
                    complete
                }
                Err(error) => {
                    self.health.failed(&error);
                    pause = self.least;
                    false
                }
            };
            tokio::time::sleep(self.least).await;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(self.least)), if !complete => pause *= 2,
                () = tokio::time::sleep(self.interval.saturating_sub(self.least)) => {}
                () = self.asked.notified() => pause = self.least,
            }
            pause = pause.min(self.interval);
        }
    }

    /// Reads everything from the first server that answers; tells whether all there is to know is known.
    async fn refresh(&mut self) -> Result<bool, KsqlError> {
        let mut servers = self.servers().into_iter();
        let (mut server, mut listing) = self.read_first(&mut servers).await?;
        let mut catalogue = self.build(&server, &listing).await;
        if loses(&self.last, &catalogue) {
            // a server that is closing lists no queries, so a loss needs a second voice
            if let Ok(second) = self.read_first(&mut servers).await {
                (server, listing) = second;
                catalogue = self.build(&server, &listing).await;
            } else if !self.is_live(&server) {
                return Ok(false);
            }
        }
        let complete = !catalogue.passed_through.iter().any(|(_, reason)| UNCERTAIN.contains(reason));
        let _ = self
            .events
            .send(Event::Properties {
                standby_reads: listing.standby_reads(),
                commit_interval: listing.commit_interval(),
                pull_limits: listing.pull_limits(),
            })
            .await;
        self.last = Arc::new(catalogue);
        let _ = self.events.send(Event::Catalogue(Arc::clone(&self.last))).await; // the keeper is gone only at the end
        Ok(complete)
    }

    /// The servers to ask in turn: those that are not dead, live ones first, the local one first among equals.
    fn servers(&self) -> Vec<String> {
        let view = self.published.load();
        let state = |name: &str| {
            view.hosts.iter().find(|host| *host.name == *name).map_or(HostState::Unknown, |host| host.state)
        };
        let members = self.members.borrow();
        let ranked = members.0.iter().map(|member| (state(&member.spec.name), member.spec.url.to_string()));
        let mut ranked: Vec<_> = ranked.filter(|(state, _)| *state != HostState::Dead).collect();
        ranked.sort_by_key(|(state, _)| *state != HostState::Live);
        ranked.into_iter().map(|(_, url)| url).collect()
    }

    fn is_live(&self, url: &str) -> bool {
        self.published.load().hosts.iter().any(|host| *host.url == *url && host.state == HostState::Live)
    }

    async fn read_first(&self, servers: &mut impl Iterator<Item = String>) -> Result<(String, Listing), KsqlError> {
        let mut failed = KsqlError::Form("no other server is alive".to_owned());
        for server in servers {
            match self.read(&server).await {
                Ok(listing) => return Ok((server, listing)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn read(&self, server: &str) -> Result<Listing, KsqlError> {
        Listing::read(ask(&*self.fetch, server, Listing::STATEMENTS, self.timeout).await?)
    }

    async fn build(&mut self, server: &str, listing: &Listing) -> Catalogue {
        let own = self.published.own();
        let status = own.as_ref().and_then(|own| ClusterStatus::parse(&own.body).ok());
        let mut catalogue = Catalogue::default();
        for stream in &listing.streams {
            catalogue.passed_through.push((stream.name.clone(), "stream"));
            catalogue.topics.push((stream.name.clone(), stream.topic.clone()));
        }
        for table in &listing.tables {
            let described = match describe(table, listing) {
                Ok(info) => self.count(server, &info, status.as_ref()).await.map(|partitions| (info, partitions)),
                Err(reason) => Err(reason),
            };
            match described {
                Ok((mut info, partitions)) => {
                    info.partitions = partitions;
                    catalogue.tables.push(Arc::new(info));
                }
                Err(reason) => catalogue.passed_through.push((table.name.clone(), reason)),
            }
        }
        catalogue
    }

    /// The number of partitions of a table's store: the most that any of its source topics has.
    ///
    /// It is the divisor of every key's hash, so the topics' description and the placement must agree on it. Once known it
    /// stays while the query's id lives, unless the placement shows more.
    async fn count(
        &mut self,
        server: &str,
        info: &TableInfo,
        status: Option<&ClusterStatus<'_>>,
    ) -> Result<Partitions, &'static str> {
        let placed = status.map(|status| Placed::read(info, status)).unwrap_or_default();
        let known = self.most.get(&info.query_id).copied();
        if let Some(known) = known.filter(|known| placed.mentioned <= *known)
            && let Some(partitions) = Partitions::new(known)
        {
            return Ok(partitions);
        }
        let count = placed.agreed_with(count_described(&*self.fetch, server, info, self.timeout).await)?;
        let partitions = Partitions::new(count.max(known.unwrap_or_default())).ok_or(UNCOUNTED)?;
        self.most.insert(info.query_id.clone(), partitions.get());
        Ok(partitions)
    }
}

/// From the description of the table: the offsets of its query's input topics, or its own topic if that is the input.
pub(super) async fn count_described(
    fetch: &impl Fetch,
    server: &str,
    info: &TableInfo,
    timeout: Duration,
) -> Option<u32> {
    let statement = format!("DESCRIBE `{}` EXTENDED;", info.name.replace('`', "``"));
    let entities = ask(fetch, server, &statement, timeout).await.ok()?;
    count_inputs(info, &input_partitions(&entities))
}

/// Why a table whose partitions cannot be counted yet is passed through.
pub(super) const UNCOUNTED: &str = "the number of its partitions is not known yet";

/// Why a table is passed through while its topics and its placement tell of different numbers of partitions.
const DISPUTED: &str = "its topics and its placement differ in the number of partitions";

/// Why a table with such keys is passed through: only the registry knows the ids within their bytes.
pub const SCHEMA_REGISTRY: &str = "its key format needs a schema registry";

/// Why a table of delimited keys is passed through whose delimiter is not the comma.
pub const OWN_DELIMITER: &str = "its key has a delimiter of its own";

/// Why a table is passed through that no query keeps in a store: servers refuse pull queries on it.
pub const NOT_MATERIALISED: &str = "not materialised";

/// The reasons that time may remove.
const UNCERTAIN: [&str; 2] = [UNCOUNTED, DISPUTED];

/// Whether a table that could be routed no longer can be.
fn loses(before: &Catalogue, after: &Catalogue) -> bool {
    before.tables.iter().any(|table| !after.tables.iter().any(|kept| kept.query_id == table.query_id))
}

fn count_inputs(info: &TableInfo, by_topic: &BTreeMap<String, u32>) -> Option<u32> {
    let count =
        |source: &String| by_topic.iter().filter(|(topic, _)| is_topic(source, topic)).map(|(_, count)| *count).max();
    info.source_topics.iter().map(count).collect::<Option<Vec<u32>>>()?.into_iter().max()
}

/// What one view of the placement tells of the partitions of a table's store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// The highest partition that it names, and one.
    mentioned: u32,
    /// Whether every host is there and every partition up to the highest has an active. The highest may still be missing.
    whole: bool,
}

impl Placed {
    pub fn read(info: &TableInfo, status: &ClusterStatus<'_>) -> Self {
        let placements = status.hosts.0.iter().flat_map(|(_, host)| &host.active_standby_per_query.0);
        let of_query: Vec<_> = placements.filter(|(query, _)| **query == *info.query_id).collect();
        let fed = |held: &&TopicPartition<'_>| info.reads(&held.topic);
        let active = of_query.iter().flat_map(|(_, placement)| &placement.active_partitions).filter(fed);
        let active: HashSet<u32> = active.map(|held| held.partition).collect();
        let standby = of_query.iter().flat_map(|(_, placement)| &placement.stand_by_partitions).filter(fed);
        let highest = active.iter().copied().chain(standby.map(|held| held.partition)).max();
        let mentioned = highest.map_or(0, |highest| highest.saturating_add(1));
        let everybody = status.hosts.0.iter().all(|(_, host)| host.host_alive);
        Placed { mentioned, whole: everybody && mentioned > 0 && usize::try_from(mentioned) == Ok(active.len()) }
    }

    /// The number on which this and the description of the topics agree, or the only one there is.
    pub fn agreed_with(self, described: Option<u32>) -> Result<u32, &'static str> {
        match described {
            Some(described) if self.mentioned == described => Ok(described),
            Some(described) if self.mentioned < described && !self.whole => Ok(described),
            Some(_) => Err(DISPUTED),
            None if self.whole => Ok(self.mentioned),
            None => Err(UNCOUNTED),
        }
    }
}

/// What the listing tells of a table, but for the number of its partitions, which stands at 1.
pub(super) fn describe(table: &Source, listing: &Listing) -> Result<TableInfo, &'static str> {
    let query = writer(&table.name, &listing.queries)?;
    let format = table.key_format.as_deref().unwrap_or("KAFKA");
    let format = KeyFormat::from_name(format).ok_or(SCHEMA_REGISTRY)?;
    if format == KeyFormat::Delimited && query.statement_text.contains("KEY_DELIMITER") {
        return Err(OWN_DELIMITER);
    }
    let columns = query.key_columns();
    if columns.is_empty() {
        return Err("its key is not described");
    }
    let sub_topologies = topology::read(&query.topology);
    let (store, sub_topology) = pulled_store(&sub_topologies).ok_or("the store that pull queries read is not known")?;
    if sub_topology.topics.is_empty() {
        return Err("the topics that feed its store are not known");
    }
    Ok(TableInfo {
        name: table.name.clone(),
        key: KeySchema { format, columns },
        query_id: query.id.clone(),
        store,
        source_topics: sub_topology.topics.clone(),
        partitions: Partitions::MIN,
        windowed: table.is_windowed || query.window_type.is_some(),
        max_offset_lag: listing.bounds.get(&table.name).copied(),
    })
}

/// The one query that materialises a table: the one that writes it, or for a source table the one that reads it for that.
fn writer<'q>(table: &str, queries: &'q [Query]) -> Result<&'q Query, &'static str> {
    let writes = |query: &&Query| query.sinks.iter().any(|sink| sink == table);
    let mut writing = queries.iter().filter(writes);
    match (writing.next(), writing.next()) {
        (Some(query), None) => return Ok(query),
        (Some(_), Some(_)) => return Err("several queries write it"),
        (None, _) => {}
    }
    let prefix = format!("CST_{table}_");
    let is_own = |query: &&Query| {
        let number = query.id.strip_prefix(&prefix);
        let numbered = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
        numbered && query.sinks.is_empty() && query.sources.iter().any(|source| source == table)
    };
    queries.iter().find(is_own).ok_or(NOT_MATERIALISED)
}

#[cfg(test)]
mod tests;
