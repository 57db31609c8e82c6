//! Key literals -> serialised key -> partition. Pure.
//!
//! The rule above all others: never a wrong partition. On servers that answer a wrong pin with an empty result it would be
//! a wrong answer, so bytes that are not certain for every server version are [`Unknown`] and the lookup is not pinned.
//!
//! `coerce` turns a literal into the value the server makes of it for a column's type, `kafka`, `json` and `delimited` write
//! values as the server's key serialisers do, [`partition_of`] hashes the bytes as Kafka's producer does.

mod coerce;
mod delimited;
mod double;
mod json;
mod kafka;
mod murmur2;
mod parse;
mod serialize;

pub use murmur2::partition_of;
pub use serialize::Unknown;

use std::num::NonZeroU32;

/// A partition number of a table's state store.
pub type Partition = u32;

/// How a table's key is written to its topic; only the formats whose bytes can be computed without a Schema Registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KeyFormat {
    Kafka,
    Json,
    /// Only with the default delimiter, a comma: a table whose key was declared with `KEY_DELIMITER` has no format here.
    Delimited,
}

impl KeyFormat {
    /// The format of this name, in any case; `None` for every format whose bytes are not computed.
    pub fn from_name(name: &str) -> Option<KeyFormat> {
        match name.to_ascii_uppercase().as_str() {
            "KAFKA" => Some(KeyFormat::Kafka),
            "JSON" => Some(KeyFormat::Json),
            "DELIMITED" => Some(KeyFormat::Delimited),
            _ => None,
        }
    }
}

/// The types of a key column, as `DESCRIBE` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SqlType {
    Boolean,
    Integer,
    Bigint,
    Double,
    String,
    Bytes,
    Struct(Vec<KeyColumn>),
    /// Any type whose bytes are not computed; lookups on it are passed through.
    Other,
}

impl SqlType {
    /// The type of this name, in any case: `DESCRIBE`'s names and the aliases `INT` and `VARCHAR`.
    ///
    /// [`SqlType::Other`] for the rest, also for `STRUCT`, whose fields a name does not tell.
    pub fn from_name(name: &str) -> SqlType {
        match name.to_ascii_uppercase().as_str() {
            "BOOLEAN" => SqlType::Boolean,
            "INTEGER" | "INT" => SqlType::Integer,
            "BIGINT" => SqlType::Bigint,
            "DOUBLE" => SqlType::Double,
            "STRING" | "VARCHAR" => SqlType::String,
            "BYTES" => SqlType::Bytes,
            _ => SqlType::Other,
        }
    }
}

/// One column of a key, or one field of a STRUCT in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The metastore's spelling.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
}

/// A table's key: format and columns in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySchema {
    /// The format.
    pub format: KeyFormat,
    /// The columns, at least one.
    pub columns: Vec<KeyColumn>,
}

/// The number of partitions of a store's source topics.
pub type Partitions = NonZeroU32;

#[cfg(test)]
mod tests {
    use super::{KeyFormat, SqlType};

    #[test]
    fn names_are_those_of_describe() {
        for (name, sql_type) in [
            ("BOOLEAN", SqlType::Boolean),
            ("INTEGER", SqlType::Integer),
            ("BIGINT", SqlType::Bigint),
            ("DOUBLE", SqlType::Double),
            ("STRING", SqlType::String),
            ("varchar", SqlType::String),
            ("BYTES", SqlType::Bytes),
            ("DECIMAL", SqlType::Other),
            ("TIMESTAMP", SqlType::Other),
            ("STRUCT", SqlType::Other),
        ] {
            assert_eq!(SqlType::from_name(name), sql_type, "{name}");
        }
        assert_eq!(KeyFormat::from_name("KAFKA"), Some(KeyFormat::Kafka));
        assert_eq!(KeyFormat::from_name("json"), Some(KeyFormat::Json));
        assert_eq!(KeyFormat::from_name("DELIMITED"), Some(KeyFormat::Delimited));
        for name in ["AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR", "NONE", ""] {
            assert_eq!(KeyFormat::from_name(name), None, "{name}");
        }
    }
}
