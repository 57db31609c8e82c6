//! What [`classify`](super::classify) recognises in a statement; every part borrows from its text.

use super::{Equalities, Selection};
use smallvec::SmallVec;
use std::borrow::Cow;

/// What a request's statement is, from the most trusted (may be pinned and repeated) to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// One SELECT without EMIT whose WHERE is `column = literal`, any window bounds beside it.
    Lookup,
    /// A lookup with `IN (literals)` or ORs of the same column.
    LookupMany,
    /// A lookup with equality on several columns.
    LookupMultiColumn,
    /// Any other single SELECT without EMIT: scans, ranges, expressions, variables, pulls on streams.
    Pull,
    /// A SELECT with EMIT.
    Push,
    /// Not a SELECT.
    Other,
    /// Invalid, several statements, or only the server can tell.
    Unsure,
}

impl Class {
    /// The name used by `ksqldb-sidecar classify`, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Lookup | Class::LookupMultiColumn => "lookup",
            Class::LookupMany => "lookup-many",
            Class::Pull => "pull",
            Class::Push => "push",
            Class::Other => "other",
            Class::Unsure => "unsure",
        }
    }
}

/// An identifier as written, with the rule that gives the metastore's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The text between the quotes (doubled quotes still doubled), or the bare word.
    pub text: &'a str,
    /// The quote character, `` ` `` or `"`; `None` for a bare word, which the server upper-cases.
    pub quote: Option<char>,
}

impl<'a> Name<'a> {
    /// The name as the metastore spells it; borrowed unless letters must be raised or quotes undoubled.
    pub fn metastore(&self) -> Cow<'a, str> {
        match self.quote {
            None if self.text.bytes().any(|b| b.is_ascii_lowercase() || !b.is_ascii()) => {
                Cow::Owned(self.text.to_uppercase())
            }
            Some(quote) if self.text.contains(quote) => {
                Cow::Owned(self.text.replace(&format!("{quote}{quote}"), quote.encode_utf8(&mut [0; 4])))
            }
            _ => Cow::Borrowed(self.text),
        }
    }
}

/// A literal: its exact source text (sign and quotes included, so it can be put into another statement) and its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal<'a> {
    /// The source text, e.g. `'it''s'`, `-5`, `1e3`; blanks after a sign are kept, see [`number`](Literal::number).
    pub text: &'a str,
    /// What it is.
    pub kind: LiteralKind<'a>,
}

/// The kinds of literal that a key can be compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum LiteralKind<'a> {
    /// Digits with an optional sign; may exceed 64 bits, the text tells.
    Integer,
    /// Digits with a point, no exponent (`1.5`): DECIMAL for the server.
    Decimal,
    /// A number with an exponent (`1e3`): DOUBLE for the server.
    Float,
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// TRUE or FALSE.
    Boolean(bool),
    /// `STRUCT(name := literal, ...)`; only [`parse_literal`](super::parse_literal) gives it, no lookup has one.
    Struct(Vec<(Name<'a>, Literal<'a>)>),
}

/// `column = literal`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition<'a> {
    /// The column, without the qualifier of its source.
    pub column: Name<'a>,
    /// What it equals.
    pub literal: Literal<'a>,
}

/// Which end of the window a bound speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEdge {
    /// `WINDOWSTART`.
    Start,
    /// `WINDOWEND`.
    End,
}

/// How a bound compares, with the window's edge on the left-hand side (`5 < WINDOWSTART` is turned round).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One bound on a window, e.g. `WINDOWSTART >= 12000`.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowBound<'a> {
    /// The edge.
    pub edge: WindowEdge,
    /// The comparison.
    pub comparison: Comparison,
    /// A number (epoch milliseconds) or a string that the server parses as a timestamp.
    pub literal: Literal<'a>,
}

/// A classified statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement<'a> {
    /// Its class.
    pub class: Class,
    /// The single source of a lookup or pull; `None` where there is none or it is not a plain name.
    pub source: Option<Name<'a>>,
    /// The key conditions of a lookup class, in the order of the text; for `LookupMany` all on one column. Else empty.
    pub keys: SmallVec<[Condition<'a>; 2]>,
    /// The window bounds of a lookup class.
    pub windows: SmallVec<[WindowBound<'a>; 2]>,
    /// `LIMIT n` of a lookup class or a pull.
    pub limit: Option<u64>,
    /// What it selects, of a lookup class or a pull.
    pub selection: Selection<'a>,
    /// What its WHERE compares with `=` or `IN`, of a lookup class or a pull.
    pub equalities: Equalities<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metastore_spells_bare_names_in_upper_case_and_quoted_ones_as_written() {
        for (text, quote, expected) in [
            ("items", None, "ITEMS"),
            ("ITEMS_1", None, "ITEMS_1"),
            ("Items", Some('`'), "Items"),
            ("a``b\"\"c", Some('`'), "a`b\"\"c"),
            ("a\"\"b", Some('"'), "a\"b"),
        ] {
            assert_eq!(Name { text, quote }.metastore(), expected);
        }
    }
}
