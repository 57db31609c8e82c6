//! What is written: a slot's input topic and changelog.

use crate::emulator::catalogue::Kind;
use crate::emulator::datum::Datum;
use std::sync::Arc;
use std::time::Duration;

/// A key with its serialised bytes.
#[derive(Debug, PartialEq)]
pub struct Key {
    /// The bytes in the table's key format; stores are ordered by them.
    pub bytes: Box<[u8]>,
    /// The values of the key's columns.
    pub values: Vec<Datum>,
}

/// The value side of a row of any emulated table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Column `V`.
    pub v: Option<i64>,
    /// Column `C`.
    pub c: i64,
    /// Of a windowed table: start (epoch milliseconds) and `C` of each window.
    pub windows: Vec<(i64, i64)>,
}

/// One hour, the size of `TW`'s windows, in milliseconds.
pub const WINDOW_MS: i64 = 3_600_000;

/// What an input record says of its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Saying {
    /// A record of a stream or source table with its `V`; `None` deletes from a table.
    Value(Option<i64>),
    /// The left side of the join has this `C`.
    Left(i64),
    /// The right side of the join has this `V`.
    Right(Option<i64>),
}

/// A record of an input topic.
#[derive(Clone, Debug)]
pub struct Input {
    /// When it was written, since the start of the cluster.
    pub at: Duration,
    /// Its timestamp in epoch milliseconds.
    pub epoch_ms: i64,
    /// The key.
    pub key: Arc<Key>,
    /// The value.
    pub saying: Saying,
}

/// A record of a changelog.
#[derive(Clone, Debug)]
pub struct Change {
    /// When it was written.
    pub at: Duration,
    /// The key.
    pub key: Arc<Key>,
    /// The row, or `None` for a tombstone.
    pub row: Option<Row>,
}

/// One partition of a query's input and changelog.
#[derive(Debug, Default)]
pub struct Slot {
    /// The input topic.
    pub input: Vec<Input>,
    /// How much of the input is in the changelog.
    pub committed: usize,
    /// The changelog; its length is the end offset.
    pub changelog: Vec<Change>,
}

/// The row that an input record makes of the one before.
pub fn apply(kind: Kind, before: Option<&Row>, input: &Input) -> Option<Row> {
    let mut row = before.cloned().unwrap_or_default();
    match (kind, input.saying) {
        (Kind::Copy, Saying::Value(None)) => return None,
        (Kind::Copy, Saying::Value(v)) => row.v = v,
        (Kind::Latest, Saying::Value(v)) => {
            row.v = v.or(row.v);
            row.c += 1;
        }
        (Kind::Window, _) => {
            let start = input.epoch_ms - input.epoch_ms.rem_euclid(WINDOW_MS);
            match row.windows.iter_mut().find(|(s, _)| *s == start) {
                Some((_, count)) => *count += 1,
                None => row.windows.push((start, 1)),
            }
        }
        (Kind::Join, Saying::Left(c)) => row.c = c,
        (Kind::Join, Saying::Right(v)) if before.is_some() => row.v = v,
        (Kind::Join, _) => return before.cloned(),
        _ => row.c += 1,
    }
    Some(row)
}
