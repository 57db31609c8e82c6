//! Text -> tokens, by the rules of ksqlDB's lexer: the longest match wins, then the rule that its grammar lists first.
//!
//! Case is folded for ASCII only. The server folds `ı` and `ſ` to `I` and `S`, too; here any character outside ASCII that
//! is not quoted is [`Kind::Unrecognised`], which no rule of the grammar accepts.

use super::scan::{line_comment_length, number, quoted_name, string, symbol, variable, word_length};
use super::token::{Kind, Token};
use super::word::Word;
use memchr::memmem;

/// A position in a text; [`next`](Lexer::next) reads the token there. A copy is a lookahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0 }
    }

    /// The text between two byte positions that tokens gave.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Reads the next token; at the end of the text, [`Kind::End`] again and again.
    pub(super) fn next(&mut self) -> Token {
        let readable = self.skip_hidden();
        let start = self.at;
        let rest = self.rest();
        let (kind, length) = match rest {
            _ if !readable => (Kind::Unrecognised, rest.len()),
            [] => (Kind::End, 0),
            [b'\'', ..] => string(rest),
            [quote @ (b'"' | b'`'), ..] => quoted_name(rest, *quote),
            [b'$', ..] => variable(rest),
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => number(rest),
            [first, ..] if first.is_ascii_alphabetic() || *first == b'_' => {
                let length = word_length(rest);
                (Kind::Word(Word::of(self.slice(start, start + length))), length)
            }
            _ => symbol(rest),
        };
        self.at = start + length;
        Token { kind, start, end: self.at }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips blanks and comments; false at a comment that is not closed or holds the start of a variable.
    ///
    /// The server replaces variables in the whole text, comments included, so that one could end a comment.
    fn skip_hidden(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let length = match rest {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => {
                    self.at += 1;
                    continue;
                }
                [b'/', b'*', body @ ..] => memmem::find(body, b"*/").map(|end| end + 4),
                [b'-', b'-', _, ..] => Some(line_comment_length(rest)),
                _ => return true,
            };
            match length.and_then(|length| rest.get(..length)) {
                Some(comment) if memmem::find(comment, b"${").is_none() => self.at += comment.len(),
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every token of a text as `kind:text`, bare words as their text alone.
    fn tokens(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut all = Vec::new();
        loop {
            let token = lexer.next();
            let source = lexer.slice(token.start, token.end);
            match token.kind {
                Kind::End => return all,
                Kind::Word(_) => all.push(source.to_owned()),
                kind => all.push(format!("{kind:?}:{source}")),
            }
        }
    }

    #[test]
    fn the_longest_number_wins_then_the_first_rule() {
        let table: &[(&str, &[&str])] = &[
            ("12", &["Integer:12"]),
            ("1.5", &["Decimal:1.5"]),
            ("1.", &["Decimal:1."]),
            (".5", &["Decimal:.5"]),
            ("1E3", &["Float:1E3"]),
            ("1e-3", &["Float:1e-3"]),
            ("1.e3", &["Float:1.e3"]),
            (".5E3x", &["Float:.5E3", "x"]),
            ("1E3x", &["DigitWord:1E3x"]),
            ("1E", &["DigitWord:1E"]),
            ("1E+", &["DigitWord:1E", "Plus:+"]),
            ("1_0", &["DigitWord:1_0"]),
            ("1.5abc", &["Decimal:1.5", "abc"]),
            ("1..5", &["Decimal:1.", "Decimal:.5"]),
            ("t.1a", &["t", "Decimal:.1", "a"]),
            ("t.a", &["t", "Dot:.", "a"]),
        ];
        for (text, expected) in table {
            assert_eq!(&tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_hide_what_the_server_hides() {
        let table: &[(&str, &[&str])] = &[
            ("a -- b\nc", &["a", "c"]),
            ("a --\nb\nc", &["a", "c"]),
            ("a --\r\nb", &["a", "b"]),
            ("a --@b\nc", &["a", "c"]),
            ("a --@\nc", &["a", "c"]),
            ("a -- b\rc", &["a", "c"]),
            ("a --", &["a", "Minus:-", "Minus:-"]),
            ("a --b", &["a"]),
            ("a --é\nb", &["a", "b"]),
            ("a/*b*/c", &["a", "c"]),
            ("a/*/b*/c", &["a", "c"]),
            ("/* a /* b */ c", &["c"]),
            ("a /* b", &["a", "Unrecognised:/* b"]),
            ("a /* ${b} */ c", &["a", "Unrecognised:/* ${b} */ c"]),
        ];
        for (text, expected) in table {
            assert_eq!(&tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quotes_are_doubled_to_escape() {
        let table: &[(&str, &[&str])] = &[
            ("'it''s'x", &["String:'it''s'", "x"]),
            ("''''", &["String:''''"]),
            ("''", &["String:''"]),
            ("'''", &["Unrecognised:'''"]),
            ("'a\nb'", &["String:'a\nb'"]),
            ("\"a\"\"b\"", &["Quoted('\"'):\"a\"\"b\""]),
            ("`a``b`", &["Quoted('`'):`a``b`"]),
            ("`${a}`", &["Unrecognised:`${a}`"]),
            ("${a}", &["Variable:${a}"]),
            ("${1}", &["Unrecognised:${1}"]),
            ("${}", &["Unrecognised:${}"]),
        ];
        for (text, expected) in table {
            assert_eq!(&tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn symbols_and_words() {
        let expected = ["a", "Arrow:->", "b", "Lambda:=>", "Concat:||", "LessOrEqual:<=", "Greater:>", "NotEqual:<>"];
        assert_eq!(tokens("a->b=>||<=><>"), expected);
        assert_eq!(tokens("A@b_1 _c"), ["A@b_1", "_c"]);
        for text in ["\u{feff}", "\u{a0}", "\u{c}", "ſ", "|", ":", "!", "$", "#", "\0"] {
            assert_eq!(tokens(text), [format!("Unrecognised:{text}")]);
        }
    }
}
