//! Tables whose lookups are not routed, or not answered.

use super::super::code::{
    KEY_FORMAT_UNROUTABLE, KEY_TYPE_UNROUTABLE, NO_TABLES, PIN_REFUSED, TABLE_NOT_MATERIALISED, TABLE_UNDESCRIBED,
    TABLES_UNKNOWN,
};
use super::super::facts::{Facts, Lookups, PassCause, ProbeFact, ServerFacts};
use super::Finding;

pub(super) fn find(facts: &Facts, found: &mut Vec<Finding>) {
    if let Some(error) = &facts.tables_error {
        found.push(Finding::new(
            TABLES_UNKNOWN,
            format!("the server that was asked did not list its tables and queries: {error}"),
            "let the user that asks run LIST, SHOW and DESCRIBE; raise lag.max_body if the answer is too large",
            "a sidecar needs them to route anything at all",
        ));
    } else if facts.routed().next().is_none() {
        found.push(Finding::new(
            NO_TABLES,
            "no table's lookups can be routed, so nothing is known of replicas and their lag",
            "make a table with CREATE TABLE ... AS SELECT, and ask again",
            "placement, lag reports and pins can be looked at",
        ));
    }
    for table in &facts.tables {
        if let Lookups::PassedThrough(cause) = &table.lookups {
            found.push(passed_through(&table.name, cause));
        }
    }
    for (table, routed) in facts.routed() {
        let refusals = routed.probes.iter().filter_map(|probe| Some((probe, probe.refused.as_deref()?)));
        found.extend(refusals.filter(|(probe, _)| !is_explained(facts, probe)).map(|(probe, why)| {
            let role = if probe.active { "active" } else { "standby" };
            Finding::new(
                PIN_REFUSED,
                format!("{} refused a pinned lookup on {table} ({role}): {why}", probe.host),
                "ask again in a minute; if it stays so, look into the server's log",
                "lookups are answered by this replica; until then by another one, or by the servers' own routing",
            )
        }));
    }
}

/// Whether another finding tells why a pinned lookup was refused.
fn is_explained(facts: &Facts, probe: &ProbeFact) -> bool {
    let disabled = |server: &ServerFacts| server.setting("ksql.pull.queries.enable") == Some(false);
    facts.answering().any(|server| server.name == probe.host && disabled(server))
}

fn passed_through(table: &str, cause: &PassCause) -> Finding {
    match cause {
        PassCause::KeyFormat(why) => Finding::new(
            KEY_FORMAT_UNROUTABLE,
            format!("lookups on {table} pass through: {why}"),
            format!("make {table} anew with KEY_FORMAT='KAFKA', 'JSON' or 'DELIMITED' and no KEY_DELIMITER"),
            "its lookups are routed",
        ),
        PassCause::KeyType(key) => Finding::new(
            KEY_TYPE_UNROUTABLE,
            format!("lookups on {table} pass through: the bytes of its key are not computed: {key}"),
            "use several key columns instead of a STRUCT, and types whose bytes are certain",
            "its lookups are routed",
        ),
        PassCause::NotMaterialised => Finding::new(
            TABLE_NOT_MATERIALISED,
            format!("{table} is in no store, so servers refuse pull queries on it"),
            format!("make CREATE TABLE ... AS SELECT * FROM {table}, or {table} itself with CREATE SOURCE TABLE"),
            "it can be pulled from, and its lookups are routed",
        ),
        PassCause::Undescribed(why) => Finding::new(
            TABLE_UNDESCRIBED,
            format!("lookups on {table} pass through: {why}"),
            "ask again when its query has run for a moment",
            "its lookups are routed if the servers then tell enough of it",
        ),
    }
}
