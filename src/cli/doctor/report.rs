//! The report, for people and for programs.

use super::code::Severity;
use super::facts::{Facts, Lookups, PassCause, Reach, RoutedTable, ServerFacts};
use super::findings::{Finding, is_healthy};
use crate::view::ServerVersion;
use serde_json::json;
use std::io::{self, Write};

/// Writes a JSON object: `healthy`, `findings` and `facts`.
///
/// # Errors
/// When `output` cannot be written.
pub fn write_json(facts: &Facts, findings: &[Finding], output: &mut impl Write) -> io::Result<()> {
    let report = json!({"healthy": is_healthy(findings), "findings": findings, "facts": facts});
    serde_json::to_writer_pretty(&mut *output, &report)?;
    writeln!(output)
}

/// Writes what was seen, in plain words, and the findings last.
///
/// # Errors
/// When `output` cannot be written.
pub fn write_text(facts: &Facts, findings: &[Finding], output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "servers")?;
    for server in &facts.servers {
        writeln!(output, "  {}", server_line(server))?;
    }
    writeln!(output, "settings")?;
    for (name, value) in settings(facts) {
        writeln!(output, "  {name:<17} {value}")?;
    }
    writeln!(output, "freshness that can be asked for")?;
    for (name, value) in freshness(facts) {
        writeln!(output, "  {name:<17} {value}")?;
    }
    writeln!(output, "lookups by table")?;
    for table in &facts.tables {
        let fate = match &table.lookups {
            Lookups::Routed(routed) => routed_line(routed),
            Lookups::PassedThrough(cause) => format!("passed through: {}", cause_text(cause)),
        };
        writeln!(output, "  {:<17} {fate}", table.name)?;
    }
    writeln!(output, "  all other queries (IN, ranges, scans, streams, push) pass through to the servers")?;
    write_findings(findings, output)
}

fn write_findings(findings: &[Finding], output: &mut impl Write) -> io::Result<()> {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let counts = [counted(errors, "error"), counted(warnings, "warning"), counted(notes, "note")];
    writeln!(output, "findings: {}", counts.join(", "))?;
    if errors + warnings > 0 {
        writeln!(output, "  (a server's settings take effect when it restarts: restart them one after the other)")?;
    }
    for finding in findings {
        writeln!(output, "  {} {}: {}", finding.severity.as_str(), finding.code, finding.seen)?;
        writeln!(output, "    change: {}", finding.change)?;
        writeln!(output, "    brings: {}", finding.brings)?;
    }
    Ok(())
}

fn server_line(server: &ServerFacts) -> String {
    let mut line = server.name.clone();
    match &server.reach {
        Reach::Answered => line += &format!(" {}", server.version.as_deref().unwrap_or("of unknown version")),
        Reach::AnsweredAs(other) => line += &format!(" is answered by {other}"),
        Reach::Failed(why) => line += &format!(" does not answer: {why}"),
    }
    if server.alive == Some(false) {
        line += ", dead for the others";
    }
    if let Some(clock) = server.clock {
        line += &format!(", clock {:+} ms from here (within {} ms)", clock.ahead_ms, clock.within_ms);
    }
    line
}

/// The settings that matter, one value where all servers agree.
fn settings(facts: &Facts) -> Vec<(&'static str, String)> {
    let on = |on: bool| if on { "on".to_owned() } else { "off".to_owned() };
    let unlimited = |name: &'static str| {
        move |server: &ServerFacts| match server.setting::<i64>(name) {
            Some(limit) if limit < i64::from(i32::MAX) => limit.to_string(),
            _ => "unlimited".to_owned(),
        }
    };
    let shown = |name: &'static str, default: &'static str, unit: &'static str| {
        move |server: &ServerFacts| {
            server.properties.get(name).map_or(default.to_owned(), |value| format!("{value}{unit}"))
        }
    };
    let reports = match (facts.reports.any, facts.reports.interval_ms) {
        (true, Some(interval)) => format!("on, every {interval} ms"),
        (true, None) => "on, interval unknown".to_owned(),
        (false, _) => "off".to_owned(),
    };
    let threads = |server: &ServerFacts| {
        let run = shown("ksql.query.pull.thread.pool.size", "default", "")(server);
        format!("{run}, {} forward", shown("ksql.query.pull.router.thread.pool.size", "default", "")(server))
    };
    vec![
        ("heartbeats", on(facts.heartbeats())),
        ("lag reports", reports),
        ("standby reads", each(facts, shown("ksql.query.pull.enable.standby.reads", "false", ""))),
        ("standby replicas", each(facts, shown("ksql.streams.num.standby.replicas", "0", ""))),
        ("commit interval", each(facts, shown("ksql.streams.commit.interval.ms", "default", " ms"))),
        ("pins", each(facts, |server| pins(server.version.as_deref().and_then(ServerVersion::parse)))),
        ("pull queries/s", each(facts, unlimited("ksql.query.pull.max.qps"))),
        ("pulls at once", each(facts, unlimited("ksql.query.pull.max.concurrent.requests"))),
        ("pull threads", each(facts, threads)),
    ]
}

