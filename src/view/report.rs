//! Lag reports of one host: its history, and since when each slot's numbers may be trusted.

use super::{HostStoreLags, Moment, Position, TableInfo};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How many reports of a host are kept: at the default interval of 5 s the last 40 s.
const KEPT: usize = 8;

/// Reports that a slot, or a whole host that came back, must have made before it is ranked with the others.
///
/// The first report after a start may have been begun before the host knew how far behind it is (`observed.md`: between
/// SIGCONT and the next report the host reports itself current).
const SETTLED: u32 = 2;

/// By how much a host's clock may run ahead of the time between two of its reports.
const CLOCK_JUMP: Duration = Duration::from_secs(10);

/// How long a host may tell others of a report before it tells it itself, with room.
const OWN_DELAY: Duration = Duration::from_secs(2);

/// The positions of one table's store by partition; `None` where the host holds no replica.
pub(super) type Positions = Box<[Option<Position>]>;

/// One report.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The host's wall clock when it made the report; only compared with other reports of the same host.
    pub update_time_ms: i64,
    /// When it was made, at the latest, on this sidecar's clock.
    pub seen: Moment,
    /// When it was made, at the earliest; `None` if nobody who shares the host's clock told its age.
    pub made_after: Option<Moment>,
    /// When its sampling began, at the earliest: the host had made its report before this one by then.
    pub begun: Option<Moment>,
    /// By query id.
    pub positions: Arc<HashMap<Arc<str>, Positions>>,
}

impl Report {
    pub fn position(&self, query_id: &str, partition: usize) -> Option<Position> {
        self.positions.get(query_id)?.get(partition).copied().flatten()
    }
}

/// All reports of one host within one incarnation of its process; by default of a new one.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    kept: VecDeque<Report>,
    /// Reports made since the host started, came back from a pause or was first seen.
    since_revival: u32,
    /// Slots whose numbers began anew, with the count of reports since then; a slot not listed is settled.
    young: HashMap<Slot, u32>,
    /// Slots whose numbers are those of a role that the host has lost since it reported them.
    demoted: HashSet<Slot>,
    /// Slots that it took over as a standby that kept up, and has yet to settle as the active of.
    heirs: HashSet<Slot>,
    /// When a slot's numbers last began anew, or were found to have.
    began: HashMap<Slot, Moment>,
    /// When the host was last found to be back.
    revived: Option<Moment>,
}

/// Query id and partition.
type Slot = (Arc<str>, u32);

fn is((query, p): &Slot, query_id: &str, partition: u32) -> bool {
    *p == partition && **query == *query_id
}

impl Reports {
    /// The history of a host that this sidecar sees for the first time: nothing is held against it.
    pub fn settled() -> Self {
        Reports { since_revival: SETTLED, ..Reports::default() }
    }

    pub fn newest(&self) -> Option<&Report> {
        self.kept.back()
    }

    pub fn previous(&self) -> Option<&Report> {
        self.kept.len().checked_sub(2).and_then(|i| self.kept.get(i))
    }

    /// Demands fresh reports after a pause, or what looked like one.
    pub fn revive(&mut self, now: Moment) {
        self.since_revival = 0;
        self.heirs.clear();
        self.revived = Some(now);
    }

    /// Distrusts one slot until it has been reported anew: its role changed. An heir of the slot lacks no more than it did
    /// before.
    pub fn unsettle(&mut self, query_id: &Arc<str>, partition: u32, heir: bool, now: Moment) {
        self.heirs.remove(&(Arc::clone(query_id), partition));
        if heir {
            self.heirs.insert((Arc::clone(query_id), partition));
        }
        self.young.insert((Arc::clone(query_id), partition), 0);
        self.began.insert((Arc::clone(query_id), partition), now);
    }

    /// Doubts a slot's numbers until the next report: what an active says of itself says nothing of the standby it became.
    pub fn demote(&mut self, query_id: &Arc<str>, partition: u32, now: Moment) {
        self.heirs.remove(&(Arc::clone(query_id), partition));
        self.demoted.insert((Arc::clone(query_id), partition));
        self.began.insert((Arc::clone(query_id), partition), now);
    }

    /// Since when the host's store of a slot is certainly the same one; `None` if no other is known.
    pub fn same_since(&self, query_id: &str, partition: u32) -> Option<Moment> {
        let mut began = self.began.iter().filter(|(slot, _)| is(slot, query_id, partition));
        began.next().map(|(_, at)| *at).max(self.revived)
    }

    pub fn is_settled(&self, query_id: &str, partition: u32) -> bool {
        self.since_revival >= SETTLED && !self.young.keys().any(|slot| is(slot, query_id, partition))
    }

    /// Whether the host took the slot over while it kept up with it, and has not stood still since.
    pub fn is_heir(&self, query_id: &str, partition: u32) -> bool {
        self.heirs.iter().any(|slot| is(slot, query_id, partition))
    }

