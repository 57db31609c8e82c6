//! Proof of absence: which questions show that a key is not in a store, and what their answers prove.
//!
//! A server from 7.5 on may answer `200`, header, no rows, clean end although its store could not be read: the reader of
//! the store failed, and the failure was lost. Rows are looked up one after the other and a failing lookup ends the
//! answer, so an answer that holds something which must come *together with* or *after* the key proves that the key's
//! own lookup was made. Three questions do that, asked of the same host with the same pin as the empty answer:
//!
//! * **A**, one STRING key column: the first row at or after the key. The server opens one iterator at the key, so a row
//!   with another key shows that the store was read there and that the key is not in it. One question suffices.
//! * **B**, any key whose value can be written again: the key together with *canaries*, keys known to exist in the
//!   partition. Both of two answers, asked one after the other, hold every canary and not the key. One alone can be
//!   false: the key may be looked up last, just after the store failed; the second then finds a failed store or the row.
//! * **C**: the server's old row writer (`ksql.endpoint.migrate.query=false`), which reports a failure as an error row
//!   but takes about 1 s over an empty answer.

use crate::partition::{Partition, SqlType};
use crate::sql::{Comparison, Literal, LiteralKind, WindowBound, WindowEdge};
use crate::view::TableInfo;
use serde::Deserialize;
use serde_json::Value;
use smallvec::SmallVec;

/// One column of a key, as a value that can be compared and written again.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Integer(i64),
    Double(f64),
    Boolean(bool),
}

/// A key's value, whatever it was written as.
#[derive(Clone, Debug, PartialEq)]
pub struct Key(SmallVec<[Part; 1]>);

