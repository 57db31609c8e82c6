//! Asking: only what changes nothing.

use super::facts::{ClockFact, Facts, Reach, Reports, ServerFacts};
use super::placement;
use super::watch::Watch;
use crate::config::Config;
use crate::control::{self, Fetch, KsqlError};
use crate::view::{Catalogue, ClusterStatus, TableInfo};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for one answer; servers far away answer in less.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Longest wait for an answer to which a server asks all others: twice what it waits for a dead one.
const FAN_OUT: Duration = Duration::from_secs(20);

/// Time between two looks at lag reports.
const LOOK: Duration = Duration::from_millis(200);

/// How often servers compute the status of the others (`ksql.heartbeat.check.interval.ms`): so old may the time in it be.
const STATUS_AGE_MS: u64 = 200;

/// No server could be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", explain(.0))]
pub struct CannotAsk(pub Vec<(String, KsqlError)>);

fn explain(failed: &[(String, KsqlError)]) -> String {
    let mut text = "no server could be asked".to_owned();
    for (url, error) in failed {
        let remedy = match error {
            KsqlError::Status { status: 401 | 403, .. } => {
                "set server.username and server.password_file, or server.bearer_file, in a file given with --config"
            }
            KsqlError::Status { status: 503, .. } => "it is starting or closing; ask again when it is ready",
            KsqlError::Status { .. } | KsqlError::Form(_) => {
                "that is no ksqlDB server's answer; give the address of a server's listener with --server"
            }
            KsqlError::Fetch(_) => "is a server running there? give the address of one with --server http://HOST:PORT",
        };
        // a String takes everything
        _ = write!(text, "\n  {url}: {error}; {remedy}");
    }
    text
}

/// Asks the servers at `urls` and those that they name.
///
/// It takes as long as a few lag reports, `watch` at most, and as the slowest server.
///
/// # Errors
/// When none of `urls` answers as a ksqlDB server does.
pub async fn examine(
    fetch: &impl Fetch,
    config: &Config,
    urls: &[String],
    watch: Duration,
) -> Result<Facts, CannotAsk> {
    let asker = Asker { fetch, config };
    let mut given = join_all(urls.iter().map(|url| asker.server(url))).await;
    // one that tells of the others where there is one
    let mapped = given.iter().position(|(_, body, _)| body.is_some());
    let Some(first) = mapped.or_else(|| given.iter().position(|(server, ..)| server.answers())) else {
        let failed = given.into_iter().filter_map(|(server, _, error)| Some((server.url, error?)));
        return Err(CannotAsk(failed.collect()));
    };
    let first = given.remove(first);
    let (url, body) = (first.0.url.clone(), first.1);
    let mut servers = vec![first.0];
    for (server, ..) in given {
        let is_same = |known: &ServerFacts| known.name == server.name && known.started_ms == server.started_ms;
        if server.started_ms.is_none() || !servers.iter().any(is_same) {
            servers.push(server);
        }
    }
    let mut named = body.as_deref().and_then(|body| ClusterStatus::parse(body).ok()).map(|status| names(&status));
    if named.is_none() {
        named = control::hosts_of_queries(fetch, &url, FAN_OUT).await.ok();
    }
    let is_unknown = |name: &String| !servers.iter().any(|server| server.name == *name);
    let others: BTreeSet<String> = named.unwrap_or_default().into_iter().filter(is_unknown).collect();
    servers.extend(join_all(others.iter().map(|name| asker.named(name))).await);
    let (reports, newest, seen) = asker.watch(&url, body.clone(), watch).await;
    let (old, new) = (parsed(body.as_ref()), parsed(newest.as_ref()));
    if let Some(status) = &new {
        place(&mut servers, status);
    }
    let (catalogue, tables_error) = match control::tables(fetch, &url, new.as_ref(), ANSWER).await {
        Ok(catalogue) => (catalogue, None),
        Err(error) => (Catalogue::default(), Some(error.to_string())),
    };
    let mut facts = Facts {
        servers,
        reports,
        tables: Vec::new(),
        tables_error,
        poll_interval_ms: u64::try_from(config.lag.poll_interval.as_millis()).unwrap_or(u64::MAX),
    };
    let placed = |table: &TableInfo| match (&old, &new) {
        (Some(old), Some(new)) => placement::partitions(table, old, new, &seen),
        _ => Vec::new(),
    };
    asker.tables(&mut facts, &catalogue, placed).await;
    Ok(facts)
}

fn parsed(body: Option<&Bytes>) -> Option<ClusterStatus<'_>> {
    body.and_then(|body| ClusterStatus::parse(body).ok())
}

fn names(status: &ClusterStatus<'_>) -> Vec<String> {
    status.hosts.0.iter().map(|(name, _)| name.to_string()).collect()
}

/// Enters what the first server's map says of each server.
fn place(servers: &mut [ServerFacts], status: &ClusterStatus<'_>) {
    for server in servers {
        if let Some((_, host)) = status.hosts.0.iter().find(|(name, _)| **name == *server.name) {
            server.alive = Some(host.host_alive);
            server.placed = !host.active_standby_per_query.0.is_empty();
        }
    }
}

pub(super) struct Asker<'a, F> {
    pub fetch: &'a F,
    config: &'a Config,
}

