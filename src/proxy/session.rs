//! What a client's session has read, as a token that the client carries.
//!
//! A token holds, for each slot that was read, which process was read and when. A replica may answer next if it is that
//! process still, with the same store, or if it certainly holds everything that was logged until the read: then it is not
//! older than what was read. Times travel as the issuing sidecar's incarnation and monotonic clock; another sidecar
//! converts them by the exchanges it has had with the issuer, and takes the present for those it knows nothing of.
//!
//! An active shows rows of its cache before they are logged. What was read from it counts as logged one commit interval
//! later, if its process certainly ran until then, without a pause in which its tasks may have moved. If not, those rows may be lost and come again only when the input is
//! processed again: then another replica may answer once the query has processed all input that was there after the read.
//! The same condition makes a token of a write: what was written is read once all input of that time has been processed.

use crate::partition::Partition;
use crate::route::After;
use crate::view::{ClusterView, HostIndex, HostState, HostView, Interval, Moment, PeerClocks, TableInfo};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};
use smallvec::SmallVec;
use std::hash::Hasher;
use std::time::Duration;

/// The version of tokens.
const VERSION: u8 = 1;

/// Slots that a token names, if the others' reads are known to be logged; those are remembered together.
const NAMED: usize = 8;

/// Slots that a token names at most; a session that reads more within one commit interval is held to the latest of them.
const MOST_NAMED: usize = 64;

/// How much later than its interval a commit may come, as it waits for the records under way.
pub(super) const COMMIT_SLACK: Duration = Duration::from_millis(500);

/// Bytes before the reads: version, issuer, time of the earlier reads, count.
const HEAD: usize = 1 + 8 + 6 + 1;
/// Bytes of one read: slot, process, time, slack, kind.
const READ: usize = 8 + 8 + 6 + 4 + 1;
/// Bytes of the check at the end.
const CHECK: usize = 8;

/// What a session has read, on this sidecar's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    reads: SmallVec<[Read; 2]>,
    /// The latest of the reads that are not named any more.
    earlier: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    slot: u64,
    process: u64,
    at: Interval,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// From a standby: logged rows only.
    Logged = 0,
    /// From an active: rows of its cache too.
    Cached = 1,
    /// No read but a write of input.
    Written = 2,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// Of another cluster, or changed.
    #[error("is not a token of this cluster, or was changed on its way; begin a new session without it")]
    Foreign,
    /// Of another version.
    #[error("is of another version of the sidecar; begin a new session without it")]
    Version,
    /// Of an earlier changelog.
    #[error("is of a changelog that has been created anew since; begin a new session without it")]
    Epoch,
}

/// What tokens of one cluster are made and read with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenKey {
    key: [u8; 16],
    issuer: u64,
}

impl TokenKey {
    /// For the tokens of the sidecar with incarnation `issuer` in front of the cluster with that id.
    pub fn new(cluster_id: &str, issuer: u64) -> Self {
        let mut hasher = SipHasher128::new();
        hasher.write(cluster_id.as_bytes());
        TokenKey { key: hasher.finish128().as_bytes(), issuer }
    }

    fn check(&self, bytes: &[u8]) -> [u8; CHECK] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(bytes);
        hasher.finish().to_be_bytes()
    }
}

