//! Lag reports of one host: its history, and since when each slot's numbers may be trusted.

use super::{HostStoreLags, Interval, Moment, Position, TableInfo};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many reports of a host are kept: at the default interval of 5 s the last 40 s.
const KEPT: usize = 8;

/// Reports that a slot, or a whole host that came back, must have made before it is ranked with the others.
///
/// The first report after a start may have been begun before the host knew how far behind it is (`observed.md`: between
/// SIGCONT and the next report the host reports itself current).
const SETTLED: u32 = 2;

/// The positions of one table's store by partition; `None` where the host holds no replica.
pub(super) type Positions = Box<[Option<Position>]>;

/// One report.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The host's wall clock when it made the report; only compared with other reports of the same host.
    pub update_time_ms: i64,
    /// When it was made, on this sidecar's clock.
    pub made: Interval,
    /// By query id.
    pub positions: HashMap<Arc<str>, Positions>,
}

impl Report {
    pub fn position(&self, query_id: &str, partition: usize) -> Option<Position> {
        self.positions.get(query_id)?.get(partition).copied().flatten()
    }
}

/// All reports of one host within one incarnation of its process; by default of a new one.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    kept: VecDeque<Arc<Report>>,
    /// Reports made since the host started, came back from a pause or was first seen.
    since_revival: u32,
    /// Slots whose numbers began anew, with the count of reports since then; a slot not listed is settled.
    young: HashMap<Slot, u32>,
}

/// Query id and partition.
type Slot = (Arc<str>, u32);

impl Reports {
    /// The history of a host that this sidecar sees for the first time: nothing is held against it.
    pub fn settled() -> Self {
        Reports { since_revival: SETTLED, ..Reports::default() }
    }

    pub fn newest(&self) -> Option<&Report> {
        self.kept.back().map(Arc::as_ref)
    }

    pub fn previous(&self) -> Option<&Report> {
        self.kept.len().checked_sub(2).and_then(|i| self.kept.get(i)).map(Arc::as_ref)
    }

    /// Demands fresh reports after a pause; positions stay, they are lower bounds still.
    pub fn revive(&mut self) {
        self.since_revival = 0;
    }

    /// Distrusts one slot until it has been reported anew: its role changed.
    pub fn unsettle(&mut self, query_id: &Arc<str>, partition: u32) {
        self.young.insert((Arc::clone(query_id), partition), 0);
    }

    pub fn is_settled(&self, query_id: &str, partition: u32) -> bool {
        self.since_revival >= SETTLED && !self.young.keys().any(|(query, p)| *p == partition && **query == *query_id)
    }

    /// Takes in a report unless it is one already known; `made_at` is the latest moment at which it can have been made.
    pub fn accept(&mut self, lags: &HostStoreLags<'_>, tables: &[Arc<TableInfo>], made_at: Moment) -> bool {
        if lags.update_time_ms <= 0 || self.newest().is_some_and(|newest| newest.update_time_ms >= lags.update_time_ms)
        {
            return false;
        }
        let report = Report {
            update_time_ms: lags.update_time_ms,
            made: Interval { from: self.newest().map_or(Moment::EPOCH, |r| r.made.to).min(made_at), to: made_at },
            positions: positions(lags, tables),
        };
        self.since_revival = self.since_revival.saturating_add(1);
        if let Some(newest) = self.kept.back() {
            age(&mut self.young, newest, &report);
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::new(report));
        true
    }
}

/// Counts the new report for every young slot, and makes those young that appeared or whose position fell.
fn age(young: &mut HashMap<Slot, u32>, before: &Report, report: &Report) {
    young.retain(|_, count| {
        *count += 1;
        *count < SETTLED
    });
    for (query_id, positions) in &report.positions {
        let Some(earlier) = before.positions.get(query_id) else { continue };
        for (partition, position) in positions.iter().enumerate() {
            let Some(position) = position else { continue };
            let began_anew = match earlier.get(partition).copied().flatten() {
                None => true,
                Some(old) => position.current < old.current,
            };
            if began_anew {
                young.insert((Arc::clone(query_id), partition as u32), 1);
            }
        }
    }
}

fn positions(lags: &HostStoreLags<'_>, tables: &[Arc<TableInfo>]) -> HashMap<Arc<str>, Positions> {
    let mut by_query = HashMap::with_capacity(tables.len());
    for (key, store) in &lags.state_store_lags.0 {
        let Some(table) = tables.iter().find(|table| table.owns_store_key(key)) else { continue };
        let mut positions: Positions = vec![None; table.partitions.get() as usize].into_boxed_slice();
        for (partition, position) in &store.lag_by_partition.0 {
            if let Some(slot) = partition.parse::<usize>().ok().and_then(|p| positions.get_mut(p)) {
                *slot = Some(*position);
            }
        }
        by_query.insert(Arc::from(table.query_id.as_str()), positions);
    }
    by_query
}
