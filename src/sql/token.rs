//! The tokens of the grammar.

use super::word::Word;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bare word that starts with a letter or `_`.
    Word(Word),
    /// A word that starts with a digit, e.g. `3RD`.
    DigitWord,
    /// A name between these quotes, `` ` `` or `"`.
    Quoted(char),
    /// `${name}`.
    Variable,
    String,
    Integer,
    /// Digits with a point and no exponent.
    Decimal,
    /// A number with an exponent.
    Float,
    Comma,
    Semicolon,
    Dot,
    Open,
    Close,
    OpenSquare,
    CloseSquare,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Asterisk,
    Slash,
    Percent,
    /// `||`.
    Concat,
    /// `:=`.
    Assign,
    /// `->`.
    Arrow,
    /// `=>`.
    Lambda,
    /// The end of the text.
    End,
    /// What the server cannot read, or a comment or quoted name in which it might replace a variable.
    Unrecognised,
}

impl Kind {
    /// Whether the token can stand for a name.
    pub(super) fn is_identifier(self) -> bool {
        match self {
            Kind::Word(word) => word.is_identifier(),
            Kind::DigitWord | Kind::Quoted(_) | Kind::Variable => true,
            _ => false,
        }
    }
}

/// A token and the bytes of the text that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}
