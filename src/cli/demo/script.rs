//! What happens to the cluster during the demonstration.

use super::report::Tally;
use crate::emulator::{Cluster, ClusterConfig, Fault, Phases};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The phases of a server's start and stop take this share of what real servers took, so that all fits into 40 s.
const HASTE: f64 = 0.3;

/// The acts: when each begins, as a share of the whole, what it is called, and what is done.
const ACTS: [(f64, &str, Option<Fault>); 10] = [
    (0.00, "calm", None),
    (0.10, "server 1 is killed", Some(Fault::Crash(0))),
    (0.25, "server 1 starts again", Some(Fault::Start(0))),
    (0.42, "server 2 freezes", Some(Fault::Pause(1))),
    (0.52, "server 2 goes on", Some(Fault::Resume(1))),
    (0.62, "server 3 is told to stop", Some(Fault::Close(2))),
    (0.75, "server 3 starts again", Some(Fault::Start(2))),
    (0.88, "server 1's standbys fall behind", Some(Fault::DelayReplication { server: 0, ms: 3000 })),
    (0.96, "healed", Some(Fault::Heal)),
    (1.00, "end", None),
];

/// The cluster of the demonstration.
pub(super) fn cluster() -> ClusterConfig {
    ClusterConfig {
        session_timeout: Duration::from_secs(3),
        phases: Phases::default().scaled(HASTE),
        tables: vec!["TL".to_owned()],
        ..ClusterConfig::default()
    }
}

/// Plays the acts over `whole`, showing the state as it goes: in place on a terminal, a line an act elsewhere.
pub(super) async fn play(cluster: &Cluster, tally: &Mutex<Tally>, whole: Duration) {
    let live = std::io::stdout().is_terminal();
    let begun = tokio::time::Instant::now();
    for acts in ACTS.windows(2) {
        let [(_, name, fault), (until, ..)] = acts else { continue };
        let end = begun + whole.mul_f64(*until);
        if let Some(fault) = fault {
            cluster.inject(fault.clone());
        }
        println!("{:5.1} s  {name}", begun.elapsed().as_secs_f64());
        while live && tokio::time::Instant::now() + Duration::from_millis(250) < end {
            tokio::time::sleep(Duration::from_millis(250)).await;
            print!("\r{}", tally.lock().unwrap_or_else(PoisonError::into_inner).line());
            let _ = std::io::Write::flush(&mut std::io::stdout()); // a terminal that went away is no reason to stop
        }
        tokio::time::sleep_until(end).await;
        if live {
            println!();
        } else {
            println!("         {}", tally.lock().unwrap_or_else(PoisonError::into_inner).line());
        }
    }
}
