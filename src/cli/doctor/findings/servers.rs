//! Which servers there are, under which names, of which versions.

use super::super::code::{
    ADVERTISED_LOCAL, DECLARED_DEAD, GHOST_HOST, NAME_NOT_ROUTABLE, NAME_SHARED, NAME_TAKEN, PINS_UNCHECKED,
    SERVER_DOWN, SINGLE_SERVER, VERSION_CANNOT_PIN, VERSIONS_MIXED,
};
use super::super::facts::{Facts, Reach, ServerFacts};
use super::{Finding, clocks, list, members};
use crate::view::ServerVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const ADVERTISE: &str = "set ksql.advertised.listener of each server to an address under which the other machines and the sidecars reach it";

pub(super) fn find(facts: &Facts, found: &mut Vec<Finding>) {
    for server in &facts.servers {
        found.extend(unreachable(server));
        found.extend(declared_dead(facts, server));
    }
    found.extend(shared(facts));
    found.extend(local(facts));
    found.extend(versions(facts));
    if members(facts) == 1 && facts.routed().next().is_some() {
        found.push(Finding::new(
            SINGLE_SERVER,
            "the cluster has one server",
            "start further servers with the same ksql.service.id, and set ksql.streams.num.standby.replicas=1",
            "reads go on while a server is away",
        ));
    }
}

/// Whether it is dead for the others, holds nothing, and does not answer.
pub(super) fn is_ghost(server: &ServerFacts) -> bool {
    server.alive == Some(false) && !server.placed && !server.answers()
}

fn unreachable(server: &ServerFacts) -> Option<Finding> {
    let ServerFacts { name, url, .. } = server;
    let why = match &server.reach {
        Reach::Answered => return None,
        Reach::AnsweredAs(other) => format!("{other} answers under {url}"),
        Reach::Failed(why) => format!("{url}: {why}"),
    };
    Some(match (&server.reach, server.alive, server.placed) {
        (_, Some(false), false) => Finding::new(
            GHOST_HOST,
            format!("{name} is in the cluster's map, dead and without partitions ({why})"),
            "start it if it is only away; if it is gone for good, restart the other servers one after the other",
            "servers forget hosts only when they restart, and wait for this one in every statement that asks all",
        ),
        (_, Some(false), true) => Finding::new(
            SERVER_DOWN,
            format!("{name} holds partitions, is dead for the others, and does not answer ({why})"),
            "start it, or wait for the session timeout, after which its partitions move",
            "its partitions are processed again, and have their second replica back",
        ),
        (Reach::AnsweredAs(_), ..) => Finding::new(
            NAME_TAKEN,
            format!("another server answers under the advertised name {name} ({why})"),
            ADVERTISE,
            "servers and sidecars forward queries to the server that they mean",
        ),
        _ => Finding::new(
            NAME_NOT_ROUTABLE,
            format!("{name} cannot be reached from this machine under its advertised name ({why})"),
            format!(
                "{ADVERTISE}; where only the sidecars dial otherwise, set peers.names or peers.static; ignore it on a \
                     machine outside the cluster's network"
            ),
            "a sidecar can send queries only to servers that it can reach",
        ),
    })
}

fn declared_dead(facts: &Facts, server: &ServerFacts) -> Option<Finding> {
    let skewed = clocks::skewed(facts);
    let explained = |server: &ServerFacts| skewed.iter().any(|(name, _)| *name == server.name);
    let first = facts.servers.first()?;
    if !server.answers() || server.alive != Some(false) || explained(server) || explained(first) {
        return None;
    }
    Some(Finding::new(
        DECLARED_DEAD,
        format!("{} answers, but {} counts it as dead", server.name, first.name),
        format!(
            "let {} reach {} under its advertised name, and look for long pauses of either",
            server.name, first.name
        ),
        "servers send it queries again and take its lag reports",
    ))
}

/// Names under which two addresses answered.
fn shared(facts: &Facts) -> Vec<Finding> {
    let mut urls: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for server in facts.answering() {
        urls.entry(&server.name).or_default().push(&server.url);
    }
    let shared = urls.into_iter().filter(|(_, urls)| urls.len() > 1);
    let finding = |(name, urls): (&str, Vec<&str>)| {
        let seen = format!("{} all call themselves {name}", urls.join(" and "));
        let brings = "each server has an entry of its own in the cluster's map";
        Finding::new(NAME_SHARED, seen, format!("{ADVERTISE}, another one each"), brings)
    };
    shared.map(finding).collect()
}

/// Servers that are dialled from elsewhere and advertise an address that means every machine itself.
fn local(facts: &Facts) -> Option<Finding> {
    let outside = facts.servers.iter().any(|server| !is_local(&server.name) || !is_local(authority(&server.url)));
    let servers: Vec<&ServerFacts> = facts.answering().filter(|server| is_local(&server.name)).collect();
    (outside && !servers.is_empty()).then(|| {
        let names: Vec<String> = servers.iter().map(|server| format!("{} ({})", server.name, server.url)).collect();
        let seen = format!("advertised names mean every machine itself: {}", names.join(", "));
        Finding::new(ADVERTISED_LOCAL, seen, ADVERTISE, "servers and sidecars on other machines find this one")
    })
}

fn authority(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, authority)| authority)
}

fn is_local(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    let address = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || address.is_unspecified());
    address || host.eq_ignore_ascii_case("localhost")
}

fn versions(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let told: BTreeSet<&str> = facts.answering().filter_map(|server| server.version.as_deref()).collect();
    if told.len() > 1 {
        let each = facts.answering().filter_map(|s| Some(format!("{} {}", s.name, s.version.as_deref()?)));
        found.push(Finding::new(
            VERSIONS_MIXED,
            format!("servers differ in version: {}", each.collect::<Vec<_>>().join(", ")),
            "finish the upgrade",
            "lag reports of different versions may not be read by each other; every server answers alike",
        ));
    }
    let of = |wanted: &dyn Fn(ServerVersion) -> bool| {
        let is = |server: &&ServerFacts| server.version.as_deref().and_then(ServerVersion::parse).is_some_and(wanted);
        facts.answering().filter(is).collect::<Vec<_>>()
    };
    let cannot = of(&|version| !version.pins());
    if !cannot.is_empty() {
        found.push(Finding::new(
            VERSION_CANNOT_PIN,
            format!("the version of {} cannot pin a query to a partition", list(facts, &cannot)),
            "upgrade to 0.29 or 7.5 or later; pins need 0.14 or 6.1",
            "lookups are routed; until then they pass through",
        ));
    }
    let unchecked = of(&|version| version.pins() && !version.checks_pins());
    if !unchecked.is_empty() {
        found.push(Finding::new(
            PINS_UNCHECKED,
            format!(
                "the version of {} does not check that a key lies in the pinned partition",
                list(facts, &unchecked)
            ),
            "upgrade to 0.28 or 7.3 or later",
            "a server refuses a query that was sent to the wrong replica instead of answering that there is no row",
        ));
    }
    found
}
