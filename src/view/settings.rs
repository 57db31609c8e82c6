//! Settings of tables that ksqlDB's metastore keeps for the sidecars, as custom types.
//!
//! The type's name is made from the table's, as servers raise its letters; its fields, which keep theirs, hold the table's
//! name and the setting. A type cannot be changed, so that a new setting drops the type first.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// How the names of the types begin.
pub const TYPE_PREFIX: &str = "KSQLDB-SIDECAR:";

/// How the fields begin: the table's name, and its bound on offset lag.
const TABLE_FIELD: &str = "table=";
const LAG_FIELD: &str = "acceptable.offset.lag=";

/// The statements that keep a table's bound on offset lag, in changelog records.
pub fn keep_bound(table: &str, max_offset_lag: u64) -> String {
    let (name, field) = (type_name(table), table.replace('`', "``"));
    let fields = format!("`{TABLE_FIELD}{field}` INT, `{LAG_FIELD}{max_offset_lag}` INT");
    format!("{} CREATE TYPE {name} AS STRUCT<{fields}>;", forget_bound(table))
}

/// The statement that forgets it.
pub fn forget_bound(table: &str) -> String {
    format!("DROP TYPE IF EXISTS {};", type_name(table))
}

/// The table and bound that a custom type keeps, by the names of its fields; `None` if it is none of these.
pub fn read_bound<'f>(type_name: &str, fields: impl Iterator<Item = &'f str>) -> Option<(String, u64)> {
    type_name.strip_prefix(TYPE_PREFIX)?;
    let (mut table, mut lag) = (None, None);
    for field in fields {
        table = field.strip_prefix(TABLE_FIELD).map(str::to_owned).or(table);
        lag = field.strip_prefix(LAG_FIELD).and_then(|value| value.parse().ok()).or(lag);
    }
    table.zip(lag)
}

fn type_name(table: &str) -> String {
    let mut hasher = SipHasher24::new();
    hasher.write(table.as_bytes());
    format!("`{TYPE_PREFIX}{:016X}`", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_tells_what_it_keeps() {
        let statements = keep_bound("my`T", 10);
        assert!(statements.contains("STRUCT<`table=my``T` INT, `acceptable.offset.lag=10` INT>;"), "{statements}");
        let fields = ["table=my`T", "acceptable.offset.lag=10"];
        assert_eq!(read_bound("KSQLDB-SIDECAR:00FF", fields.into_iter()), Some(("my`T".to_owned(), 10)));
        assert_eq!(read_bound("OTHER", fields.into_iter()), None);
        assert_eq!(read_bound("KSQLDB-SIDECAR:00FF", ["table=T"].into_iter()), None);
    }
}