impl Session {
    /// Reads a token that came at `now`.
    ///
    /// # Errors
    /// When it is none of this cluster and version.
    pub fn decode(text: &str, key: &TokenKey, clocks: &PeerClocks, now: Moment) -> Result<Session, BadToken> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadToken::Foreign)?;
        let (signed, check) = bytes.split_last_chunk::<CHECK>().ok_or(BadToken::Foreign)?;
        if signed.first() != Some(&VERSION) {
            return Err(BadToken::Version);
        }
        if key.check(signed) != *check {
            return Err(BadToken::Foreign);
        }
        let mut bytes = Bytes(signed);
        let (_, issuer, earlier, count) = (bytes.number(1), bytes.number(8), bytes.number(6), bytes.number(1));
        let convert = |millis: u64, slack: u64| {
            let here = match issuer == key.issuer {
                true => Some(Interval { from: Moment::from_millis(millis), to: Moment::from_millis(millis) }),
                false => clocks.convert(issuer, Duration::from_millis(millis)),
            };
            let here = here.unwrap_or(Interval { from: Moment::EPOCH, to: now });
            Interval { from: here.from.back(Duration::from_millis(slack)), to: here.to.min(now) }
        };
        let mut session = Session { earlier: (earlier > 0).then(|| convert(earlier, 0).to), ..Session::default() };
        for _ in 0..count {
            let (slot, process) = (bytes.number(8), bytes.number(8));
            let at = convert(bytes.number(6), bytes.number(4));
            let kind = match bytes.number(1) {
                0 => Kind::Logged,
                1 => Kind::Cached,
                _ => Kind::Written,
            };
            session.reads.push(Read { slot, process, at, kind });
        }
        Ok(session)
    }

    /// The token of this session, as short as what is known now allows.
    pub fn encode(&mut self, key: &TokenKey, view: &ClusterView) -> String {
        self.shorten(view);
        let mut bytes = Vec::with_capacity(HEAD + self.reads.len() * READ + CHECK);
        bytes.push(VERSION);
        put(&mut bytes, key.issuer, 8);
        put(&mut bytes, self.earlier.map_or(0, millis_up), 6);
        put(&mut bytes, self.reads.len() as u64, 1);
        for read in &self.reads {
            put(&mut bytes, read.slot, 8);
            put(&mut bytes, read.process, 8);
            let slack = millis_up(read.at.to).saturating_sub(millis(read.at.from));
            put(&mut bytes, millis_up(read.at.to), 6);
            put(&mut bytes, slack.min(u64::from(u32::MAX)), 4);
            put(&mut bytes, read.kind as u64, 1);
        }
        let check = key.check(&bytes);
        bytes.extend_from_slice(&check);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Notes a read of a slot from a host, begun and ended at these moments.
    pub fn read(&mut self, table: &TableInfo, partition: Partition, host: &HostView, active: bool, at: Interval) {
        let kind = if active { Kind::Cached } else { Kind::Logged };
        self.note(Read { slot: slot(table, Some(partition)), process: host.process(), at, kind });
    }

    /// Notes that input of a table was written by now.
    pub fn wrote(&mut self, table: &TableInfo, now: Moment) {
        let at = Interval { from: now, to: now };
        self.note(Read { slot: slot(table, None), process: 0, at, kind: Kind::Written });
    }

    fn note(&mut self, read: Read) {
        let of_a_write = |read: &Read| read.kind == Kind::Written;
        self.reads.retain(|known| known.slot != read.slot || of_a_write(known) != of_a_write(&read));
        self.reads.push(read);
    }

    /// Turns reads of caches that have been logged since into reads of the log, and forgets the oldest of many.
    fn shorten(&mut self, view: &ClusterView) {
        for read in self.reads.iter_mut().filter(|read| read.kind == Kind::Cached) {
            let logged = read.logged(view);
            if read.lived_until(logged, view) {
                (read.kind, read.at.to) = (Kind::Logged, logged);
            }
        }
        while self.reads.len() > NAMED {
            let logged = self.reads.iter().position(|read| read.kind == Kind::Logged);
            let place = match logged {
                Some(place) => place,
                None if self.reads.len() > MOST_NAMED => 0,
                None => return,
            };
            let read = self.reads.remove(place);
            self.earlier = self.earlier.max(Some(read.logged(view)));
        }
    }

    /// The host that was read last of the slot, if the same process still runs there.
    pub fn last_read(&self, table: &TableInfo, partition: Partition, view: &ClusterView) -> Option<HostIndex> {
        let read = self.of_slot(table, partition).find(|read| read.kind != Kind::Written)?;
        view.hosts.iter().position(|host| host.process() == read.process).map(|index| index as HostIndex)
    }

    /// Whether a read of the slot waits for the query to have processed its input.
    pub fn awaits_processing(&self, table: &TableInfo, partition: Partition, view: &ClusterView) -> bool {
        self.of_slot(table, partition).any(|read| match read.kind {
            Kind::Logged => false,
            Kind::Written => read.processed(table, view).is_none(),
            Kind::Cached => {
                let lives = view.hosts.iter().any(|h| h.process() == read.process && h.state == HostState::Live);
                !lives && !read.lived_until(read.logged(view), view) && read.processed(table, view).is_none()
            }
        })
    }

    fn of_slot(&self, table: &TableInfo, partition: Partition) -> impl Iterator<Item = &Read> {
        let slots = [slot(table, Some(partition)), slot(table, None)];
        self.reads.iter().filter(move |read| slots.contains(&read.slot))
    }

    /// What a replica of a slot must hold to answer next; `None` if the session has not read it.
    ///
    /// # Errors
    /// [`BadToken::Epoch`] when the changelog was created anew after the read.
    pub fn after(
        &self,
        table: &TableInfo,
        partition: Partition,
        epoch: Option<Moment>,
        view: &ClusterView,
    ) -> Result<Option<After>, BadToken> {
        if epoch.is_some_and(|epoch| self.earlier.is_some_and(|at| at < epoch)) {
            return Err(BadToken::Epoch);
        }
        let mut after = self.earlier.map(|at| After { until: Some(at), same: None });
        for read in self.of_slot(table, partition) {
            if epoch.is_some_and(|epoch| read.at.to < epoch) {
                return Err(BadToken::Epoch);
            }
            let next = read.after(table, view);
            after = Some(match after {
                None => next,
                Some(known) => After {
                    until: known.until.zip(next.until).map(|(a, b)| a.max(b)),
                    same: if known.same == next.same { known.same } else { None },
                },
            });
        }
        Ok(after)
    }
}