    /// The newest report that was certainly made by a moment, and the one before it.
    pub fn two_by(&self, moment: Moment) -> Option<(&Report, &Report)> {
        let mut by_then = self.kept.iter().rev().skip_while(|report| report.seen > moment);
        Some((by_then.next()?, by_then.next()?))
    }

    /// Oldest first.
    pub fn kept(&self) -> impl Iterator<Item = &Report> {
        self.kept.iter()
    }

    /// The usual time between two reports, by the host's own clock: one report that is late says nothing.
    pub fn interval(&self) -> Option<Duration> {
        let times = self.kept.iter().map(|report| report.update_time_ms);
        let spans = times.clone().zip(times.skip(1)).filter_map(|(a, b)| u64::try_from(b.checked_sub(a)?).ok());
        let mut spans: SmallVec<[u64; KEPT]> = spans.collect();
        spans.sort_unstable();
        spans.get(spans.len() / 2).copied().map(Duration::from_millis)
    }

    /// Whether it has reported since it came back: the process may be another one, whose stores begin further behind.
    pub fn is_awake(&self) -> bool {
        self.since_revival >= 1
    }

    /// Whether the numbers of a slot are those of the process, store and role of now.
    pub fn is_renewed(&self, query_id: &str, partition: u32) -> bool {
        let young = self.young.iter().find(|(slot, _)| is(slot, query_id, partition));
        let demoted = self.demoted.iter().any(|slot| is(slot, query_id, partition));
        self.is_awake() && !demoted && young.is_none_or(|(_, reports)| *reports >= 1)
    }

    /// Notes what somebody knows better of when a known report was made. Others may have told of later ones by then, whose
    /// sampling began after it.
    fn date(&mut self, place: usize, made_after: Option<Moment>, seen: Moment) {
        let mut from = self.kept.iter_mut().skip(place);
        let Some(known) = from.next() else { return };
        known.made_after = known.made_after.max(made_after);
        known.seen = known.seen.min(seen);
        let made_after = known.made_after;
        from.for_each(|later| later.begun = later.begun.max(made_after));
    }

    /// Takes in a report and tells whether it is a new one: made at `seen` at the latest and at `made_after` at the earliest, as far as that is known.
    ///
    /// One that is known already may come again from somebody who knows better when it was made. A report is newer if the
    /// host's clock says so, and has not jumped: a clock that was set back would make old reports look new. That it was
    /// set back shows when the host itself still tells an older report `told_by_itself`, some time after the newest
    /// known one was made.
    pub fn accept(
        &mut self,
        lags: &HostStoreLags<'_>,
        tables: &[Arc<TableInfo>],
        made_after: Option<Moment>,
        seen: Moment,
        told_by_itself: Option<Moment>,
    ) -> bool {
        if let Some(place) = self.kept.iter().position(|known| known.update_time_ms == lags.update_time_ms) {
            self.date(place, made_after, seen);
            return false;
        }
        match self.kept.back() {
            _ if lags.update_time_ms <= 0 => return false,
            Some(newest) => {
                let later =
                    lags.update_time_ms.checked_sub(newest.update_time_ms).and_then(|ms| u64::try_from(ms).ok());
                let most = seen.since(newest.seen) + CLOCK_JUMP;
                let follows = later.is_some_and(|millis| Duration::from_millis(millis) <= most);
                let was_set = told_by_itself.is_some_and(|told| told >= newest.seen + OWN_DELAY);
                if !follows && !was_set {
                    return false;
                }
            }
            None => {}
        }
        let begun = self.kept.iter().rev().find_map(|report| report.made_after);
        let positions = Arc::new(positions(lags, tables));
        let report = Report { update_time_ms: lags.update_time_ms, seen, made_after, begun, positions };
        self.since_revival = self.since_revival.saturating_add(1);
        self.demoted.clear();
        if let Some(newest) = self.kept.back() {
            age(&mut self.young, &mut self.began, newest, &report);
            self.heirs.retain(|slot| self.young.contains_key(slot));
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(report);
        true
    }
}

/// Counts the new report for every young slot, and makes those young that appeared or whose position fell.
fn age(young: &mut HashMap<Slot, u32>, began: &mut HashMap<Slot, Moment>, before: &Report, report: &Report) {
    young.retain(|_, count| {
        *count += 1;
        *count < SETTLED
    });
    for (query_id, positions) in report.positions.iter() {
        let Some(earlier) = before.positions.get(query_id) else { continue };
        for (partition, position) in positions.iter().enumerate() {
            let Some(position) = position else { continue };
            let began_anew = match earlier.get(partition).copied().flatten() {
                None => true,
                Some(old) => position.current < old.current,
            };
            if began_anew {
                let slot = (Arc::clone(query_id), partition as u32);
                young.insert(slot.clone(), 1);
                began.insert(slot, report.seen);
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
