//! From facts to findings; pure.

mod clocks;
mod reports;
mod servers;
mod settings;
mod tables;

use super::code::{Code, Severity};
use super::facts::{Facts, ServerFacts};
use serde::Serialize;

/// Something that is not as it should be, or good to know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Which kind.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, and where.
    pub seen: String,
    /// What to set or do.
    pub change: String,
    /// What that will bring.
    pub brings: String,
}

impl Finding {
    fn new(code: Code, seen: impl Into<String>, change: impl Into<String>, brings: impl Into<String>) -> Self {
        Finding { code, severity: code.severity, seen: seen.into(), change: change.into(), brings: brings.into() }
    }
}

/// Everything that the facts show, the worst first.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    servers::find(facts, &mut found);
    clocks::find(facts, &mut found);
    reports::find(facts, &mut found);
    settings::find(facts, &mut found);
    tables::find(facts, &mut found);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// Whether nothing but notes was found.
pub fn is_healthy(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity == Severity::Note)
}

/// The names of servers, or that it is all of those that answered.
fn list(facts: &Facts, servers: &[&ServerFacts]) -> String {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    match facts.answering().count() {
        all if all == names.len() && all > 1 => "every server".to_owned(),
        _ => names.join(", "),
    }
}

/// Servers of the cluster: all but hosts that are gone for good.
fn members(facts: &Facts) -> usize {
    facts.servers.iter().filter(|server| !servers::is_ghost(server)).count()
}

#[cfg(test)]
mod tests;
