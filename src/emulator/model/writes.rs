//! Writing: records into streams, commits into changelogs, and the truth that a checker compares answers with.

use super::host::SlotId;
use super::log::{Change, Input, Key, Saying, apply};
use super::replica::Changed;
use super::{Event, Model, Row};
use crate::emulator::catalogue::Kind;
use crate::emulator::datum::Datum;
use crate::emulator::key::{partition, serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Where a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The partition of the topic.
    pub partition: u32,
    /// The offset in it.
    pub offset: u64,
    /// The `V` that was written, if any.
    pub value: Option<i64>,
}

/// A row that a table has, or will have once the record is processed.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// When the record was written, since the start of the cluster.
    pub at: Duration,
    /// `V`.
    pub v: Option<i64>,
    /// `C`.
    pub c: i64,
    /// False after a deletion.
    pub exists: bool,
}

/// A record of a stream or a change of a table, for push queries.
#[derive(Clone, Debug)]
pub struct Written {
    /// The stream or table.
    pub source: String,
    /// The values of the key.
    pub key: Vec<Datum>,
    /// The values of the other columns.
    pub row: Row,
}

/// A write that makes no sense.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum WriteError {
    #[error("{0} does not exist.")]
    NoSuchSource(String),
    #[error("Cannot insert values into read-only {0}")]
    NotWritable(String),
    #[error("Expected a value for every key column of {0}")]
    BadKey(String),
}

/// The changes of one key that are remembered; the oldest go first.
const REMEMBERED: usize = 4096;

impl Model {
    /// Writes a record; without a value a number larger than all before.
    pub fn write(&mut self, source: &str, key: &[Datum], value: Option<Option<i64>>) -> Result<Position, WriteError> {
        let catalogue = self.catalogue.clone();
        let found = catalogue.source(source).ok_or_else(|| WriteError::NoSuchSource(source.to_owned()))?;
        if found.is_table() && catalogue.query_of(source).is_some() {
            return Err(WriteError::NotWritable(source.to_owned()));
        }
        let typed: Option<Vec<Datum>> = found.key.iter().zip(key).map(|(c, d)| d.coerce(&c.ty)).collect();
        let values =
            typed.filter(|k| k.len() == found.key.len()).ok_or_else(|| WriteError::BadKey(source.to_owned()))?;
        let value = value.unwrap_or(Some(self.next_value + 1));
        self.next_value = self.next_value.max(value.unwrap_or(0));
        let bytes = serialize(found.format(), &found.key, &values);
        let key = Arc::new(Key { bytes: bytes.into(), values });
        let partition = partition(&key.bytes, self.config.partitions);
        // A source table over the same topic reads what is written to the other name.
        let same_topic = |q: &&str| catalogue.source(q).is_some_and(|s| s.topic == found.topic && s.name != source);
        let mut readers: BTreeSet<usize> = catalogue.readers(source).collect();
        readers.extend(
            catalogue.queries.iter().map(|q| q.table.as_str()).filter(same_topic).filter_map(|t| catalogue.query_of(t)),
        );
        let mut offset = 0;
        for query in readers {
            offset = self.append((query, partition), &key, Saying::Value(value));
        }
        let row = Row { v: value, ..Row::default() };
        self.written.push(Written { source: source.to_owned(), key: key.values.clone(), row });
        Ok(Position { partition, offset, value })
    }

    /// Writes a record whose key is given as JSON: a string, a number, an object for a STRUCT, an array for several columns.
    ///
    /// # Errors
    /// An unknown or read-only source, or a key of another type.
    pub fn put(&mut self, source: &str, key: &serde_json::Value, value: Option<i64>) -> Result<Position, WriteError> {
        self.write(source, &Datum::key_from_json(key), value.map(Some))
    }

    /// [`truth`](Self::truth) of a key that is given as JSON.
    pub fn history_of(&self, table: &str, key: &serde_json::Value) -> Vec<Truth> {
        self.truth(table, &Datum::key_from_json(key))
    }

    /// The rows that a table has had for a key, oldest first.
    pub fn truth(&self, table: &str, key: &[Datum]) -> Vec<Truth> {
        let Some(source) = self.catalogue.source(table) else { return Vec::new() };
        let typed: Option<Vec<Datum>> = source.key.iter().zip(key).map(|(c, d)| d.coerce(&c.ty)).collect();
        let bytes = typed.map(|values| serialize(source.format(), &source.key, &values)).unwrap_or_default();
        self.truth.get(&(table.to_owned(), bytes)).cloned().unwrap_or_default()
    }

