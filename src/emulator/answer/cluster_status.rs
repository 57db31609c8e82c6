//! `/clusterStatus` and `/info`.

use crate::emulator::catalogue::{Query, SERVICE_ID};
use crate::emulator::config::Version;
use crate::emulator::model::{Model, Report};
use std::fmt::Write;

/// `GET /info`.
pub fn info(version: Version) -> String {
    format!(
        r#"{{"KsqlServerInfo":{{"version":"{}","kafkaClusterId":"MkU3OEVBNTcwNTJENDM2Qg","ksqlServiceId":"{SERVICE_ID}","serverStatus":"RUNNING"}}}}"#,
        version.as_str()
    )
}

/// `GET /clusterStatus` as a server answers it now.
pub fn cluster_status(model: &Model, server: usize) -> String {
    let mut out = r#"{"clusterStatus":{"#.to_owned();
    let known = model.hosts.get(server).is_some_and(|h| h.discovered);
    let mut first = true;
    for index in (0..model.hosts.len()).rev().filter(|i| *i == server || known) {
        let Some(host) = model.hosts.get(index) else { continue };
        let alive = model.alive(server, index);
        let own_start = model.hosts.get(server).map_or(0, |h| h.incarnation_ms);
        // The status of others is recomputed every 200 ms.
        let clock = model.clock_ms(server);
        let updated = if index == server { own_start } else { clock - clock.rem_euclid(200) };
        out.push_str(if first { "" } else { "," });
        first = false;
        _ = write!(
            out,
            r#""{}":{{"hostAlive":{alive},"lastStatusUpdateMs":{updated},"activeStandbyPerQuery":{{"#,
            host.name
        );
        placement(model, server, index, &mut out);
        out.push_str("},\"hostStoreLags\":");
        let report = model.hosts.get(server).and_then(|h| h.reports.get(index)).filter(|_| alive);
        lags(model, report.map(AsRef::as_ref), &mut out);
        out.push('}');
    }
    for ghost in &model.ghosts {
        let updated = model.clock_ms(server) - 3_600_000;
        _ = write!(
            out,
            r#","{ghost}":{{"hostAlive":false,"lastStatusUpdateMs":{updated},"activeStandbyPerQuery":{{}},"hostStoreLags":{{"stateStoreLags":{{}},"updateTimeMs":0}}}}"#
        );
    }
    out + "}}"
}

fn placement(model: &Model, server: usize, host: usize, out: &mut String) {
    let Some(placement) = model.hosts.get(server).and_then(|h| h.placement.clone()) else { return };
    let mut first = true;
    for id in &model.catalogue.status_order {
        let Some((index, query)) = model.catalogue.queries.iter().enumerate().find(|(_, q)| q.id == *id) else {
            continue;
        };
        let partitions = placement.get(index).map(Vec::as_slice).unwrap_or_default();
        let numbers = |of: &dyn Fn(&crate::emulator::model::Assignment) -> bool| -> Vec<usize> {
            partitions.iter().enumerate().filter(|(_, a)| of(a)).map(|(p, _)| p).collect()
        };
        let active = numbers(&|a| a.active == host);
        let standby = numbers(&|a| a.standbys.contains(&host));
        if active.is_empty() && standby.is_empty() {
            continue;
        }
        out.push_str(if first { "" } else { "," });
        first = false;
        _ = write!(
            out,
            r#""{id}":{{"activeStores":{},"activePartitions":{},"standByStores":{},"standByPartitions":{}}}"#,
            stores(query, &active),
            topics(&query.input_topics, &active),
            stores(query, &standby),
            topics(&query.store_topics, &standby)
        );
    }
}

fn stores(query: &Query, partitions: &[usize]) -> String {
    let names: Vec<String> = query.stores.iter().map(|s| format!("\"{s}\"")).collect();
    if partitions.is_empty() { "[]".to_owned() } else { format!("[{}]", names.join(",")) }
}

fn topics(topics: &[String], partitions: &[usize]) -> String {
    let each = |p: &usize| {
        let p = *p;
        topics.iter().map(move |topic| format!(r#"{{"topic":"{topic}","partition":{p}}}"#))
    };
    let all: Vec<String> = partitions.iter().flat_map(each).collect();
    format!("[{}]", all.join(","))
}

fn lags(model: &Model, report: Option<&Report>, out: &mut String) {
    out.push_str(r#"{"stateStoreLags":{"#);
    let mut first = true;
    for name in model.catalogue.lag_order.iter().filter(|_| report.is_some()) {
        let Some(report) = report else { break };
        let Some((id, store)) = name.split_once('#') else { continue };
        let Some(query) = model.catalogue.queries.iter().position(|q| q.id == id) else { continue };
        let mut entries = report.lags.range((query, 0)..(query + 1, 0)).peekable();
        if entries.peek().is_none() {
            continue;
        }
        let application = match model.config.version {
            Version::Old => format!("_confluent-ksql-{SERVICE_ID}query_"),
            _ => String::new(),
        };
        out.push_str(if first { "" } else { "," });
        first = false;
        _ = write!(out, r#""{application}{id}#{store}":{{"lagByPartition":{{"#);
        let mut size = 0;
        for ((_, partition), (current, end)) in entries {
            let comma = if size > 0 { "," } else { "" };
            let lag = end - current;
            _ = write!(
                out,
                r#"{comma}"{partition}":{{"currentOffsetPosition":{current},"endOffsetPosition":{end},"offsetLag":{lag}}}"#
            );
            size += 1;
        }
        _ = write!(out, r#"}},"size":{size}}}"#);
    }
    let at = report.map_or(0, |r| r.at_ms);
    _ = write!(out, r#"}},"updateTimeMs":{at}}}"#);
}
