//! `ksqldb-sidecar top`.

use super::TopArgs;
use super::told::{Asker, Decision, Decisions, Overview, Partition, Second, Server, Table, columns, count, span};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Decisions shown.
const DECISIONS: usize = 15;

/// Seconds that the line of traffic sums.
const SUMMED: u64 = 60;

/// Partitions shown of one table.
const PARTITIONS: usize = 64;

/// Shows what the status page of a sidecar shows, anew every second.
///
/// # Errors
/// When the sidecar does not answer, or the output cannot be written.
pub fn top(args: &TopArgs, output: &mut impl Write) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let asker = Asker::new(&args.admin)?;
        let clear = std::io::stdout().is_terminal() && !args.once;
        loop {
            let overview: Overview = asker.get("/overview").await?;
            let Decisions { decisions } = asker.get(&format!("/decisions?limit={DECISIONS}")).await?;
            if clear {
                write!(output, "\x1b[H\x1b[J")?; // to the first line, and nothing below
            }
            write!(output, "{}", screen(&overview, &decisions))?;
            output.flush()?;
            if args.once {
                return Ok(());
            }
            tokio::time::sleep(EVERY).await;
        }
    })
}

fn screen(overview: &Overview, decisions: &[Decision]) -> String {
    let local = overview.servers.iter().find(|server| server.local).map_or("no known server", |server| &server.name);
    let mut text = columns(&[vec![format!("ksqldb-sidecar {} beside {local}", overview.version)]], &[]);
    text.push_str(&summary(overview));
    text.push('\n');
    text.push_str(&servers(&overview.servers));
    text.push_str("\nTABLES: letter = active, then standbys: . current, ~ behind, ? no young report, x down; ! losing a host would hurt\n");
    text.push_str(&columns(
        &overview.tables.iter().map(|one| table(one, overview.lag_reporting)).collect::<Vec<_>>(),
        &[],
    ));
    text.push('\n');
    text.push_str(&traffic(overview));
    text.push('\n');
    text.push_str(&listed(decisions));
    text
}

fn summary(overview: &Overview) -> String {
    let live = overview.servers.iter().filter(|server| server.state == "live").count();
    let mut text = format!("{live} of {} servers live", overview.servers.len());
    if overview.lag_reporting {
        let partitions = || overview.tables.iter().flat_map(|table| &table.partitions);
        let (all, lost) = (partitions().count(), partitions().filter(|partition| partition.ready == 0).count());
        let risky = partitions().filter(|partition| partition.ready == 1).count();
        text.push_str(&match (lost, risky) {
            (0, 0) => ", losing any one host would not hurt".to_owned(),
            _ => format!(", of {all} partitions {lost} have no current replica and {risky} only one"),
        });
    }
    let advice = overview.advice.iter().map(|advice| format!("\n{advice}"));
    text.extend(advice);
    text.push('\n');
    text
}

fn servers(servers: &[Server]) -> String {
    let head = ["", "SERVER", "STATE", "FOR", "SIDECAR", "ACTIVE", "STANDBY", "LAG", "REPORT AGE"];
    let row = |(place, server): (usize, &Server)| {
        vec![
            letter(place),
            server.name.clone(),
            server.state.clone(),
            span(Some(server.since_ms)),
            server.sidecar.state.clone(),
            server.actives.to_string(),
            server.standbys.to_string(),
            count(server.offset_lag),
            span(server.age_ms),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(servers.iter().enumerate().map(row)).collect();
    columns(&rows, &[5, 6, 7, 8])
}

fn table(table: &Table, lag_reporting: bool) -> Vec<String> {
    let cell = |partition: &Partition| {
        let active = partition.active.map_or("-".to_owned(), letter);
        let standbys = partition.replicas.iter().filter(|replica| replica.role != "active");
        let marks = standbys.map(|replica| match replica.stands.as_str() {
            "current" => '.',
            "behind" => '~',
            "down" => 'x',
            _ => '?',
        });
        let risk = if lag_reporting && partition.ready < 2 { "!" } else { "" };
        format!("{active}{}{risk}", marks.collect::<String>())
    };
    let mut row = vec![table.name.clone()];
    row.extend(table.partitions.iter().take(PARTITIONS).map(cell));
    if table.partitions.len() > PARTITIONS {
        row.push(format!("and {} more", table.partitions.len() - PARTITIONS));
    }
    row
}

fn traffic(overview: &Overview) -> String {
    let from = overview.traffic.second.saturating_sub(SUMMED);
    let last =
        || overview.traffic.seconds.iter().filter(|second| second.at >= from && second.at < overview.traffic.second);
    let sum = |of: fn(&Second) -> u64| last().map(of).sum::<u64>();
    let most = |of: fn(&Second) -> u64| last().map(of).max().unwrap_or(0);
    format!(
        "LAST {SUMMED} s: {} requests, {} failed, {} asked again; slowest pull query {}, largest lag served {} records, oldest report used {}\n",
        sum(|second| second.requests),
        sum(|second| second.failed),
        sum(|second| second.again),
        span(Some(most(|second| second.slowest_ms.ceil() as u64))),
        most(|second| second.offset_lag),
        span(Some(most(|second| second.age_ms))),
    )
}

fn listed(decisions: &[Decision]) -> String {
    let head = ["TIME (UTC)", "CLASS", "PARTITION", "SERVED BY", "REASON", "LAG", "TRIES", "TOOK", "OUTCOME"];
    let row = |decision: &Decision| {
        let seconds = decision.at_ms / 1000;
        let partition = decision.table.as_ref().zip(decision.partition);
        vec![
            format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60),
            decision.class.clone(),
            partition.map_or("-".to_owned(), |(table, partition)| format!("{table}/{partition}")),
            decision.served_by.clone().unwrap_or_else(|| "the sidecar".to_owned()),
            decision.reason.clone(),
            count(decision.offset_lag),
            decision.attempts.max(1).to_string(),
            span(Some(decision.duration_ms.ceil() as u64)),
            decision.outcome.clone(),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(decisions.iter().map(row)).collect();
    columns(&rows, &[5, 6, 7])
}

/// A, B, ... Z, AA, ... for the server of that place.
fn letter(place: usize) -> String {
    let last = char::from(b'A' + (place % 26) as u8); // below 26
    if place < 26 { last.to_string() } else { format!("{}{last}", letter(place / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!([0, 25, 26, 701, 702].map(letter), ["A", "Z", "AA", "ZZ", "AAA"]);
    }
}
