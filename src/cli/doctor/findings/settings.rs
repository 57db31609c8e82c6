//! Settings that `LIST PROPERTIES` shows.

use super::super::code::{
    COMMIT_INTERVAL_LONG, PULL_CONCURRENCY_LIMITED, PULL_QUERIES_DISABLED, PULL_RATE_LIMITED, PULL_THREADS_FEW,
    STANDBY_READS_OFF, STANDBY_REPLICAS_NONE, STANDBY_REPLICAS_UNPLACED, STATE_DIRECTORY_TEMPORARY,
    STATE_DIRECTORY_UNSET,
};
use super::super::facts::{Facts, PartitionFacts, ServerFacts};
use super::{Finding, list, members, servers};

/// Longest commit interval, milliseconds: ksqlDB's own default.
const COMMIT_MS: u64 = 2000;

/// Pull queries a second that one server should let through.
const QUERIES: u64 = 1000;

/// Pull queries at once that one server should let through: as many as its pool has threads.
const AT_ONCE: u64 = 50;

/// Fewest threads of a pool of pull queries; 50 by default.
const THREADS: u64 = 20;

pub(super) fn find(facts: &Facts, found: &mut Vec<Finding>) {
    let mut told = |code, wanted: &dyn Fn(&ServerFacts) -> bool, seen: &str, change: &str, brings: &str| {
        let servers: Vec<&ServerFacts> = facts.answering().filter(|server| wanted(server)).collect();
        if !servers.is_empty() {
            found.push(Finding::new(code, format!("{seen} on {}", list(facts, &servers)), change, brings));
        }
    };
    let below = |name: &'static str, least: u64| {
        move |server: &ServerFacts| server.setting::<u64>(name).is_some_and(|value| value < least)
    };
    told(
        PULL_QUERIES_DISABLED,
        &|server| server.setting("ksql.pull.queries.enable") == Some(false),
        "pull queries are disabled",
        "set ksql.pull.queries.enable=true",
        "there are queries to route",
    );
    told(
        STANDBY_READS_OFF,
        &|server| !server.standby_reads(),
        "standby reads (ksql.query.pull.enable.standby.reads) are off",
        "set ksql.query.pull.enable.standby.reads=true",
        "reads go on while an active is away, and may choose the fresher replica",
    );
    if members(facts) > 1 {
        told(
            STANDBY_REPLICAS_NONE,
            &|server| replicas(server) == 0,
            "ksql.streams.num.standby.replicas is 0",
            "set ksql.streams.num.standby.replicas=1",
            "each partition has a second replica to read from, and to go on with after a crash without a restore",
        );
    }
    told(
        COMMIT_INTERVAL_LONG,
        &|server| server.setting("ksql.streams.commit.interval.ms").is_some_and(|value: u64| value > COMMIT_MS),
        "ksql.streams.commit.interval.ms is above 2000",
        "set ksql.streams.commit.interval.ms=2000 or less",
        "standbys get what an active has changed only when it commits: so long they are behind",
    );
    told(
        PULL_RATE_LIMITED,
        &below("ksql.query.pull.max.qps", QUERIES),
        "ksql.query.pull.max.qps is below 1000",
        "raise ksql.query.pull.max.qps",
        "a server that takes over another's reads does not refuse them with 429",
    );
    told(
        PULL_CONCURRENCY_LIMITED,
        &below("ksql.query.pull.max.concurrent.requests", AT_ONCE),
        "ksql.query.pull.max.concurrent.requests is below 50",
        "raise ksql.query.pull.max.concurrent.requests",
        "retries and reads that another server cannot take find room",
    );
    let few = ["ksql.query.pull.thread.pool.size", "ksql.query.pull.router.thread.pool.size"];
    told(
        PULL_THREADS_FEW,
        &|server| few.iter().any(|name| below(name, THREADS)(server)),
        "a pool of pull queries has fewer than 20 threads",
        "set ksql.query.pull.thread.pool.size=50 and ksql.query.pull.router.thread.pool.size=50",
        "queries do not wait behind others; their queues have no bound and show as latency",
    );
    told(
        STATE_DIRECTORY_TEMPORARY,
        &|server| {
            let directory = server.properties.get(STATE_DIRECTORY);
            directory.is_some_and(|directory| directory.starts_with("/tmp") || directory.starts_with("/var/tmp"))
        },
        "ksql.streams.state.dir is a temporary directory",
        KEEP_STATE,
        GOES_ON,
    );
    told(
        STATE_DIRECTORY_UNSET,
        &|server| !server.properties.contains_key(STATE_DIRECTORY),
        "ksql.streams.state.dir is not set, and by default temporary,",
        KEEP_STATE,
        GOES_ON,
    );
    found.extend(unplaced(facts));
}

const STATE_DIRECTORY: &str = "ksql.streams.state.dir";
const KEEP_STATE: &str = "set ksql.streams.state.dir to a directory that outlives a restart";
const GOES_ON: &str = "a restarted server goes on where it was, instead of reading its changelogs from the start";

fn replicas(server: &ServerFacts) -> usize {
    server.setting("ksql.streams.num.standby.replicas").unwrap_or_default()
}

/// Standbys that are set and do not exist.
fn unplaced(facts: &Facts) -> Option<Finding> {
    let (wanted, members) = (facts.answering().map(replicas).max().unwrap_or_default(), members(facts));
    if members > 1 && wanted >= members {
        return Some(Finding::new(
            STANDBY_REPLICAS_UNPLACED,
            format!("{wanted} standby replicas need {} servers, and there are {members}", wanted + 1),
            format!("start more servers, or set ksql.streams.num.standby.replicas={}", members - 1),
            "each partition has the replicas that were asked for",
        ));
    }
    let is_whole = facts.servers.iter().all(|server| server.alive != Some(false) || servers::is_ghost(server));
    let lacks = |held: &PartitionFacts| held.active.is_some() && held.standbys.len() < wanted;
    let lacking = facts.routed().find(|(_, routed)| routed.placement.iter().any(lacks));
    let (table, _) = lacking.filter(|_| is_whole && members > 1)?;
    Some(Finding::new(
        STANDBY_REPLICAS_UNPLACED,
        format!("a partition of {table} has fewer than {wanted} standbys although every server is alive"),
        "wait for the end of a rebalance and ask again; if it stays so, set ksql.streams.num.standby.replicas alike everywhere",
        "each partition has the replicas that were asked for",
    ))
}