impl Key {
    /// The key that the literals of a lookup name, in key-column order; `None` if a column's type cannot be written again.
    pub fn from_literals(table: &TableInfo, literals: &[&Literal<'_>]) -> Option<Key> {
        let columns = &table.key.columns;
        let parts = columns.iter().zip(literals).map(|(column, literal)| from_literal(&column.sql_type, literal));
        (columns.len() == literals.len()).then(|| parts.collect::<Option<_>>().map(Key))?
    }

    /// The key of a row that begins with the key's columns.
    fn from_row(table: &TableInfo, row: &[Value]) -> Option<Key> {
        let columns = &table.key.columns;
        let parts = columns.iter().zip(row).map(|(column, value)| from_json(&column.sql_type, value));
        (columns.len() <= row.len()).then(|| parts.collect::<Option<_>>().map(Key))?
    }

    /// The key whose columns have these values, in key-column order; `None` if a column's type cannot be written again.
    pub fn from_values(table: &TableInfo, values: &[Value]) -> Option<Key> {
        Key::from_row(table, values).filter(|key| key.0.len() == values.len())
    }

    /// The partition that the key belongs to, if it is certain.
    pub fn partition(&self, table: &TableInfo) -> Option<Partition> {
        let texts: SmallVec<[String; 2]> = self.0.iter().map(Part::literal).collect();
        let parts = self.0.iter().zip(&texts);
        let literals: SmallVec<[Literal<'_>; 2]> = parts.map(|(part, text)| part_literal(part, text)).collect();
        let literals: SmallVec<[&Literal<'_>; 2]> = literals.iter().collect();
        table.key.partition(&literals, table.partitions).ok()
    }

    /// `K = 'x'`, or `A = 'x' AND B = 1`.
    fn condition(&self, table: &TableInfo) -> String {
        let columns = table.key.columns.iter().zip(&self.0);
        let conditions: Vec<String> =
            columns.map(|(column, part)| format!("{} = {}", quoted(&column.name), part.literal())).collect();
        conditions.join(" AND ")
    }
}

impl Part {
    /// The literal that ksqlDB reads as this value.
    fn literal(&self) -> String {
        match self {
            Part::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Part::Integer(number) => number.to_string(),
            Part::Double(number) => format!("{number:e}"),
            Part::Boolean(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        }
    }
}

fn part_literal<'p>(part: &'p Part, text: &'p str) -> Literal<'p> {
    let kind = match part {
        Part::Text(value) => LiteralKind::String(value.as_str().into()),
        Part::Integer(_) => LiteralKind::Integer,
        Part::Double(_) => LiteralKind::Float,
        Part::Boolean(value) => LiteralKind::Boolean(*value),
    };
    Literal { text, kind }
}

fn from_literal(sql_type: &SqlType, literal: &Literal<'_>) -> Option<Part> {
    match (sql_type, &literal.kind) {
        // `${` would be taken for a variable when the text is sent again
        (SqlType::String, LiteralKind::String(text)) => (!text.contains("${")).then(|| Part::Text(text.to_string())),
        (SqlType::Integer | SqlType::Bigint, LiteralKind::Integer) => number(literal.text).map(Part::Integer),
        (SqlType::Double, LiteralKind::Integer | LiteralKind::Decimal | LiteralKind::Float) => {
            number(literal.text).map(Part::Double)
        }
        (SqlType::Boolean, LiteralKind::Boolean(value)) => Some(Part::Boolean(*value)),
        _ => None,
    }
}

fn from_json(sql_type: &SqlType, value: &Value) -> Option<Part> {
    match sql_type {
        SqlType::String => value.as_str().filter(|text| !text.contains("${")).map(|text| Part::Text(text.to_owned())),
        SqlType::Integer | SqlType::Bigint => value.as_i64().map(Part::Integer),
        SqlType::Double => value.as_f64().map(Part::Double),
        SqlType::Boolean => value.as_bool().map(Part::Boolean),
        _ => None,
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.chars().filter(|c| !c.is_whitespace()).collect::<String>().parse().ok()
}

/// Question A: the first row at or after the key; `None` unless the key is one STRING column.
///
/// On other types the server does not push the range down to the store, and the answer would prove nothing.
pub fn first_at_or_after(table: &TableInfo, key: &Key) -> Option<String> {
    match (table.key.columns.as_slice(), key.0.as_slice()) {
        ([column], [part @ Part::Text(_)]) if column.sql_type == SqlType::String => {
            let name = quoted(&column.name);
            Some(format!("SELECT {name} FROM {} WHERE {name} >= {} LIMIT 1;", quoted(&table.name), part.literal()))
        }
        _ => None,
    }
}

/// Question B: all of `keys` together with the canaries.
pub fn together<'k>(table: &TableInfo, keys: impl IntoIterator<Item = &'k Key>) -> String {
    let select = format!("SELECT {} FROM {} WHERE ", key_columns(table), quoted(&table.name));
    let keys = keys.into_iter();
    let condition = match table.key.columns.as_slice() {
        [column] => {
            let list: Vec<String> = keys.flat_map(|key| key.0.iter().map(Part::literal)).collect();
            format!("{} IN ({})", quoted(&column.name), list.join(", "))
        }
        _ => keys.map(|key| format!("({})", key.condition(table))).collect::<Vec<_>>().join(" OR "),
    };
    format!("{select}{condition};")
}

/// Some key of the partition, to serve as a canary.
pub fn any_key(table: &TableInfo) -> String {
    format!("SELECT {} FROM {} LIMIT 1;", key_columns(table), quoted(&table.name))
}

/// Every window of the key: whether an empty answer comes from the request's window bounds is then decided here.
pub fn windows_of(table: &TableInfo, key: &Key) -> String {
    let columns = format!("{}, WINDOWSTART, WINDOWEND", key_columns(table));
    format!("SELECT {columns} FROM {} WHERE {};", quoted(&table.name), key.condition(table))
}

fn key_columns(table: &TableInfo) -> String {
    let names: Vec<String> = table.key.columns.iter().map(|column| quoted(&column.name)).collect();
    names.join(", ")
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[derive(Deserialize)]
struct Element {
    row: Option<Row>,
}

#[derive(Deserialize)]
struct Row {
    columns: Vec<Value>,
}

/// The rows of a whole `application/vnd.ksql.v1+json` answer to one of these questions.
#[derive(Debug)]
pub struct Rows(Vec<(Key, Vec<Value>)>);

impl Rows {
    /// Reads an answer that is known to have ended cleanly; `None` if a row is not of the table's form.
    pub fn read(table: &TableInfo, body: &[u8]) -> Option<Rows> {
        let elements: Vec<Element> = serde_json::from_slice(body).ok()?;
        let rows = elements.into_iter().filter_map(|element| element.row);
        rows.map(|row| Key::from_row(table, &row.columns).map(|key| (key, row.columns)))
            .collect::<Option<_>>()
            .map(Rows)
    }

    /// The first row's key.
    pub fn first(&self) -> Option<&Key> {
        self.0.first().map(|(key, _)| key)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a row has that key.
    pub fn holds(&self, key: &Key) -> bool {
        self.0.iter().any(|(held, _)| held == key)
    }

    /// Whether no window of these rows is within all the bounds; `None` where a bound is no number of milliseconds.
    pub fn none_within(&self, table: &TableInfo, bounds: &[WindowBound<'_>]) -> Option<bool> {
        let width = table.key.columns.len();
        let mut outside = true;
        for (_, columns) in &self.0 {
            let (start, end) = (columns.get(width)?.as_i64()?, columns.get(width + 1)?.as_i64()?);
            let mut within = true;
            for bound in bounds {
                let edge = match bound.edge {
                    WindowEdge::Start => start,
                    WindowEdge::End => end,
                };
                within &= holds(edge, bound)?;
            }
            outside &= !within;
        }
        Some(outside)
    }
}

fn holds(edge: i64, bound: &WindowBound<'_>) -> Option<bool> {
    let LiteralKind::Integer = bound.literal.kind else { return None };
    let limit: i64 = number(bound.literal.text)?;
    Some(match bound.comparison {
        Comparison::Equal => edge == limit,
        Comparison::Less => edge < limit,
        Comparison::LessOrEqual => edge <= limit,
        Comparison::Greater => edge > limit,
        Comparison::GreaterOrEqual => edge >= limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::KeyColumn;
    use crate::view::test_table;
    use std::borrow::Cow;

    fn table(columns: &[(&str, SqlType)]) -> TableInfo {
        let mut table = test_table("T`L", "CTAS_TL_5", 6);
        table.key.columns =
            columns.iter().map(|(name, t)| KeyColumn { name: (*name).into(), sql_type: t.clone() }).collect();
        table
    }

    fn text(value: &str) -> Key {
        Key(SmallVec::from_iter([Part::Text(value.into())]))
    }

    #[test]
    fn questions_quote_names_and_values() {
        let one = table(&[("K", SqlType::String)]);
        assert_eq!(
            first_at_or_after(&one, &text("it's")).as_deref(),
            Some("SELECT `K` FROM `T``L` WHERE `K` >= 'it''s' LIMIT 1;")
        );
        assert_eq!(together(&one, [&text("x"), &text("c")]), "SELECT `K` FROM `T``L` WHERE `K` IN ('x', 'c');");
        let two = table(&[("A", SqlType::String), ("b", SqlType::Integer)]);
        let key = Key(SmallVec::from_iter([Part::Text("x".into()), Part::Integer(-5)]));
        assert_eq!(first_at_or_after(&two, &key), None);
        assert_eq!(
            together(&two, [&key, &key]),
            "SELECT `A`, `b` FROM `T``L` WHERE (`A` = 'x' AND `b` = -5) OR (`A` = 'x' AND `b` = -5);"
        );
        let number = table(&[("K", SqlType::Integer)]);
        assert_eq!(first_at_or_after(&number, &Key(SmallVec::from_iter([Part::Integer(1)]))), None);
    }

    #[test]
    fn a_key_is_the_same_however_it_is_written() {
        let double = table(&[("K", SqlType::Double)]);
        let literal = |text, kind| Key::from_literals(&double, &[&Literal { text, kind }]);
        let from_row = Key::from_row(&double, &[serde_json::json!(1500.0)]);
        assert_eq!(literal("1.5E3", LiteralKind::Float), from_row);
        assert_eq!(literal("1500", LiteralKind::Integer), from_row);
        assert_eq!(from_row.map(|key| key.condition(&double)).as_deref(), Some("`K` = 1.5e3"));
        let string = table(&[("K", SqlType::String)]);
        let variable = Literal { text: "'${x}'", kind: LiteralKind::String(Cow::Borrowed("${x}")) };
        assert_eq!(Key::from_literals(&string, &[&variable]), None);
        assert_eq!(literal("'x'", LiteralKind::String(Cow::Borrowed("x"))), None);
    }

    #[test]
    fn rows_are_read_and_windows_filtered() {
        let windowed = table(&[("K", SqlType::String)]);
        let body = br#"[{"header":{"queryId":"q","schema":"s"}},
{"row":{"columns":["x",1000,2000]}},
{"row":{"columns":["x",2000,3000]}}]"#;
        let rows = Rows::read(&windowed, body).expect("rows");
        assert!(rows.holds(&text("x")) && !rows.holds(&text("y")) && !rows.is_empty());
        let bound = |comparison, text| WindowBound {
            edge: WindowEdge::Start,
            comparison,
            literal: Literal { text, kind: LiteralKind::Integer },
        };
        assert_eq!(rows.none_within(&windowed, &[bound(Comparison::Greater, "2000")]), Some(true));
        assert_eq!(rows.none_within(&windowed, &[bound(Comparison::GreaterOrEqual, "2000")]), Some(false));
        let timestamp = WindowBound {
            literal: Literal { text: "'2020'", kind: LiteralKind::String(Cow::Borrowed("2020")) },
            ..bound(Comparison::Less, "0")
        };
        assert_eq!(rows.none_within(&windowed, &[timestamp]), None);
        assert!(Rows::read(&windowed, br#"[{"row":{"columns":[5]}}]"#).is_none());
    }
}
