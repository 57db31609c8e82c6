//! Reading stores, here and at other servers.

use super::locate::Located;
use super::plan::{Field, value};
use super::{Found, Options, Outcome, Planned};
use crate::emulator::config::Version;
use crate::emulator::datum::Datum;
use crate::emulator::model::{Key, Model, Role, Row, State};
use std::time::Duration;

/// A server that will stop in less than this takes a forwarded query and never answers it (`observed.md`: 4 such reads a roll).
const LOST_BEFORE_SHUTDOWN: Duration = Duration::from_millis(100);

/// A store that will be closed in less than this may fail in the middle of a query.
const FAILS_MIDWAY: Duration = Duration::from_millis(60);

type Rows = Vec<(Vec<Datum>, usize)>;

enum Forwarded {
    Rows(Rows, Duration),
    Failed,
    Waits { lost: bool },
}

/// What came of reading one partition of a store.
enum Read {
    /// Every row.
    Whole(Rows),
    /// The rows before it failed, and how much later that is: an answer that breaks off ends when its store is closed.
    Broken(Rows, Duration),
}

/// When a store is closed, and after how many rows a query fails that it is closed under.
type Closes = (usize, Duration);

impl Model {
    pub(super) fn read(&mut self, server: usize, planned: &Planned, located: Located, options: &Options) -> Outcome {
        let mut found = Found::empty(planned.columns.clone());
        for (partition, hosts) in located {
            match self.read_partition(server, planned, partition, &hosts, &mut found) {
                Ok(true) => {}
                Ok(false) => return self.failed(server, found, planned.keys.is_some(), options),
                Err((on, lost)) => return Outcome::Waits { on, lost },
            }
            if found.rows.len() >= planned.limit {
                break;
            }
        }
        found.rows.truncate(planned.limit);
        Outcome::Found(found)
    }

    /// Asks the candidates in turn; a failure here is final, one there is not. False if it failed.
    fn read_partition(
        &mut self,
        server: usize,
        planned: &Planned,
        partition: u32,
        hosts: &[usize],
        found: &mut Found,
    ) -> Result<bool, (usize, bool)> {
        for host in hosts {
            if *host == server {
                let (rows, whole, wait) = match self.read_store(server, planned, partition) {
                    Read::Whole(rows) => (rows, true, Duration::ZERO),
                    Read::Broken(rows, wait) => (rows, false, wait),
                };
                found.rows.extend(rows);
                found.delay = found.delay.max(wait);
                return Ok(whole);
            }
            match self.forward(server, *host, planned, partition) {
                Forwarded::Rows(rows, delay) => {
                    found.rows.extend(rows);
                    found.delay = found.delay.max(delay);
                    return Ok(true);
                }
                Forwarded::Failed => {}
                Forwarded::Waits { lost } => return Err((*host, lost)),
            }
        }
        Ok(false)
    }

    fn forward(&mut self, from: usize, to: usize, planned: &Planned, partition: u32) -> Forwarded {
        if self.cut(from, to) {
            return Forwarded::Waits { lost: false };
        }
        let Some(host) = self.hosts.get(to) else { return Forwarded::Failed };
        let stopping = host.closing_since + self.config.phases.draining;
        if host.state == State::Draining && self.now() + LOST_BEFORE_SHUTDOWN >= stopping {
            return Forwarded::Waits { lost: true };
        }
        if host.paused {
            return Forwarded::Waits { lost: false };
        }
        let reported = host.reports.get(to).is_some_and(|r| r.lags.contains_key(&(planned.query, partition)));
        if !host.state.processes() || (self.config.lag_reports && !reported) {
            return Forwarded::Failed;
        }
        let delay = host.slow;
        match self.read_store(to, planned, partition) {
            Read::Whole(rows) => Forwarded::Rows(rows, delay),
            // A remote answer of a header alone passes for success where failures are hidden.
            Read::Broken(rows, wait)
                if self.config.version.hides_failures() && rows.is_empty() && self.chance(2) == 0 =>
            {
                Forwarded::Rows(rows, delay + wait)
            }
            Read::Broken(..) => Forwarded::Failed,
        }
    }

