//! Asking about tables: what becomes of lookups, and whether pinned ones are answered.

use super::ask::{ANSWER, Asker, clock, wall_ms};
use super::facts::{Facts, Lookups, PartitionFacts, PassCause, ProbeFact, RoutedTable, ServerFacts, TableFacts};
use super::probe::{self, Lookup};
use crate::control::{Fetch, NOT_MATERIALISED, OWN_DELIMITER, SCHEMA_REGISTRY};
use crate::partition::SqlType;
use crate::view::{Catalogue, TableInfo};
use std::time::Instant;

impl<F: Fetch> Asker<'_, F> {
    /// Enters every table, with a pinned lookup at the replicas of one partition of each.
    pub async fn tables(
        &self,
        facts: &mut Facts,
        catalogue: &Catalogue,
        placed: impl Fn(&TableInfo) -> Vec<PartitionFacts>,
    ) {
        for table in &catalogue.tables {
            let lookups = probe::lookups(table);
            let lookups = match lookups.is_empty() {
                true => Lookups::PassedThrough(PassCause::KeyType(key_text(table))),
                false => {
                    let placement = placed(table);
                    let probes = self.probe(&mut facts.servers, &lookups, &placement).await;
                    let (key, partitions) = (key_text(table), table.partitions.get());
                    Lookups::Routed(RoutedTable { key, partitions, windowed: table.windowed, placement, probes })
                }
            };
            facts.tables.push(TableFacts { name: table.name.clone(), lookups });
        }
        for (name, reason) in &catalogue.passed_through {
            let cause = match *reason {
                NOT_MATERIALISED => PassCause::NotMaterialised,
                SCHEMA_REGISTRY | OWN_DELIMITER => PassCause::KeyFormat((*reason).to_owned()),
                other => PassCause::Undescribed(other.to_owned()),
            };
            facts.tables.push(TableFacts { name: name.clone(), lookups: Lookups::PassedThrough(cause) });
        }
        facts.tables.sort_by(|one, other| one.name.cmp(&other.name));
    }

    async fn probe(
        &self,
        servers: &mut [ServerFacts],
        lookups: &[Lookup],
        placement: &[PartitionFacts],
    ) -> Vec<ProbeFact> {
        let answering = |name: &str| servers.iter().position(|server| server.answers() && server.name == *name);
        let Some(lookup) = probe::choose(lookups, placement, |host| answering(host).is_some()) else {
            return Vec::new();
        };
        let held = placement.get(lookup.partition as usize);
        let hosts: Vec<(usize, bool)> = match held {
            // a standby that does not answer reads may also seem to: with an answer without rows
            Some(held) => probe::replicas(held)
                .filter_map(|(host, active)| Some((answering(host)?, active)))
                .filter(|(at, active)| *active || servers.get(*at).is_some_and(ServerFacts::standby_reads))
                .collect(),
            // nobody tells who holds it
            None => {
                servers.iter().enumerate().filter(|(_, server)| server.answers()).map(|(at, _)| (at, false)).collect()
            }
        };
        let mut probes = Vec::new();
        for (at, active) in hosts {
            let Some(server) = servers.get_mut(at) else { continue };
            let sent = (Instant::now(), wall_ms());
            let (refused, told_ms) = probe::ask(self.fetch, &server.url, lookup, ANSWER).await;
            server.clock = server.clock.or_else(|| clock(told_ms?, 0, sent));
            probes.push(ProbeFact { host: server.name.clone(), active, refused });
        }
        let anybody = probes.iter().any(|probe| probe.refused.is_none());
        if held.is_none() && anybody {
            // the others have no replica
            probes.retain(|probe| probe.refused.is_none());
        }
        probes
    }
}

/// The columns of a key with their types, and its format.
fn key_text(table: &TableInfo) -> String {
    let columns = table.key.columns.iter().map(|column| match &column.sql_type {
        SqlType::Struct(_) => format!("{} STRUCT", column.name),
        other => format!("{} {}", column.name, format!("{other:?}").to_uppercase()),
    });
    let columns: Vec<String> = columns.collect();
    format!("{} ({})", columns.join(", "), format!("{:?}", table.key.format).to_uppercase())
}