    /// The `V` of a key's newest record in a table's changelog as it was at `until`; `None` without one.
    pub fn logged(&self, table: &str, key: &serde_json::Value, until: Duration) -> Option<i64> {
        let bytes = self.bytes_of(table, key)?;
        let slot = self.slot((self.catalogue.query_of(table)?, partition(&bytes, self.config.partitions)))?;
        let known = slot.changelog.iter().rev().skip_while(|change| change.at > until);
        known.filter(|change| *change.key.bytes == *bytes).find_map(|change| change.row.as_ref())?.v
    }

    /// The offset of a key's first record in a table's changelog.
    pub fn logged_at(&self, table: &str, key: &serde_json::Value) -> Option<u64> {
        let bytes = self.bytes_of(table, key)?;
        let slot = self.slot((self.catalogue.query_of(table)?, partition(&bytes, self.config.partitions)))?;
        slot.changelog.iter().position(|change| *change.key.bytes == *bytes).map(|offset| offset as u64)
    }

    /// How many changelog records a server's replica of a partition holds; `None` if it has none.
    pub fn position(&mut self, server: usize, table: &str, partition: u32) -> Option<u64> {
        let query = self.catalogue.query_of(table)?;
        self.replica(server, (query, partition)).map(|replica| replica.position as u64)
    }

    fn bytes_of(&self, table: &str, key: &serde_json::Value) -> Option<Vec<u8>> {
        let (source, key) = (self.catalogue.source(table)?, Datum::key_from_json(key));
        let typed: Option<Vec<Datum>> = source.key.iter().zip(&key).map(|(c, d)| d.coerce(&c.ty)).collect();
        typed.map(|values| serialize(source.format(), &source.key, &values))
    }

    /// The records of a stream that are still known, partition by partition.
    pub fn history(&self, source: &str) -> Vec<Written> {
        let slots = self.catalogue.readers(source).next().and_then(|q| self.slots.get(q));
        let value = |saying| if let Saying::Value(v) = saying { v } else { None };
        let record = |i: &Input| {
            let row = Row { v: value(i.saying), ..Row::default() };
            Written { source: source.to_owned(), key: i.key.values.clone(), row }
        };
        slots.into_iter().flatten().flat_map(|slot| slot.input.iter().map(record)).collect()
    }