impl Read {
    fn after(&self, table: &TableInfo, view: &ClusterView) -> After {
        let of_process = (0..).zip(&view.hosts).find(|(_, host)| host.process() == self.process);
        let same = of_process.map(|(index, _)| (index as HostIndex, self.at.from));
        let logged = self.logged(view);
        match self.kind {
            Kind::Logged => After { until: Some(self.at.to), same },
            Kind::Cached if self.lived_until(logged, view) => After { until: Some(logged), same },
            Kind::Cached => After { until: self.processed(table, view), same },
            Kind::Written => After { until: self.processed(table, view), same: None },
        }
    }

    /// By when what was read is logged, if the process lived until then.
    fn logged(&self, view: &ClusterView) -> Moment {
        match self.kind {
            Kind::Logged => self.at.to,
            Kind::Cached | Kind::Written => self.at.to + view.commit_interval + COMMIT_SLACK,
        }
    }

    /// Whether the process that was read certainly ran from then until a moment or later, without losing its tasks.
    fn lived_until(&self, moment: Moment, view: &ClusterView) -> bool {
        view.hosts.iter().any(|host| {
            let now = host.ran.map(|ran| (host.process(), ran));
            let ran = [now, host.ran_before].into_iter().flatten();
            ran.filter(|(process, _)| *process == self.process)
                .any(|(_, ran)| ran.from <= self.at.from && ran.to >= moment)
        })
    }

    /// By when the query had processed everything that was written before the read, as far as anybody asked.
    fn processed(&self, table: &TableInfo, view: &ClusterView) -> Option<Moment> {
        let processed = view.processed.get(&table.query_id)?;
        (processed.asked >= self.at.to).then_some(processed.done)
    }
}

fn slot(table: &TableInfo, partition: Option<Partition>) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(table.query_id.as_bytes());
    hasher.write_u8(0xff);
    hasher.write_u64(partition.map_or(u64::MAX, u64::from));
    hasher.finish()
}

fn millis(at: Moment) -> u64 {
    u64::try_from(at.since_epoch().as_millis()).unwrap_or(u64::MAX)
}

fn millis_up(at: Moment) -> u64 {
    millis(at).saturating_add(1)
}

fn put(bytes: &mut Vec<u8>, number: u64, width: usize) {
    bytes.extend_from_slice(number.to_be_bytes().get(8 - width..).unwrap_or_default());
}

/// Takes numbers off the front; what is missing is zero.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&mut self, width: usize) -> u64 {
        let (taken, rest) = self.0.split_at(width.min(self.0.len()));
        self.0 = rest;
        taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
