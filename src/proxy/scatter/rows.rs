//! The rows of one part's answer, and several parts put together as one answer. Pure.
//!
//! A server answers in one of three forms: rows wrapped in objects within an array (`application/vnd.ksql.v1+json`), arrays
//! within an array (`application/json`), or arrays one a line (`application/vnd.ksqlapi.delimited.v1`). Rows are never
//! written anew: an answer is put together from the bytes of its parts.

use crate::partition::Partition;
use crate::route::Key;
use crate::view::TableInfo;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;

/// How a server writes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `[{"header":{..}},\n{"row":{"columns":[..]}}]`.
    Wrapped,
    /// `[{"queryId":..},[..],[..]]`.
    Array,
    /// `{"queryId":..}\n[..]\n[..]\n`.
    Lines,
}

/// The rows of a whole answer.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    body: Bytes,
    form: Form,
    header: Range<usize>,
    /// Where each row is; an answer that is held is smaller than 4 GiB.
    rows: Vec<Range<u32>>,
}

/// A row does not tell which partition it comes from, or names one that was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unattributed;

#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    row: Columns<'a>,
}

#[derive(Deserialize)]
struct Columns<'a> {
    #[serde(borrow)]
    columns: Vec<&'a RawValue>,
}

impl Rows {
    /// Reads an answer that is known to have ended cleanly; `None` if it holds anything but a header and rows in a form that
    /// can be put together.
    pub fn read(body: Bytes) -> Option<Rows> {
        let elements = match body.first()? {
            b'[' => elements_of_array(&body)?,
            b'{' => elements_of_lines(&body),
            _ => return None,
        };
        let mut elements = elements.into_iter();
        let header = elements.next()?;
        let begins = |place: &Range<usize>, text: &[u8]| body.get(place.clone()).is_some_and(|at| at.starts_with(text));
        let form = match body.first()? {
            b'[' if begins(&header, b"{\"header\":") => Form::Wrapped,
            b'[' if begins(&header, b"{\"queryId\":") => Form::Array,
            b'{' if begins(&header, b"{\"queryId\":") => Form::Lines,
            _ => return None,
        };
        let row: &[u8] = if form == Form::Wrapped { b"{\"row\":{\"columns\":[" } else { b"[" };
        let small = |place: Range<usize>| Some(u32::try_from(place.start).ok()?..u32::try_from(place.end).ok()?);
        let rows = elements.map(|place| begins(&place, row).then(|| small(place))?).collect::<Option<Vec<_>>>()?;
        Some(Rows { form, header, rows, body })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that are held for them.
    pub fn size(&self) -> usize {
        self.body.len() + self.rows.len() * size_of::<Range<u32>>()
    }

    /// What the header says of the columns: all but the query's id.
    fn schema(&self) -> Option<Value> {
        let mut header: Value = serde_json::from_slice(self.body.get(self.header.clone())?).ok()?;
        let inner = if self.form == Form::Wrapped { header.get_mut("header")? } else { &mut header };
        inner.as_object_mut()?.remove("queryId");
        Some(header)
    }

    /// A row of each partition that rows came from, by its key; `key_at` is where a row has the columns of the key.
    ///
    /// # Errors
    /// When some row that is needed for it does not tell its partition.
    pub fn witnesses(
        &self,
        table: &TableInfo,
        key_at: &[usize],
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Key>, Unattributed> {
        let mut found = BTreeMap::new();
        for place in &self.rows {
            if found.len() == partitions.len() {
                break;
            }
            let key = self.key(place, table, key_at).ok_or(Unattributed)?;
            let partition = key.partition(table).filter(|partition| partitions.contains(partition));
            found.entry(partition.ok_or(Unattributed)?).or_insert(key);
        }
        Ok(found)
    }

    fn key(&self, place: &Range<u32>, table: &TableInfo, key_at: &[usize]) -> Option<Key> {
        let row = self.body.get(place.start as usize..place.end as usize)?;
        let columns = match self.form {
            Form::Wrapped => serde_json::from_slice::<Wrapped<'_>>(row).ok()?.row.columns,
            Form::Array | Form::Lines => serde_json::from_slice(row).ok()?,
        };
        let value = |at: &usize| serde_json::from_str::<Value>(columns.get(*at)?.get()).ok();
        let values: Vec<Value> = key_at.iter().map(value).collect::<Option<_>>()?;
        Key::from_values(table, &values)
    }

    /// The bytes of the first rows, with what stands between them.
    fn first(&self, most: usize) -> Option<Bytes> {
        let (first, last) = (self.rows.first()?, self.rows.get(most.min(self.rows.len()).checked_sub(1)?)?);
        let end = last.end as usize + usize::from(self.form == Form::Lines); // with its line break
        Some(self.body.slice(first.start as usize..end))
    }
}

fn elements_of_array(body: &Bytes) -> Option<Vec<Range<usize>>> {
    let elements: Vec<&RawValue> = serde_json::from_slice(body).ok()?;
    let place = |element: &&RawValue| {
        let start = (element.get().as_ptr() as usize).saturating_sub(body.as_ptr() as usize);
        start..start + element.get().len()
    };
    Some(elements.iter().map(place).collect())
}

fn elements_of_lines(body: &Bytes) -> Vec<Range<usize>> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', body);
    ends.map(|end| std::mem::replace(&mut start, end + 1)..end).filter(|line| !line.is_empty()).collect()
}

/// One answer from several, at most `limit` rows long; `None` if the parts do not have the same columns in the same form.
pub(super) fn together<'p>(parts: impl IntoIterator<Item = &'p Rows>, limit: Option<u64>) -> Option<Vec<Bytes>> {
    let mut parts = parts.into_iter().peekable();
    let first = *parts.peek()?;
    let schema = first.schema()?;
    let (before, between, after): (usize, &[u8], &[u8]) = match first.form {
        Form::Wrapped => (first.header.end, b",\n", b"]"),
        Form::Array => (first.header.end, b",", b"]"),
        Form::Lines => (first.header.end + 1, b"", b""),
    };
    let mut chunks = vec![first.body.slice(..before)];
    let mut left = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    for part in parts {
        if part.form != first.form || part.schema()? != schema {
            return None;
        }
        if let Some(rows) = part.first(left) {
            chunks.extend([Bytes::from_static(between), rows]);
            left -= part.len().min(left);
        }
    }
    chunks.push(Bytes::from_static(after));
    chunks.retain(|chunk| !chunk.is_empty());
    Some(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::test_table;

    fn rows(text: &str) -> Rows {
        Rows::read(Bytes::copy_from_slice(text.as_bytes())).unwrap_or_else(|| panic!("not read: {text}"))
    }

    fn joined(parts: &[&str], limit: Option<u64>) -> Option<String> {
        let parts: Vec<Rows> = parts.iter().map(|part| rows(part)).collect();
        together(&parts, limit).map(|chunks| String::from_utf8(chunks.concat()).expect("text"))
    }

    const ROW: &str = "{\"row\":{\"columns\":";

    fn wrapped(id: &str, rows: &[&str]) -> String {
        let rows: String = rows.iter().map(|row| format!(",\n{ROW}{row}}}}}")).collect();
        format!("[{{\"header\":{{\"queryId\":\"{id}\",\"schema\":\"`K` STRING KEY\"}}}}{rows}]")
    }

    #[test]
    fn parts_become_the_answer_that_one_server_would_have_given() {
        let (a, b) = (r#"["],[\"}",{"x":[1]}]"#, r#"["k2",null]"#);
        assert_eq!(
            joined(&[&wrapped("q1", &[a]), &wrapped("q2", &[]), &wrapped("q3", &[b, a])], None),
            Some(wrapped("q1", &[a, b, a]))
        );
        let header = r#"{"queryId":"q","columnNames":["K"],"columnTypes":["STRING"]}"#;
        let lines = |rows: &[&str]| rows.iter().fold(format!("{header}\n"), |all, row| all + row + "\n");
        assert_eq!(joined(&[&lines(&[a]), &lines(&[]), &lines(&[b])], None), Some(lines(&[a, b])));
        let array =
            |rows: &[&str]| format!("[{header}{}]", rows.iter().map(|row| format!(",{row}")).collect::<String>());
        assert_eq!(joined(&[&array(&[]), &array(&[a, b])], None), Some(array(&[a, b])));
        assert_eq!(joined(&[&array(&[]), &array(&[])], None), Some(array(&[])));
    }

    #[test]
    fn a_limit_cuts_the_whole_answer_and_no_row() {
        let parts = [wrapped("q", &["[1]", "[2]"]), wrapped("q", &["[3]", "[4]"]), wrapped("q", &["[5]"])];
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        for (limit, expected) in [
            (1, &["[1]"][..]),
            (2, &["[1]", "[2]"]),
            (3, &["[1]", "[2]", "[3]"]),
            (9, &["[1]", "[2]", "[3]", "[4]", "[5]"]),
        ] {
            assert_eq!(joined(&parts, Some(limit)), Some(wrapped("q", expected)), "{limit}");
        }
    }

    #[test]
    fn parts_with_other_columns_or_of_another_form_are_not_mixed() {
        let other = wrapped("q", &["[1]"]).replace("`K`", "`L`");
        assert_eq!(joined(&[&wrapped("q", &[]), &other], None), None);
        let lines = "{\"queryId\":\"q\",\"columnNames\":[\"K\"],\"columnTypes\":[\"STRING\"]}\n";
        assert_eq!(joined(&[&wrapped("q", &[]), lines], None), None);
    }

    #[test]
    fn what_is_more_than_a_header_and_rows_is_not_read() {
        let header = r#"{"header":{"queryId":"q","schema":"s"}}"#;
        for text in [
            "".to_owned(),
            "[]".to_owned(),
            format!("[{header},{{\"row\":{{\"protobufBytes\":\"CgJr\"}}}}]"),
            format!("[{header},{{\"finalMessage\":\"Limit Reached\"}}]"),
            format!("[{header},{{\"consistencyToken\":{{}}}}]"),
            "{\"queryId\":\"q\"}\n{\"consistencyToken\":{}}\n".to_owned(),
        ] {
            assert!(Rows::read(Bytes::from(text.clone())).is_none(), "{text}");
        }
    }

    #[test]
    fn rows_tell_their_partitions_until_each_has_been_seen() {
        let table = test_table("T", "CTAS_T_1", 6);
        let (k1, k2) = (r#"[1,"k1"]"#, r#"[2,"k2"]"#); // in 5 and in 3
        let witnesses = |rows_of: &[&str], asked: &[Partition]| {
            let found = rows(&wrapped("q", rows_of)).witnesses(&table, &[1], asked);
            found.map(|found| found.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(witnesses(&[k1, k1, k2], &[3, 5]), Ok(vec![3, 5]));
        assert_eq!(witnesses(&[k1, k1], &[3, 5]), Ok(vec![5]));
        assert_eq!(witnesses(&[], &[3, 5]), Ok(vec![]));
        assert_eq!(witnesses(&[k1], &[3, 4]), Err(Unattributed), "of a partition that was not asked for");
        assert_eq!(witnesses(&[r#"[1,null]"#], &[3]), Err(Unattributed));
        assert_eq!(witnesses(&[r#"[1,"${x}"]"#], &[3]), Err(Unattributed), "cannot be written in a question");
    }
}
