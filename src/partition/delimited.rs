//! KEY_FORMAT DELIMITED: one CSV record without its line end, as commons-csv prints it.

use super::coerce::{Scalar, coerce};
use super::double::double_text;
use super::{KeyColumn, Unknown};
use crate::sql::Literal;

/// Appends the key: the columns' texts, joined by commas.
pub(super) fn write_key(columns: &[KeyColumn], literals: &[&Literal<'_>], out: &mut Vec<u8>) -> Result<(), Unknown> {
    for (index, (column, literal)) in columns.iter().zip(literals).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let first = index == 0;
        match coerce(&column.sql_type, literal)? {
            Scalar::Boolean(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Scalar::Integer(value) => write_number(&value.to_string(), first, out)?,
            Scalar::Bigint(value) => write_number(&value.to_string(), first, out)?,
            Scalar::Double(value) => write_number(&double_text(value)?, first, out)?,
            Scalar::Text(text) => write_text(text, out)?,
            Scalar::Base64(_) => return Err(Unknown::UnsupportedType),
        }
    }
    Ok(())
}

/// Appends a number; whether a record that begins with a sign is quoted depends on the version of commons-csv.
fn write_number(text: &str, first: bool, out: &mut Vec<u8>) -> Result<(), Unknown> {
    if first && text.starts_with('-') {
        return Err(Unknown::UncertainNumber);
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Appends a text, quoted if it has a comma or a quote in it.
///
/// Certain are printable ASCII texts that begin with a letter or digit and do not end in a blank: only these no version
/// of commons-csv quotes for another reason.
fn write_text(text: &str, out: &mut Vec<u8>) -> Result<(), Unknown> {
    let begins_plain = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !begins_plain || text.ends_with(' ') || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(Unknown::UncertainText);
    }
    if !text.contains([',', '"']) {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_text;
    use crate::partition::{KeySchema, Unknown};
    use crate::sql::{Literal, LiteralKind};

    fn written(types: &str, numbers: &[&str]) -> Result<String, Unknown> {
        let literals: Vec<_> = numbers.iter().map(|text| Literal { text, kind: LiteralKind::Integer }).collect();
        let mut out = Vec::new();
        KeySchema::parse(types, "DELIMITED").unwrap().serialize(&literals.iter().collect::<Vec<_>>(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn plain_texts_are_quoted_only_where_needed() {
        for (text, expected) in [
            ("k1", "k1"),
            ("7 a~b\\c", "7 a~b\\c"),
            ("with,comma", "\"with,comma\""),
            ("with \"q\"", "\"with \"\"q\"\"\""),
        ] {
            let mut out = Vec::new();
            assert_eq!(write_text(text, &mut out), Ok(()));
            assert_eq!(out, expected.as_bytes());
        }
        for text in ["", " a", "-a", "#a", "\"a\"", "_a", "é", "a ", "aé", "a\nb", "a\r", "a\tb", "a\u{7f}", "😀"] {
            assert_eq!(write_text(text, &mut Vec::new()), Err(Unknown::UncertainText), "{text:?}");
        }
    }

    #[test]
    fn a_record_must_not_begin_with_a_sign() {
        assert_eq!(written("INT", &["+5"]).as_deref(), Ok("5"));
        assert_eq!(written("A BIGINT, B BIGINT, C DOUBLE", &["1", "-2", "-3"]).as_deref(), Ok("1,-2,-3.0"));
        assert_eq!(written("INT", &["-5"]), Err(Unknown::UncertainNumber));
        assert_eq!(written("DOUBLE", &["-5"]), Err(Unknown::UncertainNumber));
    }
}
