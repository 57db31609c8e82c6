//! Literals: the tokens of one -> its value.

use super::lexer::Lexer;
use super::parser::Parser;
use super::token::{Kind, Token};
use super::word::Word;
use super::{Literal, LiteralKind, Name};
use std::borrow::Cow;

/// Reads a literal that stands alone, blanks around it allowed: a string, number or boolean, or `STRUCT(name := literal, ...)`.
///
/// `None` for anything else, NULL, variables, comments and expressions included.
///
/// ```
/// use ksqldb_sidecar::sql::{LiteralKind, parse_literal};
///
/// let literal = parse_literal(" 'it''s' ").expect("a literal");
/// assert_eq!(literal.text, "'it''s'");
/// assert_eq!(literal.kind, LiteralKind::String("it's".into()));
/// assert_eq!(parse_literal("1 + 1"), None);
/// ```
pub fn parse_literal(text: &str) -> Option<Literal<'_>> {
    let mut parser = Parser::new(text);
    let literal = parser.lone_literal()?;
    (parser.kind() == Kind::End && is_bare(text)).then_some(literal)
}

/// Whether nothing but blanks stands between the tokens.
fn is_bare(text: &str) -> bool {
    let mut lexer = Lexer::new(text);
    let mut end = 0;
    loop {
        let token = lexer.next();
        if !lexer.slice(end, token.start).trim_ascii().is_empty() {
            return false;
        }
        if token.kind == Kind::End {
            return true;
        }
        end = token.end;
    }
}

/// The literal from a byte to the end of its last token.
pub(super) fn literal<'a>(lexer: &Lexer<'a>, start: usize, last: Token) -> Option<Literal<'a>> {
    let text = lexer.slice(start, last.end);
    let kind = match last.kind {
        Kind::Integer => LiteralKind::Integer,
        Kind::Decimal => LiteralKind::Decimal,
        Kind::Float => LiteralKind::Float,
        Kind::Word(Word::True) => LiteralKind::Boolean(true),
        Kind::Word(Word::False) => LiteralKind::Boolean(false),
        Kind::String => LiteralKind::String(unquoted(text)?),
        _ => return None,
    };
    Some(Literal { text, kind })
}

fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(if inner.contains('\'') { Cow::Owned(inner.replace("''", "'")) } else { Cow::Borrowed(inner) })
}

impl<'a> Literal<'a> {
    /// The text of a number without the blanks and comments that may stand between its sign and its digits (`- 5`).
    pub fn number(&self) -> Cow<'a, str> {
        match self.text.strip_prefix('-') {
            Some(rest) if !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                let mut lexer = Lexer::new(rest);
                let digits = lexer.next();
                Cow::Owned(format!("-{}", lexer.slice(digits.start, digits.end)))
            }
            _ => Cow::Borrowed(self.text),
        }
    }
}

impl<'a> Parser<'a> {
    fn lone_literal(&mut self) -> Option<Literal<'a>> {
        let start = self.cursor.current.start;
        if self.kind() == Kind::Word(Word::Struct) {
            return self.nested(|p| p.struct_literal(start));
        }
        if self.eat(Kind::Minus) && !matches!(self.kind(), Kind::Integer | Kind::Decimal | Kind::Float) {
            return None;
        }
        let last = self.advance();
        literal(&self.cursor.lexer, start, last)
    }

    fn struct_literal(&mut self, start: usize) -> Option<Literal<'a>> {
        self.advance();
        self.expect(Kind::Open)?;
        let mut fields: Vec<(Name<'a>, Literal<'a>)> = Vec::new();
        if self.kind() != Kind::Close {
            self.list(|p| {
                let name = p.identifier()?;
                let name = p.name(name)?;
                p.expect(Kind::Assign)?;
                fields.push((name, p.lone_literal()?));
                Some(())
            })?;
        }
        let end = self.cursor.current.end;
        self.expect(Kind::Close)?;
        Some(Literal { text: self.cursor.lexer.slice(start, end), kind: LiteralKind::Struct(fields) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<LiteralKind<'_>> {
        parse_literal(text).map(|literal| literal.kind)
    }

    #[test]
    fn numbers_keep_their_kind() {
        for text in ["0", "-5", "- 5", " 007\n", "99999999999999999999"] {
            assert_eq!(kind(text), Some(LiteralKind::Integer), "{text}");
        }
        for text in ["1.5", "-1.5", ".5", "1."] {
            assert_eq!(kind(text), Some(LiteralKind::Decimal), "{text}");
        }
        for text in ["1e3", "-1E-3", "1.5e+3"] {
            assert_eq!(kind(text), Some(LiteralKind::Float), "{text}");
        }
    }

    #[test]
    fn strings_are_unescaped_and_booleans_read() {
        assert_eq!(kind("'a''b'"), Some(LiteralKind::String(Cow::Owned("a'b".to_owned()))));
        assert!(matches!(kind("'naïve'"), Some(LiteralKind::String(Cow::Borrowed("naïve")))));
        assert_eq!(kind("true"), Some(LiteralKind::Boolean(true)));
        assert_eq!(kind("False"), Some(LiteralKind::Boolean(false)));
    }

    #[test]
    fn structs_nest() {
        let literal = parse_literal(" STRUCT(A:=-1, `b` := struct(C:='x')) ").expect("a struct");
        assert_eq!(literal.text, "STRUCT(A:=-1, `b` := struct(C:='x'))");
        let LiteralKind::Struct(fields) = literal.kind else { panic!("not a struct") };
        assert_eq!(fields.len(), 2);
        assert_eq!((fields[0].0.text, fields[0].1.text), ("A", "-1"));
        assert_eq!((fields[1].0.text, fields[1].1.text), ("b", "struct(C:='x')"));
        assert_eq!(kind("STRUCT()"), Some(LiteralKind::Struct(Vec::new())));
    }

    #[test]
    fn nothing_else_is_a_literal() {
        let table = [
            "",
            " ",
            "a",
            "NULL",
            "${a}",
            "+5",
            "--5",
            "- -5",
            "-'a'",
            "-true",
            "1 2",
            "1;",
            "(1)",
            "'a",
            "'a' 'b'",
            "'a' -- b",
            "/**/1",
            "- /* */ 5",
            "STRUCT",
            "STRUCT(A:=B)",
            "STRUCT(A:=1",
            "STRUCT(A:=1,)",
            "STRUCT('A':=1)",
            "STRUCT(FROM:=1)",
            "DATE '2020-01-01'",
            "1_0",
            "\u{a0}1",
        ];
        for text in table {
            assert_eq!(parse_literal(text), None, "{text}");
        }
        let deep = "STRUCT(A:=".repeat(100_000);
        assert_eq!(parse_literal(&deep), None);
    }

    #[test]
    fn a_number_is_given_without_what_follows_its_sign() {
        for (text, expected) in [("-5", "-5"), ("- 5", "-5"), ("1.5", "1.5"), ("- .5", "-.5")] {
            assert_eq!(parse_literal(text).expect("a number").number(), expected);
        }
    }
}