    /// Reads one partition of the store at a host.
    fn read_store(&mut self, host: usize, planned: &Planned, partition: u32) -> Read {
        let now = self.now();
        let closed = self.closes(host, (planned.query, partition)).is_some_and(|at| at <= now);
        let breaks_after = self.breaks_after(host, planned, partition);
        let standby_reads = self.config.standby_reads;
        let mut rows = Vec::new();
        let Some(replica) = self.replica(host, (planned.query, partition)) else {
            return Read::Broken(rows, Duration::ZERO);
        };
        if closed || !replica.readable(now) || (replica.role == Role::Standby && !standby_reads) {
            return Read::Broken(rows, Duration::ZERO);
        }
        match &planned.keys {
            Some(keys) => {
                for (read, (bytes, _, _)) in keys.iter().enumerate() {
                    if let Some((_, at)) = breaks_after.filter(|(n, _)| read >= *n) {
                        return Read::Broken(rows, at.saturating_sub(now));
                    }
                    if let Some((key, row)) = replica.get(bytes) {
                        project(planned, key, row, host, &mut rows);
                    }
                }
            }
            None => {
                let limit = planned.limit;
                for (read, entry) in replica.range(&planned.from).enumerate() {
                    if let Some((_, at)) = breaks_after.filter(|(n, _)| read >= *n) {
                        return Read::Broken(rows, at.saturating_sub(now));
                    }
                    project(planned, &entry.0, &entry.1, host, &mut rows);
                    if rows.len() >= limit {
                        break;
                    }
                }
            }
        }
        Read::Whole(rows)
    }

    /// After how many rows the store will fail, if it will, and when: just before it is closed by a rebalance or, on 8.x, by
    /// its server's end. A store that was closed under one query stays closed for the next.
    fn breaks_after(&mut self, host: usize, planned: &Planned, partition: u32) -> Option<Closes> {
        let now = self.now();
        let slot = (planned.query, partition);
        let replica = self.hosts.get(host)?.replicas.get(&slot)?;
        let rebalanced = Some(replica.unreadable.0).filter(|at| *at > now);
        let closes = self.closes(host, slot).filter(|at| *at > now);
        let at = rebalanced.into_iter().chain(closes).min().filter(|at| *at - now < FAILS_MIDWAY)?;
        if self.chance(3) > 0 {
            return None;
        }
        let length = planned.keys.as_ref().map_or(12, |keys| keys.len() as u64);
        Some((self.chance(length) as usize, at))
    }

    /// When a server of 8.x that was told to stop closes a store: between 0.4 and 0.9 s after SIGTERM, one after the other.
    fn closes(&self, host: usize, (query, partition): (usize, u32)) -> Option<Duration> {
        let owner = self.hosts.get(host)?;
        if self.config.version != Version::V8_0_1 || owner.state != State::Draining {
            return None;
        }
        let turn = (query as u32).wrapping_mul(5).wrapping_add(partition).wrapping_mul(7) % 24;
        Some(owner.closing_since + self.config.phases.draining.mul_f64(0.19 + f64::from(turn) / 100.0))
    }
}

fn project(planned: &Planned, key: &Key, row: &Row, host: usize, rows: &mut Rows) {
    let mut push = |window: Option<(i64, i64)>| {
        let column = |name: &str| {
            let field = match name {
                "WINDOWSTART" => Field::WindowStart,
                "WINDOWEND" => Field::WindowEnd,
                _ => match planned.key_names.iter().position(|k| k == name) {
                    Some(i) => Field::Key(i),
                    None if name == "V" => Field::V,
                    None => Field::C,
                },
            };
            value(field, &key.values, row, window)
        };
        if planned.filter.as_ref().is_none_or(|f| f.holds(&column)) {
            rows.push((planned.fields.iter().map(|f| value(*f, &key.values, row, window)).collect(), host));
        }
    };
    match planned.windowed {
        true => row.windows.iter().for_each(|w| push(Some(*w))),
        false => push(None),
    }
}
