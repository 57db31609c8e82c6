//! `ksqldb-sidecar doctor`: asks servers, changes nothing, and reports what keeps a cluster from being read well.
//!
//! [`examine`] asks and gives [`Facts`]; [`findings`] is pure; the report is written from both.

mod ask;
mod code;
mod facts;
mod findings;
mod placement;
mod probe;
mod report;
mod tables;
mod watch;

pub use ask::{CannotAsk, examine};
pub use code::{CODES, Code, Severity};
pub use facts::{
    ClockFact, Facts, Lookups, PartitionFacts, PassCause, ProbeFact, Reach, Reports, RoutedTable, ServerFacts,
    StandbyFact, TableFacts,
};
pub use findings::{Finding, findings, is_healthy};
pub use report::{write_json, write_text};

use super::DoctorArgs;
use crate::config::{Config, Flag, LoadOptions};
use crate::control::HttpFetch;
use std::error::Error;
use std::io::{IsTerminal, Write};

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object: `healthy`, `findings` and `facts`.
    Json,
}

/// Asks, writes the report, and tells whether nothing but notes was found.
///
/// # Errors
/// [`ConfigErrors`](crate::config::ConfigErrors) of the configuration, [`CannotAsk`] when no server answers, or an error of
/// `output`.
pub fn doctor(args: &DoctorArgs, output: &mut impl Write) -> Result<bool, Box<dyn Error>> {
    let flag = |url: &String| Flag { flag: "--server", key: "server.url", value: url.clone() };
    let mut urls = Vec::new();
    let mut config = load(args, Vec::new())?;
    for url in &args.server {
        // as a flag, so that one that is no address is told as `run` would
        config = load(args, vec![flag(url)])?;
        urls.push(config.server.url.to_string());
    }
    if urls.is_empty() {
        urls.push(config.server.url.to_string());
    }
    urls.extend(config.peers.static_peers.iter().map(|peer| peer.server.to_string()));
    let mut known = std::collections::HashSet::new();
    urls.retain(|url| known.insert(url.clone()));
    let fetch = HttpFetch::new(&config)?;
    if std::io::stderr().is_terminal() {
        eprintln!("asking; lag reports are watched for up to {}", humantime::format_duration(args.watch));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let facts = runtime.block_on(examine(&fetch, &config, &urls, args.watch))?;
    let found = findings(&facts);
    match args.format {
        Format::Text => write_text(&facts, &found, output)?,
        Format::Json => write_json(&facts, &found, output)?,
    }
    Ok(is_healthy(&found))
}

fn load(args: &DoctorArgs, flags: Vec<Flag>) -> Result<Config, Box<dyn Error>> {
    Ok(Config::load(LoadOptions::from_process(args.config.clone(), flags))?)
}