impl<F: Fetch> Asker<'_, F> {
    /// A server under the name that others have for it.
    async fn named(&self, name: &str) -> ServerFacts {
        let dialled = self.config.peers.names.get(name).map(ToString::to_string);
        let (mut server, ..) = self.server(&dialled.unwrap_or_else(|| format!("http://{name}"))).await;
        if server.answers() && server.name != name {
            server.reach = Reach::AnsweredAs(server.name);
        }
        server.name = name.to_owned();
        server
    }

    /// A server under an address, its `/clusterStatus`, and why it could not be asked.
    async fn server(&self, url: &str) -> (ServerFacts, Option<Bytes>, Option<KsqlError>) {
        let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
        let mut server = ServerFacts { name: authority.to_owned(), url: url.to_owned(), ..ServerFacts::default() };
        match control::survey(self.fetch, url, ANSWER).await {
            Ok(surveyed) => {
                server.name = surveyed.name.unwrap_or(server.name);
                server.properties = surveyed.properties;
                server.properties.retain(|name, _| is_of_use(name));
            }
            Err(error) => {
                server.reach = Reach::Failed(error.to_string());
                return (server, None, Some(error));
            }
        }
        server.version = self.version(url).await;
        let sent = (Instant::now(), wall_ms());
        let answer = self.fetch.get(&format!("{url}/clusterStatus"), ANSWER).await.ok();
        let body = answer.as_ref().filter(|answer| answer.status == 200).map(|answer| answer.body.clone());
        server.heartbeats = answer.map(|answer| answer.status == 200);
        if let Some(status) = parsed(body.as_ref()) {
            let (own, others): (Vec<_>, Vec<_>) = status.hosts.0.iter().partition(|(name, _)| **name == *server.name);
            server.started_ms = own.first().map(|(_, host)| host.last_status_update_ms);
            let newest_ms = others.iter().map(|(_, host)| host.last_status_update_ms).max();
            server.clock = newest_ms.and_then(|told_ms| clock(told_ms, STATUS_AGE_MS, sent));
        }
        (server, body, None)
    }

    async fn version(&self, url: &str) -> Option<String> {
        let answer = self.fetch.get(&format!("{url}/info"), ANSWER).await.ok()?;
        let info: Value = serde_json::from_slice(&answer.body).ok()?;
        info.get("KsqlServerInfo")?.get("version")?.as_str().map(str::to_owned)
    }

    /// Watches the lag reports that a server receives; gives the newest answer too.
    async fn watch(&self, url: &str, body: Option<Bytes>, most: Duration) -> (Reports, Option<Bytes>, Watch) {
        let (begun, mut seen, mut newest) = (Instant::now(), Watch::default(), body);
        if let Some(status) = parsed(newest.as_ref()) {
            seen.take(&status);
        }
        while newest.is_some() && !seen.is_done() && begun.elapsed() < most {
            tokio::time::sleep(LOOK).await;
            let answer = self.fetch.get(&format!("{url}/clusterStatus"), ANSWER).await;
            let Some(answer) = answer.ok().filter(|answer| answer.status == 200) else { continue };
            if let Ok(status) = ClusterStatus::parse(&answer.body) {
                seen.take(&status);
                newest = Some(answer.body);
            }
        }
        (seen.reports(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)), newest, seen)
    }
}

/// Whether a setting says something of pull queries and replicas; the others are nobody's business here.
fn is_of_use(setting: &str) -> bool {
    const STREAMS: [&str; 4] = ["num.standby.replicas", "commit.interval.ms", "state.dir", "application.server"];
    let of_streams = setting.strip_prefix("ksql.streams.").is_some_and(|name| STREAMS.contains(&name));
    of_streams || setting.starts_with("ksql.query.pull.") || setting.starts_with("ksql.pull.")
}

pub(super) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A clock that showed `told_ms`, `age_ms` ago at most, at some time since a request was sent.
pub(super) fn clock(told_ms: i64, age_ms: u64, (sent, sent_ms): (Instant, i64)) -> Option<ClockFact> {
    let took_ms = u64::try_from(sent.elapsed().as_millis()).ok()?;
    (told_ms > 0).then(|| ClockFact { ahead_ms: told_ms.saturating_sub(sent_ms), within_ms: took_ms + age_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LoadOptions;
    use crate::control::{FetchError, Fetched};

    /// A server that gives every request the same answer.
    struct Says(Result<(u16, &'static str), FetchError>);

    impl Says {
        fn answer(&self) -> Result<Fetched, FetchError> {
            self.0.clone().map(|(status, body)| Fetched { status, body: body.into() })
        }
    }

    impl Fetch for Says {
        async fn get(&self, _: &str, _: Duration) -> Result<Fetched, FetchError> {
            self.answer()
        }

        async fn post(&self, _: &str, _: String, _: Duration) -> Result<Fetched, FetchError> {
            self.answer()
        }
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_asked_is_told_with_its_remedy() {
        let config = Config::load(LoadOptions::default()).unwrap();
        for (says, remedy) in [
            (
                Ok((401, r#"{"@type":"generic_error","error_code":40100,"message":"Unauthorized"}"#)),
                "server.bearer_file",
            ),
            (Ok((403, "")), "server.username"),
            (Ok((503, "")), "ask again when it is ready"),
            (Ok((404, "<html>")), "no ksqlDB server's answer"),
            (Ok((200, "<html>")), "no ksqlDB server's answer"),
            (Err(FetchError::Refused), "is a server running there?"),
            (Err(FetchError::TimedOut), "--server http://HOST:PORT"),
        ] {
            let urls = ["http://ksql-1:8088".to_owned()];
            let told = examine(&Says(says), &config, &urls, Duration::ZERO).await.unwrap_err().to_string();
            assert!(told.contains("http://ksql-1:8088: ") && told.contains(remedy), "{told}");
        }
    }

    #[test]
    fn settings_with_secrets_are_left_out() {
        assert!(is_of_use("ksql.streams.num.standby.replicas") && is_of_use("ksql.query.pull.max.qps"));
        assert!(!is_of_use("ksql.streams.sasl.jaas.config") && !is_of_use("ksql.schema.registry.basic.auth.user.info"));
    }
}
