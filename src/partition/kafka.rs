//! KEY_FORMAT KAFKA: one column, written by Kafka's own serialiser for its type.

use super::coerce::{Scalar, coerce};
use super::{KeyColumn, Unknown};
use crate::sql::Literal;

/// Appends the key: numbers big-endian in 4 or 8 bytes, text in UTF-8, BYTES as they are.
pub(super) fn write_key(columns: &[KeyColumn], literals: &[&Literal<'_>], out: &mut Vec<u8>) -> Result<(), Unknown> {
    let ([column], [literal]) = (columns, literals) else {
        return Err(Unknown::SeveralColumns);
    };
    match coerce(&column.sql_type, literal)? {
        Scalar::Boolean(_) => return Err(Unknown::UnsupportedType),
        Scalar::Integer(value) => out.extend_from_slice(&value.to_be_bytes()),
        Scalar::Bigint(value) => out.extend_from_slice(&value.to_be_bytes()),
        Scalar::Double(value) => out.extend_from_slice(&value.to_be_bytes()),
        Scalar::Text(text) => out.extend_from_slice(text.as_bytes()),
        Scalar::Base64(text) => write_decoded(text, out)?,
    }
    Ok(())
}

/// Appends what a text in base64 (RFC 4648, section 4) stands for.
///
/// Only the one canonical form is taken, which every decoder reads alike: padded, without blanks, unused bits zero.
fn write_decoded(text: &str, out: &mut Vec<u8>) -> Result<(), Unknown> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return Err(Unknown::UncertainText);
    }
    let (mut bits, mut held) = (0u16, 0);
    for digit in digits.bytes() {
        bits = bits << 6 | sextet(digit)?;
        held += 6;
        if held >= 8 {
            held -= 8;
            let [high, low] = (bits << (8 - held)).to_be_bytes();
            out.push(high);
            bits = u16::from(low) >> (8 - held);
        }
    }
    if bits == 0 { Ok(()) } else { Err(Unknown::UncertainText) }
}

fn sextet(digit: u8) -> Result<u16, Unknown> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return Err(Unknown::UncertainText),
    };
    Ok(u16::from(value))
}

#[cfg(test)]
mod tests {
    use super::write_decoded;
    use crate::partition::{KeySchema, Unknown};
    use crate::sql::{Literal, LiteralKind};

    #[test]
    fn bytes_are_read_from_canonical_base64() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("AA==", b"\0"),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYmFy", b"foobar"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
            ("/////w==", &[0xff; 4]),
        ] {
            let mut out = Vec::new();
            assert_eq!(write_decoded(text, &mut out), Ok(()), "{text}");
            assert_eq!(out, bytes, "{text}");
        }
        for text in ["Zg", "Zg=", "Zh==", "Zm9=", "Zm9v ", "=", "====", "Z===", "-_-_", "Zg==Zg==", "ü=="] {
            assert_eq!(write_decoded(text, &mut Vec::new()), Err(Unknown::UncertainText), "{text}");
        }
    }

    #[test]
    fn the_format_has_no_booleans_and_holds_one_column() {
        let truth = Literal { text: "TRUE", kind: LiteralKind::Boolean(true) };
        let mut out = Vec::new();
        let one = KeySchema::parse("BOOLEAN", "KAFKA").unwrap();
        assert_eq!(one.serialize(&[&truth], &mut out), Err(Unknown::UnsupportedType));
        let two = KeySchema::parse("A BOOLEAN, B BOOLEAN", "KAFKA").unwrap();
        assert_eq!(two.serialize(&[&truth, &truth], &mut out), Err(Unknown::SeveralColumns));
    }
}
