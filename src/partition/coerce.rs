//! A literal -> the value the server makes of it for a column.

use super::{SqlType, Unknown};
use crate::sql::{Literal, LiteralKind};

/// A value of a column, as the server's serialisers get it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Boolean(bool),
    Integer(i32),
    Bigint(i64),
    /// Finite, never a negative zero or subnormal.
    Double(f64),
    Text(&'a str),
    /// BYTES, still in base64 as the statement has them.
    Base64(&'a str),
}

/// Turns a literal into a value of a type by the server's strict rules: numbers only widen, nothing else changes its type.
///
/// STRUCT has no scalar and is [`Unknown::UnsupportedType`] here.
pub(super) fn coerce<'a>(sql_type: &SqlType, literal: &'a Literal<'_>) -> Result<Scalar<'a>, Unknown> {
    match (sql_type, &literal.kind) {
        (SqlType::Struct(_) | SqlType::Other, _) => Err(Unknown::UnsupportedType),
        (SqlType::Boolean, LiteralKind::Boolean(value)) => Ok(Scalar::Boolean(*value)),
        (SqlType::Integer, LiteralKind::Integer) => {
            i32::try_from(integer(literal.text)?).map(Scalar::Integer).map_err(|_| Unknown::OutOfRange)
        }
        (SqlType::Bigint, LiteralKind::Integer) => integer(literal.text).map(Scalar::Bigint),
        // Rounds to the nearest double, ties to even, as Java's `(double) long`.
        (SqlType::Double, LiteralKind::Integer) => Ok(Scalar::Double(integer(literal.text)? as f64)),
        (SqlType::Double, LiteralKind::Decimal | LiteralKind::Float) => double(literal.text).map(Scalar::Double),
        (SqlType::String, LiteralKind::String(text)) => Ok(Scalar::Text(text)),
        (SqlType::Bytes, LiteralKind::String(text)) => Ok(Scalar::Base64(text)),
        _ => Err(Unknown::NotCoercible),
    }
}

/// Reads an INT or BIGINT literal; larger ones are no literals for the server.
fn integer(text: &str) -> Result<i64, Unknown> {
    text.parse().map_err(|_| Unknown::OutOfRange)
}

/// Reads a DECIMAL or DOUBLE literal where its value is certain.
///
/// `-0.0` is a positive zero as DECIMAL, a negative one as DOUBLE, and versions differ in which of them it is. What is
/// next to nothing may underflow on its way through the server.
fn double(text: &str) -> Result<f64, Unknown> {
    let value: f64 = text.parse().map_err(|_| Unknown::OutOfRange)?;
    let plain_zero = value == 0.0 && value.is_sign_positive() && is_zero(text);
    match value {
        _ if !value.is_finite() => Err(Unknown::OutOfRange),
        _ if value.is_normal() || plain_zero => Ok(value),
        _ => Err(Unknown::UncertainNumber),
    }
}

/// Whether the digits before any exponent are all zero.
fn is_zero(text: &str) -> bool {
    let digits = text.split(['e', 'E']).next().unwrap_or(text);
    !digits.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::{Scalar, coerce};
    use crate::partition::{SqlType, Unknown};
    use crate::sql::{Literal, LiteralKind};

    fn number<'a>(text: &'a str, sql_type: &SqlType) -> Result<Scalar<'a>, Unknown> {
        let kind = match text {
            _ if text.contains(['e', 'E']) => LiteralKind::Float,
            _ if text.contains('.') => LiteralKind::Decimal,
            _ => LiteralKind::Integer,
        };
        // Numbers do not borrow from their literal.
        Ok(match coerce(sql_type, &Literal { text, kind })? {
            Scalar::Integer(value) => Scalar::Integer(value),
            Scalar::Bigint(value) => Scalar::Bigint(value),
            Scalar::Double(value) => Scalar::Double(value),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn integers_widen_and_never_narrow() {
        let (integer, bigint, double) = (SqlType::Integer, SqlType::Bigint, SqlType::Double);
        for (text, sql_type, expected) in [
            ("00012", &integer, Ok(Scalar::Integer(12))),
            ("+5", &integer, Ok(Scalar::Integer(5))),
            ("-0", &integer, Ok(Scalar::Integer(0))),
            ("-2147483648", &integer, Ok(Scalar::Integer(i32::MIN))),
            ("2147483648", &integer, Err(Unknown::OutOfRange)),
            ("1.0", &integer, Err(Unknown::NotCoercible)),
            ("1e0", &integer, Err(Unknown::NotCoercible)),
            ("9223372036854775807", &bigint, Ok(Scalar::Bigint(i64::MAX))),
            ("9223372036854775808", &bigint, Err(Unknown::OutOfRange)),
            ("-99999999999999999999999999", &bigint, Err(Unknown::OutOfRange)),
            ("1.5", &bigint, Err(Unknown::NotCoercible)),
            ("-0", &double, Ok(Scalar::Double(0.0))),
            ("9007199254740993", &double, Ok(Scalar::Double(9_007_199_254_740_992.0))),
            ("9223372036854775808", &double, Err(Unknown::OutOfRange)),
        ] {
            assert_eq!(number(text, sql_type), expected, "{text} as {sql_type:?}");
        }
    }

    #[test]
    fn doubles_are_computed_where_every_server_agrees() {
        for (text, expected) in [
            ("1.5", Ok(1.5)),
            ("-.25", Ok(-0.25)),
            ("5.", Ok(5.0)),
            ("1e3", Ok(1000.0)),
            ("0.0", Ok(0.0)),
            ("0e9", Ok(0.0)),
            ("-0.0", Err(Unknown::UncertainNumber)),
            ("-0e0", Err(Unknown::UncertainNumber)),
            ("1e-400", Err(Unknown::UncertainNumber)),
            ("4.9e-324", Err(Unknown::UncertainNumber)),
            ("1e400", Err(Unknown::OutOfRange)),
        ] {
            let value = number(text, &SqlType::Double);
            assert_eq!(value, expected.map(Scalar::Double), "{text}");
            assert!(!matches!(value, Ok(Scalar::Double(zero)) if zero == 0.0 && zero.is_sign_negative()), "{text}");
        }
    }

    #[test]
    fn nothing_but_a_number_changes_its_type() {
        let text = Literal { text: "'1'", kind: LiteralKind::String("1".into()) };
        let truth = Literal { text: "TRUE", kind: LiteralKind::Boolean(true) };
        assert_eq!(coerce(&SqlType::String, &text), Ok(Scalar::Text("1")));
        assert_eq!(coerce(&SqlType::Boolean, &truth), Ok(Scalar::Boolean(true)));
        for sql_type in [SqlType::Boolean, SqlType::Integer, SqlType::Bigint, SqlType::Double] {
            assert_eq!(coerce(&sql_type, &text), Err(Unknown::NotCoercible), "{sql_type:?}");
        }
        assert_eq!(coerce(&SqlType::String, &truth), Err(Unknown::NotCoercible));
        assert_eq!(coerce(&SqlType::Other, &text), Err(Unknown::UnsupportedType));
    }
}