    /// Takes what was written since the last call.
    pub fn take_written(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.written)
    }

    pub(super) fn seed_data(&mut self) {
        let text = |s: String| Datum::String(s);
        for i in 0..self.config.keys as i64 {
            _ = self.write("S", &[text(format!("k{i}"))], Some(Some(i)));
        }
        for i in (0..12).chain([-1, -5, i64::from(i32::MAX)]) {
            for source in ["SI", "SB", "SD", "SJI"] {
                _ = self.write(source, &[Datum::Int(i)], Some(Some(1)));
            }
            _ = self.write("SD", &[Datum::Double(i as f64 + 0.5)], Some(Some(1)));
            for source in ["SJ", "SDL"] {
                _ = self.write(source, &[text(format!("k{i}"))], Some(Some(1)));
            }
            for source in ["SM", "SM2"] {
                _ = self.write(source, &[text(format!("a{i}")), Datum::Int(i)], Some(Some(1)));
            }
            let fields = vec![("A".to_owned(), Datum::Int(i)), ("B".to_owned(), text(format!("b{i}")))];
            _ = self.write("SST", &[Datum::Struct(fields)], Some(Some(1)));
        }
        for odd in ["a", "ünï 'q'"] {
            _ = self.write("S", &[text(odd.to_owned())], Some(Some(1)));
        }
        for i in 1..10 {
            _ = self.write("SRC", &[text(format!("k{i}"))], Some(Some(i)));
        }
        // Committed at once, and what they feed after them.
        for _ in 0..2 {
            let partitions = self.config.partitions;
            for slot in (0..self.slots.len()).flat_map(|q| (0..partitions).map(move |p| (q, p))) {
                self.settle(slot);
            }
        }
    }

    /// Processes a slot's input straight into its changelog, as if it had been long ago.
    fn settle(&mut self, slot: SlotId) {
        let Some(kind) = self.catalogue.queries.get(slot.0).map(|q| q.kind) else { return };
        let Some(log) = self.slots.get_mut(slot.0).and_then(|q| q.get_mut(slot.1 as usize)) else { return };
        let mut changes = Vec::new();
        for input in log.input.iter().skip(log.committed) {
            let earlier = changes.iter().rev().find(|(key, _): &&Changed| key.bytes == input.key.bytes);
            let before = earlier.map(|(_, row)| row.clone());
            let logged =
                || log.changelog.iter().rev().find(|c| c.key.bytes == input.key.bytes).and_then(|c| c.row.clone());
            changes.push((input.key.clone(), apply(kind, before.unwrap_or_else(logged).as_ref(), input)));
        }
        let processed = log.input.len();
        self.append_changes(slot, changes, processed);
    }

    fn append(&mut self, slot: SlotId, key: &Arc<Key>, saying: Saying) -> u64 {
        let (at, epoch_ms) = (self.now, self.config.epoch_ms + self.now.as_millis() as i64);
        let input = Input { at, epoch_ms, key: key.clone(), saying };
        self.remember(slot, &input);
        let Some(log) = self.slots.get_mut(slot.0).and_then(|q| q.get_mut(slot.1 as usize)) else { return 0 };
        log.input.push(input);
        log.input.len() as u64 - 1
    }

    fn remember(&mut self, slot: SlotId, input: &Input) {
        let Some(query) = self.catalogue.queries.get(slot.0) else { return };
        let history = self.truth.entry((query.table.clone(), input.key.bytes.to_vec())).or_default();
        let before = history.last().filter(|t| t.exists).map(|t| Row { v: t.v, c: t.c, windows: Vec::new() });
        // A window's count is not told apart here: the truth of a windowed table is its count over all windows.
        let kind = if query.kind == Kind::Window { Kind::Count } else { query.kind };
        let row = apply(kind, before.as_ref(), input);
        if history.len() >= REMEMBERED {
            history.drain(..REMEMBERED / 2);
        }
        let exists = row.is_some();
        let row = row.unwrap_or_default();
        if exists || before.is_some() {
            history.push(Truth { at: input.at, v: row.v, c: row.c, exists });
        }
    }

    pub(super) fn commit_tick(&mut self, index: usize) {
        self.schedule(self.config.commit_interval, Event::Commit { host: index });
        if self.hosts.get(index).is_some_and(|h| h.state.processes() && !h.paused) {
            self.commit(index);
        }
    }

    /// Writes the changes of a server's actives to their changelogs; of those that it has lost, nothing.
    pub(super) fn commit(&mut self, index: usize) {
        let owned = |slot: &SlotId| {
            let assignment = self.placement.get(slot.0).and_then(|q| q.get(slot.1 as usize));
            assignment.is_some_and(|a| a.active == index) && self.members.contains(&index)
        };
        let slots: BTreeSet<SlotId> = self
            .hosts
            .get(index)
            .map(|h| h.replicas.keys().filter(|s| owned(s)).copied().collect())
            .unwrap_or_default();
        for slot in slots {
            if self.replica(index, slot).is_none() {
                continue;
            }
            let replica = self.hosts.get_mut(index).and_then(|h| h.replicas.get_mut(&slot));
            let Some((changes, processed)) = replica.filter(|r| r.runs_active()).map(|r| r.flush()) else { continue };
            self.append_changes(slot, changes, processed);
            let end = self.end_offset(slot) as usize;
            if let Some(replica) = self.hosts.get_mut(index).and_then(|h| h.replicas.get_mut(&slot)) {
                replica.position = end;
            }
        }
    }

    fn append_changes(&mut self, slot: SlotId, changes: Vec<Changed>, processed: usize) {
        let now = self.now;
        let catalogue = self.catalogue.clone();
        let Some(log) = self.slots.get_mut(slot.0).and_then(|q| q.get_mut(slot.1 as usize)) else { return };
        log.committed = processed;
        log.changelog.extend(changes.iter().map(|(key, row)| Change { at: now, key: key.clone(), row: row.clone() }));
        let Some(table) = catalogue.queries.get(slot.0).map(|q| q.table.as_str()) else { return };
        for (key, row) in changes {
            for reader in catalogue.readers(table) {
                let saying = match table {
                    "TL" => Saying::Left(row.as_ref().map_or(0, |r| r.c)),
                    _ => Saying::Right(row.as_ref().and_then(|r| r.v)),
                };
                self.append((reader, slot.1), &key, saying);
            }
            if let Some(row) = row {
                self.written.push(Written { source: table.to_owned(), key: key.values.clone(), row });
            }
        }
    }
}
