//! KEY_FORMAT JSON, as Kafka Connect's converter and Jackson write it.

use super::coerce::{Scalar, coerce};
use super::double::double_text;
use super::{KeyColumn, SqlType, Unknown};
use crate::sql::{Literal, LiteralKind, Name};

/// Appends the key: a single column by itself, several as one compact object in key order.
pub(super) fn write_key(columns: &[KeyColumn], literals: &[&Literal<'_>], out: &mut Vec<u8>) -> Result<(), Unknown> {
    match (columns, literals) {
        ([column], [literal]) => write_value(&column.sql_type, literal, out),
        _ => write_object(columns.iter().zip(literals.iter().copied()), out),
    }
}

fn write_value(sql_type: &SqlType, literal: &Literal<'_>, out: &mut Vec<u8>) -> Result<(), Unknown> {
    if let SqlType::Struct(fields) = sql_type {
        let LiteralKind::Struct(named) = &literal.kind else {
            return Err(Unknown::NotCoercible);
        };
        return write_struct(fields, named, out);
    }
    match coerce(sql_type, literal)? {
        Scalar::Boolean(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Scalar::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Scalar::Bigint(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Scalar::Double(value) => out.extend_from_slice(double_text(value)?.as_bytes()),
        Scalar::Text(text) => write_text(text, out)?,
        Scalar::Base64(_) => return Err(Unknown::UnsupportedType),
    }
    Ok(())
}

/// Appends a STRUCT in the order of its type; the literal may name the fields in another one.
fn write_struct(fields: &[KeyColumn], named: &[(Name<'_>, Literal<'_>)], out: &mut Vec<u8>) -> Result<(), Unknown> {
    if fields.is_empty() || fields.len() != named.len() {
        return Err(Unknown::StructFields);
    }
    let mut ordered = Vec::with_capacity(fields.len());
    for field in fields {
        let (_, literal) =
            named.iter().find(|(name, _)| name.metastore() == field.name).ok_or(Unknown::StructFields)?;
        ordered.push((field, literal));
    }
    write_object(ordered.into_iter(), out)
}

fn write_object<'a>(
    members: impl Iterator<Item = (&'a KeyColumn, &'a Literal<'a>)>,
    out: &mut Vec<u8>,
) -> Result<(), Unknown> {
    let mut separator = b'{';
    for (column, literal) in members {
        out.push(separator);
        write_text(&column.name, out)?;
        out.push(b':');
        write_value(&column.sql_type, literal, out)?;
        separator = b',';
    }
    out.push(b'}');
    Ok(())
}

/// Appends a JSON string with what Jackson escapes: quotes, backslashes, control characters below U+0020.
///
/// A character outside of the Basic Multilingual Plane is escaped as a surrogate pair or left as it is, depending on
/// version and settings, so it is uncertain.
fn write_text(text: &str, out: &mut Vec<u8>) -> Result<(), Unknown> {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => {
                out.extend_from_slice(if byte < 0x10 { b"\\u000" } else { b"\\u001" });
                // The index is below 16.
                out.push(HEX[usize::from(byte & 0xf)]);
            }
            // Begins four bytes of UTF-8.
            0xf0.. => return Err(Unknown::UncertainText),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_text;
    use crate::partition::{KeyColumn, KeyFormat, KeySchema, SqlType, Unknown};
    use crate::sql::{Literal, LiteralKind, Name};

    fn field(name: &'static str, number: &'static str) -> (Name<'static>, Literal<'static>) {
        (Name { text: name, quote: None }, Literal { text: number, kind: LiteralKind::Integer })
    }

    fn written(types: &str, literals: &[&Literal<'_>]) -> Result<String, Unknown> {
        let mut out = Vec::new();
        KeySchema::parse(types, "JSON").unwrap().serialize(literals, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn texts_are_escaped_as_jackson_does() {
        for (text, expected) in [
            ("", r#""""#),
            ("a/b'c", r#""a/b'c""#),
            ("q\"b\\", r#""q\"b\\""#),
            ("\u{8}\t\n\u{c}\r", r#""\b\t\n\f\r""#),
            ("\0\u{b}\u{1f}", r#""\u0000\u000B\u001F""#),
            ("\u{7f}\u{85}\u{2028}€\u{ffff}", "\"\u{7f}\u{85}\u{2028}€\u{ffff}\""),
        ] {
            let mut out = Vec::new();
            assert_eq!(write_text(text, &mut out), Ok(()));
            assert_eq!(out, expected.as_bytes(), "{text:?}");
        }
        assert_eq!(write_text("😀", &mut Vec::new()), Err(Unknown::UncertainText));
    }

    #[test]
    fn a_struct_is_written_in_the_order_of_its_type() {
        let inner = Literal { text: "", kind: LiteralKind::Struct(vec![field("y", "2"), field("X", "1")]) };
        let outer = vec![(Name { text: "s", quote: None }, inner.clone()), field("n", "3")];
        let types = "STRUCT<N BIGINT, S STRUCT<X INT, Y DOUBLE>>";
        let outer = Literal { text: "", kind: LiteralKind::Struct(outer) };
        assert_eq!(written(types, &[&outer]).as_deref(), Ok(r#"{"N":3,"S":{"X":1,"Y":2.0}}"#));
        let columns = "`a` STRUCT<X INT, Y INT>, B STRUCT<X INT, Y INT>";
        let expected = r#"{"a":{"X":1,"Y":2},"B":{"X":1,"Y":2}}"#;
        assert_eq!(written(columns, &[&inner, &inner]).as_deref(), Ok(expected));
    }

    #[test]
    fn a_struct_needs_each_field_exactly_once() {
        for fields in [
            vec![field("A", "1")],
            vec![field("A", "1"), field("A", "2")],
            vec![field("A", "1"), field("C", "2")],
            vec![field("A", "1"), field("B", "2"), field("C", "3")],
        ] {
            let literal = Literal { text: "", kind: LiteralKind::Struct(fields) };
            assert_eq!(written("STRUCT<A INT, B INT>", &[&literal]), Err(Unknown::StructFields), "{literal:?}");
            assert_eq!(written("INT", &[&literal]), Err(Unknown::NotCoercible));
        }
        let (_, number) = field("A", "1");
        let empty = Literal { text: "", kind: LiteralKind::Struct(Vec::new()) };
        let schema = KeySchema {
            format: KeyFormat::Json,
            columns: vec![KeyColumn { name: "K".to_owned(), sql_type: SqlType::Struct(Vec::new()) }],
        };
        assert_eq!(schema.serialize(&[&empty], &mut Vec::new()), Err(Unknown::StructFields));
        assert_eq!(written("STRUCT<A INT>", &[&number]), Err(Unknown::NotCoercible));
    }
}
