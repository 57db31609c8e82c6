//! `ksqldb-sidecar explain`.

use super::ExplainArgs;
use super::told::{Asker, columns, count, span};
use serde_json::Value;
use std::error::Error;
use std::io::{Read, Write};

/// Asks a running sidecar where a statement would go now, and why.
///
/// # Errors
/// When the sidecar does not answer or refuses, or the statement cannot be read.
pub fn explain(args: &ExplainArgs, input: &mut impl Read, output: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let statement = match &args.statement {
        Some(statement) => statement.clone(),
        None => {
            let mut statement = String::new();
            input.read_to_string(&mut statement)?;
            statement
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async { Asker::new(&args.admin)?.post("/explain", statement).await })?;
    write!(output, "{}", told(&answer))?;
    Ok(())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn told(answer: &Value) -> String {
    let list = |member: &str| answer[member].as_array().cloned().unwrap_or_default();
    if answer["routed"] != true {
        let servers: Vec<String> = list("servers").iter().map(text).collect();
        let line = format!(
            "class {}, left to the servers' own routing: {}, {}; asked in this order: {}",
            text(&answer["class"]),
            text(&answer["reason"]),
            text(&answer["because"]),
            servers.join(", ")
        );
        return columns(&[vec![line]], &[]);
    }
    let head = format!(
        "class {}, table {}, partition {} of {}, level {}",
        text(&answer["class"]),
        text(&answer["table"]),
        answer["partition"],
        answer["partitions"],
        text(&answer["level"])
    );
    let mut lines = vec![vec![head]];
    let lag = &answer["bounds"]["maxOffsetLag"];
    if let Some(records) = lag["records"].as_u64() {
        lines.push(vec![format!("bound: at most {records} records behind, from {}", text(&lag["from"]))]);
    }
    let staleness = &answer["bounds"]["maxStaleness"];
    if let Some(ms) = staleness["ms"].as_u64() {
        lines.push(vec![format!("bound: at most {} old, from {}", span(Some(ms)), text(&staleness["from"]))]);
    }
    let titles = ["ORDER", "HOST", "STATE", "ROLE", "LAG", "REPORT AGE", "REASON", "WHICH MEANS"];
    let row = |order: String, replica: &Value| {
        let mut row = vec![order];
        row.extend(["host", "state", "role"].map(|member| text(&replica[member])));
        row.extend([count(replica["offsetLag"].as_u64()), span(replica["ageMs"].as_u64())]);
        row.extend(["reason", "because"].map(|member| text(&replica[member])));
        row
    };
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend((1..).zip(list("candidates")).map(|(place, replica)| row(format!("{place}."), &replica)));
    rows.extend(list("rejected").iter().map(|replica| row("not asked".to_owned(), replica)));
    if answer["thenNative"] == true {
        rows.push(vec!["then".to_owned(), "the servers' own routing".to_owned()]);
    }
    columns(&lines, &[]) + &columns(&rows, &[4, 5])
}
