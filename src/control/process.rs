//! Watches the process of the local server, where `/proc` shows it.
//!
//! The kernel empties a killed process's memory map at once, but closes its sockets only when all memory is freed, which
//! takes 700 ms for a heap of 8 GiB. A stopped process (`SIGSTOP`, a frozen container) is shown as well. What `/proc` does
//! not show, as in a container of its own, is left to the probes.

use super::keeper::{Event, Sign};
use crate::clock::Clock;
use crate::view::{HostName, Probe};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(8);

/// Time between two searches for the process; it is looked through all processes only when the listening socket is new.
const SEARCH: Duration = Duration::from_secs(1);

/// Watches one process after the other: the server may be restarted.
pub(super) struct ProcessWatch {
    pub clock: Clock,
    pub events: mpsc::Sender<Event>,
    pub host: HostName,
    /// Wakes the server's prober.
    pub probe_now: Arc<Notify>,
    pub find: Find,
}

/// How the process is found.
pub(super) enum Find {
    /// A file with its id.
    PidFile(PathBuf),
    /// The listening socket of this port, on this machine.
    Port(u16),
}

/// What `/proc/<pid>/stat` shows of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Runs,
    Stopped,
    /// It has no memory any more, or is gone altogether.
    Ended,
}

impl ProcessWatch {
    /// Watches until aborted.
    pub async fn run(self) {
        let mut fruitless = HashSet::new();
        loop {
            let found = match &self.find {
                Find::PidFile(path) => fs::read_to_string(path).ok().and_then(|pid| pid.trim().parse().ok()),
                Find::Port(port) => {
                    let (port, before) = (*port, std::mem::take(&mut fruitless));
                    let search = tokio::task::spawn_blocking(move || search(Path::new("/proc"), port, before)).await;
                    let (pid, sockets) = search.unwrap_or_default();
                    fruitless = sockets;
                    pid
                }
            };
            // a server in this very process is an emulated one
            if let Some(pid) = found.filter(|pid| *pid != std::process::id())
                && let Ok(stat) = File::open(format!("/proc/{pid}/stat"))
                && self.watch(stat).await.is_none()
            {
                return; // the keeper has ended
            }
            tokio::time::sleep(SEARCH).await;
        }
    }

    /// Watches a process to its end, on a thread of its own: a timer of the runtime for each look costs four times as much.
    async fn watch(&self, stat: File) -> Option<()> {
        let (stat, mut before) = (Arc::new(stat), Seen::Runs);
        let ended = Ended::default();
        loop {
            let (looked_at, over) = (Arc::clone(&stat), Arc::clone(&ended.0));
            let change = tokio::task::spawn_blocking(move || wait_for_change(&looked_at, before, &over));
            before = change.await.ok()?;
            let (host, now) = (Arc::clone(&self.host), self.clock.now());
            match before {
                Seen::Runs => {}
                Seen::Stopped => {
                    self.events.send(Event::Suspected { host, sign: Sign::Process, now }).await.ok()?;
                }
                Seen::Ended => {
                    let event = Event::Probed { host, probe: Probe::Refused, version: None, sent: now, now };
                    return self.events.send(event).await.ok();
                }
            }
            self.probe_now.notify_one();
        }
    }
}

/// Ends the thread that watches when nobody waits for it any more.
#[derive(Default)]
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks at a process until it shows something other than `before`, or nobody waits.
fn wait_for_change(stat: &File, before: Seen, over: &AtomicBool) -> Seen {
    loop {
        let seen = look(stat);
        if seen != before || over.load(Ordering::Relaxed) {
            return seen;
        }
        std::thread::sleep(LOOK);
    }
}

fn look(stat: &File) -> Seen {
    let mut bytes = [0; 1024];
    match stat.read_at(&mut bytes, 0) {
        Ok(read) => parse(bytes.get(..read).unwrap_or_default()),
        Err(_) => Seen::Ended, // the file of a process that is gone cannot be read
    }
}

/// The state is the first field after the name, which stands in parentheses and may hold any byte; the size of the memory
/// map is the 21st (`proc_pid_stat(5)`).
fn parse(stat: &[u8]) -> Seen {
    let after_name = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 1);
    let mut fields = stat.get(after_name..).unwrap_or_default().split(|byte| *byte == b' ').filter(|f| !f.is_empty());
    let (state, size) = (fields.next().unwrap_or_default(), fields.nth(19).unwrap_or_default());
    match (state, size) {
        (b"Z" | b"X", _) | (_, b"0" | b"") => Seen::Ended,
        (b"T" | b"t", _) => Seen::Stopped,
        _ => Seen::Runs,
    }
}

/// The process that listens on a port, and the inodes of the sockets that do. Sockets looked for in vain `before` are not
/// looked for again.
fn search(proc: &Path, port: u16, before: HashSet<String>) -> (Option<u32>, HashSet<String>) {
    let tables =
        ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(proc.join("self").join(name)).unwrap_or_default());
    let sockets: HashSet<String> = tables.iter().flat_map(|table| listening(table, port)).collect();
    if sockets.is_empty() || sockets == before {
        return (None, sockets);
    }
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let files = fs::read_dir(proc.join(pid.to_string()).join("fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| link.to_str().is_some_and(|link| sockets.contains(link)))
    };
    let found = ids.into_iter().find(holds);
    (found, sockets)
}

/// The sockets of a `/proc/net/tcp` that listen on a port, as the links in `/proc/<pid>/fd` name them.
fn listening(table: &str, port: u16) -> impl Iterator<Item = String> + '_ {
    const LISTEN: &str = "0A";
    table.lines().skip(1).filter_map(move |line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let listens = u16::from_str_radix(address.rsplit(':').next()?, 16) == Ok(port) && *state == LISTEN;
        listens.then(|| format!("socket:[{inode}]"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_state_and_its_memory() {
        let stat = |state: &str, size: &str| {
            format!(
                "7 (a b) c) {state} 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 123456 {size} 33 18446744073709551615\n"
            )
        };
        for (state, size, seen) in [
            ("S", "8589934592", Seen::Runs),
            ("R", "1", Seen::Runs),
            ("T", "8589934592", Seen::Stopped),
            ("t", "8589934592", Seen::Stopped),
            ("D", "0", Seen::Ended),
            ("Z", "0", Seen::Ended),
        ] {
            assert_eq!(parse(stat(state, size).as_bytes()), seen, "{state} {size}");
        }
        assert_eq!(parse(b""), Seen::Ended);
    }

    #[test]
    fn the_listening_socket_of_a_port_is_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F98 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
                     1: 0100007F:1F98 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n   \
                     2: 0100007F:1F99 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";
        assert_eq!(listening(table, 8088).collect::<Vec<_>>(), ["socket:[4711]"]);
    }

    #[test]
    fn this_process_is_found_by_its_own_socket_and_only_once_in_vain() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (pid, sockets) = search(Path::new("/proc"), port, HashSet::new());
        assert_eq!(pid, Some(std::process::id()));
        assert_eq!(search(Path::new("/proc"), port, sockets).0, None);
    }
}
