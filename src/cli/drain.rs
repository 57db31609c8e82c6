//! `ksqldb-sidecar drain`: for a preStop hook or before a restart by hand.

use super::DrainArgs;
use std::error::Error;
use std::io::Write;
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
    writeln!(output, "{answer}")?;
    std::thread::sleep(args.at_least.saturating_sub(begun.elapsed()));
    match ok {
        true => Ok(()),
        false => Err("the server must not be stopped yet; the answer above says what speaks against it".into()),
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
