//! Literals in key-column order -> the bytes of the key.

use super::{KeyFormat, KeySchema, Partition, Partitions, delimited, json, kafka, partition_of};
use crate::sql::Literal;

/// Why the bytes of a key, and so its partition, are not certain.
///
/// Says nothing about whether the server accepts the lookup: the server decides that when it gets it unpinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// The format has no computed bytes for the column's type.
    UnsupportedType,
    /// Several columns in a format that holds one.
    SeveralColumns,
    /// Not one literal for each key column.
    LiteralCount,
    /// The server does not turn such a literal into the column's type.
    NotCoercible,
    /// A number that the column's type cannot hold, or that no number is read from.
    OutOfRange,
    /// A number that servers may write in different ways.
    UncertainNumber,
    /// A text that servers may write in different ways.
    UncertainText,
    /// A STRUCT literal that does not name every field of the column's type exactly once, and nothing else.
    StructFields,
}

impl Unknown {
    /// The name used by `explain`, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Unknown::UnsupportedType => "unsupported-type",
            Unknown::SeveralColumns => "several-columns",
            Unknown::LiteralCount => "literal-count",
            Unknown::NotCoercible => "not-coercible",
            Unknown::OutOfRange => "out-of-range",
            Unknown::UncertainNumber => "uncertain-number",
            Unknown::UncertainText => "uncertain-text",
            Unknown::StructFields => "struct-fields",
        }
    }
}

impl KeySchema {
    /// Appends the bytes of the key whose columns equal these literals, given in key-column order.
    ///
    /// # Errors
    ///
    /// Returns why the bytes are not certain; `out` is then as it was.
    pub fn serialize(&self, literals: &[&Literal<'_>], out: &mut Vec<u8>) -> Result<(), Unknown> {
        if self.columns.is_empty() || self.columns.len() != literals.len() {
            return Err(Unknown::LiteralCount);
        }
        let before = out.len();
        let written = match self.format {
            KeyFormat::Kafka => kafka::write_key(&self.columns, literals, out),
            KeyFormat::Json => json::write_key(&self.columns, literals, out),
            KeyFormat::Delimited => delimited::write_key(&self.columns, literals, out),
        };
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    /// The partition of the key whose columns equal these literals, given in key-column order.
    ///
    /// # Errors
    ///
    /// Returns why the partition is not certain.
    pub fn partition(&self, literals: &[&Literal<'_>], partitions: Partitions) -> Result<Partition, Unknown> {
        let mut key_bytes = Vec::new();
        self.serialize(literals, &mut key_bytes)?;
        Ok(partition_of(&key_bytes, partitions))
    }
}

#[cfg(test)]
mod tests {
    use crate::partition::{KeySchema, Unknown};
    use crate::sql::{Literal, LiteralKind};

    #[test]
    fn each_column_needs_its_literal() {
        let one = Literal { text: "1", kind: LiteralKind::Integer };
        let schema = KeySchema::parse("A INT, B INT", "JSON").unwrap();
        for literals in [&[][..], &[&one], &[&one, &one, &one]] {
            assert_eq!(schema.serialize(literals, &mut Vec::new()), Err(Unknown::LiteralCount));
        }
        let empty = KeySchema { columns: Vec::new(), ..schema };
        assert_eq!(empty.serialize(&[], &mut Vec::new()), Err(Unknown::LiteralCount));
    }

    #[test]
    fn a_failure_leaves_the_buffer_as_it_was() {
        let one = Literal { text: "1", kind: LiteralKind::Integer };
        let schema = KeySchema::parse("A INT, B STRING", "JSON").unwrap();
        let mut out = b"before".to_vec();
        assert_eq!(schema.serialize(&[&one, &one], &mut out), Err(Unknown::NotCoercible));
        assert_eq!(out, b"before");
    }
}
