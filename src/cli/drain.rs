//! `ksqldb-sidecar drain`: for a preStop hook or before a restart by hand.

use super::DrainArgs;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How much longer than its own wait the sidecar may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Has the sidecar drain its server, or take that back, and prints its answer.
///
/// # Errors
/// When the sidecar cannot be asked, or the server must not be stopped yet.
pub fn drain(args: &DrainArgs, mut output: impl Write) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ok, answer) = runtime.block_on(ask(args)).map_err(|error| format!("{}: {error}", args.admin))?;
    match serde_json::from_str::<Told>(&answer) {
        Ok(told) => told.write(&mut output)?,
        Err(_) => writeln!(output, "{answer}")?, // an error, or the end of a drain
    }
    std::thread::sleep(args.at_least.saturating_sub(begun.elapsed()));
    match ok {
        true => Ok(()),
        false => Err("the server must not be stopped yet; the answer above says what speaks against it".into()),
    }
}

/// What the admin port says of a drain.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    draining: bool,
    drained: bool,
    safe: bool,
    without_current_standby: Vec<Slot>,
    other_servers_not_live: Vec<String>,
    sidecars_that_choose_it: Vec<String>,
    in_flight: Option<u32>,
}

#[derive(Deserialize)]
struct Slot {
    table: String,
    partition: u32,
}

impl Told {
    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let state = match (self.drained, self.draining, self.safe) {
            (true, ..) => "drained: the server may be stopped",
            (_, true, true) => "draining: it is still being asked",
            (_, true, false) => "draining, and not safe to stop",
            (_, false, true) => "safe to restart, not draining",
            (_, false, false) => "not safe to restart",
        };
        writeln!(output, "{state}")?;
        writeln!(output, "  queries under way from here: {}", self.in_flight.unwrap_or(0))?;
        for (what, who) in [
            ("sidecars that may still choose it", &self.sidecars_that_choose_it),
            ("other servers that are not live", &self.other_servers_not_live),
        ] {
            if !who.is_empty() {
                writeln!(output, "  {what}: {}", who.join(", "))?;
            }
        }
        let mut tables = BTreeMap::<&str, Vec<String>>::new();
        for Slot { table, partition } in &self.without_current_standby {
            tables.entry(table).or_default().push(partition.to_string());
        }
        tables.iter().try_for_each(|(table, partitions)| {
            writeln!(output, "  without a current replica elsewhere: {table} {}", partitions.join(", "))
        })
    }
}

async fn ask(args: &DrainArgs) -> Result<(bool, String), reqwest::Error> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let admin = args.admin.trim_end_matches('/');
    let request = match (args.end, args.ready) {
        (true, _) => client.delete(format!("{admin}/drain")),
        (_, true) => client.get(format!("{admin}/drain/ready")),
        _ => client.post(format!("{admin}/drain?wait={}ms", args.wait.as_millis())),
    };
    let answer = request.timeout(args.wait + ANSWER).send().await?;
    Ok((answer.status().is_success(), answer.text().await?))
}
