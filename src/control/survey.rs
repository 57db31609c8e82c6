//! One look at a server, for whoever asks once instead of on an interval.

use super::catalogue::{Placed, UNCOUNTED, count_described, describe};
use super::fetch::Fetch;
use super::ksql::{self, KsqlError, Listing, Source};
use crate::partition::Partitions;
use crate::view::{Catalogue, ClusterStatus, TableInfo};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a server's `LIST PROPERTIES` tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surveyed {
    /// The server's name in `/clusterStatus`.
    pub name: Option<String>,
    /// Its settings; those of heartbeats, lag reports and listeners are never among them.
    pub properties: BTreeMap<String, String>,
}

/// Asks a server for its settings.
///
/// # Errors
/// When it does not answer within `timeout`, or not with its settings.
pub async fn survey(fetch: &impl Fetch, server: &str, timeout: Duration) -> Result<Surveyed, KsqlError> {
    let listing = Listing::read(ksql::ask(fetch, server, "LIST PROPERTIES;", timeout).await?)?;
    Ok(Surveyed { name: listing.own_name(), properties: listing.properties })
}

/// Asks a server which tables there are and which of them can be routed, as the catalogue's loop does, but without what
/// earlier answers told. Streams are left out.
///
/// `status` is what `/clusterStatus` of a server says of the placement. Each request takes `timeout` at most.
///
/// # Errors
/// When the server does not list its tables.
pub async fn tables(
    fetch: &impl Fetch,
    server: &str,
    status: Option<&ClusterStatus<'_>>,
    timeout: Duration,
) -> Result<Catalogue, KsqlError> {
    let listing = Listing::read(ksql::ask(fetch, server, Listing::STATEMENTS, timeout).await?)?;
    let mut catalogue = Catalogue::default();
    for table in &listing.tables {
        match table_of(fetch, server, table, &listing, status, timeout).await {
            Ok(info) => catalogue.tables.push(Arc::new(info)),
            Err(reason) => catalogue.passed_through.push((table.name.clone(), reason)),
        }
    }
    Ok(catalogue)
}

async fn table_of(
    fetch: &impl Fetch,
    server: &str,
    table: &Source,
    listing: &Listing,
    status: Option<&ClusterStatus<'_>>,
    timeout: Duration,
) -> Result<TableInfo, &'static str> {
    let mut info = describe(table, listing)?;
    let placed = status.map(|status| Placed::read(&info, status)).unwrap_or_default();
    let count = placed.agreed_with(count_described(fetch, server, &info, timeout).await)?;
    info.partitions = Partitions::new(count).ok_or(UNCOUNTED)?;
    Ok(info)
}

/// Asks a server for the hosts that run queries, where `/clusterStatus` is off. It asks all others itself, and waits for dead
/// ones up to 10 s (`ksql.fetch.remote.hosts.max.timeout.seconds`).
///
/// # Errors
/// When the server does not answer within `timeout`, or not with its queries.
pub async fn hosts_of_queries(fetch: &impl Fetch, server: &str, timeout: Duration) -> Result<Vec<String>, KsqlError> {
    ksql::ask_hosts(fetch, server, timeout).await
}