/// What a version lets a sidecar do.
fn pins(version: Option<ServerVersion>) -> String {
    let Some(version) = version else { return "unknown: the version is not told".to_owned() };
    let mut text = match (version.pins(), version.pins_on_query_stream()) {
        (false, _) => return "none: every query passes through".to_owned(),
        (true, true) => "on /query and /query-stream".to_owned(),
        (true, false) => "on /query only".to_owned(),
    };
    text += if version.checks_pins() { ", wrong ones are refused" } else { ", wrong ones are answered with no rows" };
    text +=
        if version.may_lose_errors() { "; empty answers need both proofs" } else { "; empty answers need one proof" };
    text
}

/// The value of all servers, or each with its own.
fn each(facts: &Facts, value: impl Fn(&ServerFacts) -> String) -> String {
    let values: Vec<(&str, String)> = facts.answering().map(|server| (server.name.as_str(), value(server))).collect();
    match values.split_first() {
        Some(((_, first), rest)) if rest.iter().all(|(_, other)| other == first) => first.clone(),
        _ => values.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", "),
    }
}

fn freshness(facts: &Facts) -> Vec<(&'static str, String)> {
    let known = facts.heartbeats() && facts.reports.any;
    let offsets = if known { "any number of records" } else { "none: there are no lag reports" };
    let time = match facts.time_floor_ms().filter(|_| known) {
        Some(floor) => format!("from {floor} ms on, with a sidecar beside every server"),
        None => "none: the time between lag reports is not known".to_owned(),
    };
    let levels = if facts.heartbeats() { "latest, active, any" } else { "any: nobody tells who is active" };
    vec![("offset bound", offsets.to_owned()), ("time bound", time), ("level", levels.to_owned())]
}

fn cause_text(cause: &PassCause) -> String {
    match cause {
        PassCause::NotMaterialised => "not materialised, servers refuse them too".to_owned(),
        PassCause::KeyFormat(why) | PassCause::Undescribed(why) => why.clone(),
        PassCause::KeyType(key) => format!("the bytes of its key are not computed: {key}"),
    }
}

fn routed_line(table: &RoutedTable) -> String {
    let windowed = if table.windowed { ", windowed" } else { "" };
    let mut line = format!("routed by {}{windowed}, {} partitions", table.key, table.partitions);
    let held = || table.placement.iter().filter(|held| held.active.is_some());
    if let Some(least) = held().map(|held| 1 + held.standbys.len()).min() {
        line += &format!(" of {least} replicas");
    }
    // of each partition the best standby, and of those the worst
    let hottest = held().filter_map(|held| held.standbys.iter().filter_map(|standby| standby.lag).min()).max();
    if let Some(lag) = hottest {
        line += &format!(", hottest standby {lag} records behind");
    }
    let (fine, refused): (Vec<_>, Vec<_>) = table.probes.iter().partition(|probe| probe.refused.is_none());
    match (fine.len(), refused.len()) {
        (0, 0) => line += ", pin not tried",
        (fine, 0) if table.placement.is_empty() => {
            line += &format!(", pin accepted by {fine}, nobody tells who holds it")
        }
        (fine, 0) => line += &format!(", pin accepted by {fine}"),
        (fine, refused) => line += &format!(", pin accepted by {fine} and refused by {refused}"),
    }
    line
}
