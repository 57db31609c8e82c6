//! What can be done to an emulated cluster.

use serde::Deserialize;

/// A fault, or the end of one. Servers are given by their index.
///
/// As JSON on the control port it is an object with one member, e.g. `{"crash":2}` or `{"cutOff":{"from":0,"to":1}}`; `"heal"` is
/// a string.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// SIGKILL: connections are reset, the port is closed, nothing is committed.
    Crash(usize),
    /// SIGSTOP: connections are accepted and nothing is said.
    Pause(usize),
    /// SIGCONT.
    Resume(usize),
    /// SIGTERM: the phases of a closing server.
    Close(usize),
    /// Starts a server that is down: the phases of a starting one.
    Start(usize),
    /// What `from` sends to `to` is lost, without an error.
    #[allow(missing_docs)]
    CutOff { from: usize, to: usize },
    /// Ends cuts, slowness, frozen reports, delays, skews, truncations, stalls and skipping; starts or resumes nothing.
    Heal,
    /// Every answer of the server takes so much longer.
    #[allow(missing_docs)]
    Slow { server: usize, ms: u64 },
    /// The server sends no more lag reports.
    FreezeLagReports(usize),
    /// The state directory is lost: at once if the server is down, else at its next start.
    Wipe(usize),
    /// The table's topics are made anew, empty; its offsets begin again at zero.
    RecreateTopic(String),
    /// A host that nobody runs appears in `/clusterStatus`.
    GhostHost(String),
    /// The server's clock is wrong by so much.
    #[allow(missing_docs)]
    ClockSkew { server: usize, ms: i64 },
    /// The server's standbys get changelog records so much later.
    #[allow(missing_docs)]
    DelayReplication { server: usize, ms: u64 },
    /// The server breaks answers with rows off in the middle.
    #[allow(missing_docs)]
    Truncate { server: usize, on: bool },
    /// The server sends the head of answers and then nothing.
    #[allow(missing_docs)]
    Stall { server: usize, on: bool },
    /// The server's standbys pass over the changelog's records, and report them as applied.
    #[allow(missing_docs)]
    Skip { server: usize, on: bool },
}

impl Fault {
    /// Each, as the control port takes it.
    pub const EXAMPLES: &str = r#"{"crash":1} {"pause":1} {"resume":1} {"close":1} {"start":1} {"wipe":1} {"cutOff":{"from":0,"to":1}} {"slow":{"server":1,"ms":300}} {"stall":{"server":1,"on":true}} {"truncate":{"server":1,"on":true}} {"skip":{"server":1,"on":true}} {"delayReplication":{"server":1,"ms":5000}} {"freezeLagReports":1} {"clockSkew":{"server":1,"ms":3600000}} {"ghostHost":"ghost:8088"} {"recreateTopic":"TL"} "heal""#;

    /// The servers that it names.
    pub fn servers(&self) -> Vec<usize> {
        match self {
            Fault::Crash(server)
            | Fault::Pause(server)
            | Fault::Resume(server)
            | Fault::Close(server)
            | Fault::Start(server)
            | Fault::FreezeLagReports(server)
            | Fault::Wipe(server)
            | Fault::Slow { server, .. }
            | Fault::ClockSkew { server, .. }
            | Fault::DelayReplication { server, .. }
            | Fault::Truncate { server, .. }
            | Fault::Stall { server, .. }
            | Fault::Skip { server, .. } => vec![*server],
            Fault::CutOff { from, to } => vec![*from, *to],
            Fault::Heal | Fault::RecreateTopic(_) | Fault::GhostHost(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_fault() {
        let examples: Vec<Fault> =
            Fault::EXAMPLES.split(' ').map(|text| serde_json::from_str(text).expect(text)).collect();
        assert_eq!(examples.len(), 17);
        assert!(examples.contains(&Fault::Heal));
    }
}
