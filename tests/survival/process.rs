//! The local server's process, seen where probes are far too rare to tell.

use crate::cluster::support::{sidecars, until};
use ksqldb_sidecar::view::{ClusterView, HostState};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// An emulated server in a process of its own, which ends with the test.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ksqldb-sidecar"))
            .args(["emulate", "--servers", "1", "--port", "0", "--tables", "TL"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the emulator");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let url = lines.map_while(Result::ok).find_map(|line| Some(line[line.find("http://")?..].trim().to_owned()));
        Server { process, url: url.expect("an address") }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill");
        assert!(sent.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is(view: &ClusterView, state: HostState, suspected: bool) -> bool {
    view.local().is_some_and(|(_, host)| host.state == state && host.suspected.is_some() == suspected)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_or_ends_is_noticed_without_a_probe() {
    let server = Server::start();
    let rare = [
        ("HEALTH__INTERVAL", "1m"), // the local server is probed four times as often
        ("HEALTH__TIMEOUT", "1m"),
        ("HEALTH__WINDOW", "10m"),
        ("HEALTH__RECEIVED_THRESHOLD", "1"),
    ];
    let all = sidecars(std::slice::from_ref(&server.url), &rare).await;
    let sidecar = all.first().expect("one");
    until(sidecar, "it is live", |view| is(view, HostState::Live, false)).await;
    server.signal("-STOP");
    until(sidecar, "it stands still", |view| is(view, HostState::Live, true)).await;
    server.signal("-CONT");
    until(sidecar, "it runs again", |view| is(view, HostState::Live, false)).await;
    server.signal("-KILL");
    until(sidecar, "it is dead", |view| is(view, HostState::Dead, false)).await;
    for sidecar in all {
        sidecar.shutdown().await;
    }
}
