//! The shapes of single tokens: each function reads the one at the start of the bytes that it is given.
//!
//! What cannot be read takes all the rest, since nothing after it can make the statement valid.

use super::token::Kind;
use memchr::{memchr, memchr2, memmem};

/// The length of a comment that starts with `--` and goes on: to the end of the line, but the character after the dashes
/// belongs to it whatever it is. So `--` directly before a line feed hides the next line as well, as it does in the server.
pub(super) fn line_comment_length(rest: &[u8]) -> usize {
    let body = rest.get(3..).unwrap_or_default();
    let end = memchr2(b'\r', b'\n', body).unwrap_or(body.len());
    3 + end
        + match body.get(end..) {
            Some([b'\r', b'\n', ..]) => 2,
            Some([_, ..]) => 1,
            _ => 0,
        }
}

/// The length of what is quoted at the start, where a doubled quote stands for one; `None` if it does not end.
fn quoted(rest: &[u8], quote: u8) -> Option<usize> {
    let mut length = 1;
    loop {
        length += memchr(quote, rest.get(length..)?)? + 1;
        if rest.get(length) != Some(&quote) {
            return Some(length);
        }
        length += 1;
    }
}

/// A string, to its closing quote.
pub(super) fn string(rest: &[u8]) -> (Kind, usize) {
    quoted(rest, b'\'').map_or((Kind::Unrecognised, rest.len()), |length| (Kind::String, length))
}

/// A name between quotes; unrecognised with the start of a variable in it, which the server might replace by a quote.
pub(super) fn quoted_name(rest: &[u8], quote: u8) -> (Kind, usize) {
    match quoted(rest, quote).and_then(|length| rest.get(..length)) {
        Some(name) if memmem::find(name, b"${").is_none() => (Kind::Quoted(char::from(quote)), name.len()),
        _ => (Kind::Unrecognised, rest.len()),
    }
}

/// `${name}`.
pub(super) fn variable(rest: &[u8]) -> (Kind, usize) {
    if let [b'$', b'{', name @ ..] = rest {
        let length = word_length(name);
        let begins_well = name.first().is_some_and(|first| !first.is_ascii_digit() && *first != b'@');
        if begins_well && length > 0 && name.get(length) == Some(&b'}') {
            return (Kind::Variable, length + 3);
        }
    }
    (Kind::Unrecognised, rest.len())
}

/// The length of the letters, digits, `_` and `@` at the start.
pub(super) fn word_length(rest: &[u8]) -> usize {
    rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'@')).count()
}

fn digits(rest: &[u8]) -> usize {
    rest.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// A number, or a word that starts with a digit if that is longer.
pub(super) fn number(rest: &[u8]) -> (Kind, usize) {
    let after = |length: usize| rest.get(length..).unwrap_or_default();
    let whole = digits(rest);
    let (kind, mantissa) = match after(whole) {
        [b'.', fraction @ ..] => (Kind::Decimal, whole + 1 + digits(fraction)),
        _ => (Kind::Integer, whole),
    };
    let exponent = match after(mantissa) {
        [b'e' | b'E', b'+' | b'-', power @ ..] if digits(power) > 0 => 2 + digits(power),
        [b'e' | b'E', power @ ..] if digits(power) > 0 => 1 + digits(power),
        _ => 0,
    };
    let (kind, length) = if exponent > 0 { (Kind::Float, mantissa + exponent) } else { (kind, mantissa) };
    let word = word_length(rest);
    if word > length { (Kind::DigitWord, word) } else { (kind, length) }
}

/// A token of one or two characters that are not letters, digits or quotes.
pub(super) fn symbol(rest: &[u8]) -> (Kind, usize) {
    match rest {
        [b'<', b'>', ..] | [b'!', b'=', ..] => (Kind::NotEqual, 2),
        [b'<', b'=', ..] => (Kind::LessOrEqual, 2),
        [b'>', b'=', ..] => (Kind::GreaterOrEqual, 2),
        [b'|', b'|', ..] => (Kind::Concat, 2),
        [b':', b'=', ..] => (Kind::Assign, 2),
        [b'-', b'>', ..] => (Kind::Arrow, 2),
        [b'=', b'>', ..] => (Kind::Lambda, 2),
        [b'<', ..] => (Kind::Less, 1),
        [b'>', ..] => (Kind::Greater, 1),
        [b'=', ..] => (Kind::Equal, 1),
        [b'+', ..] => (Kind::Plus, 1),
        [b'-', ..] => (Kind::Minus, 1),
        [b'*', ..] => (Kind::Asterisk, 1),
        [b'/', ..] => (Kind::Slash, 1),
        [b'%', ..] => (Kind::Percent, 1),
        [b',', ..] => (Kind::Comma, 1),
        [b';', ..] => (Kind::Semicolon, 1),
        [b'.', ..] => (Kind::Dot, 1),
        [b'(', ..] => (Kind::Open, 1),
        [b')', ..] => (Kind::Close, 1),
        [b'[', ..] => (Kind::OpenSquare, 1),
        [b']', ..] => (Kind::CloseSquare, 1),
        _ => (Kind::Unrecognised, rest.len()),
    }
}
