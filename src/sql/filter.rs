//! What a condition amounts to: the algebra that tells lookups from other filters.
//!
//! The conditions themselves are appended to [`Parser::keys`] and [`Parser::windows`] as they are read, and a [`Filter`]
//! only counts them. Where anything else joins in, the whole becomes [`Shape::Other`] and what was appended has no meaning.

use super::literal::literal;
use super::parser::Parser;
use super::token::{Kind, Token};
use super::{Comparison, Condition, Name, WindowBound, WindowEdge};

/// Most key columns whose equalities are followed; more are a scan to us. ksqlDB's keys have a handful.
const MAX_COLUMNS: usize = 16;

/// What an expression amounts to, as far as a lookup can be made of it. Brackets around it change nothing.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    /// A column of the only source.
    Column(Name<'a>),
    /// A literal from this byte to the end of the token, which is its last.
    Literal(usize, Token),
    Null,
    Filter(Filter),
    /// Anything else.
    Other,
}

/// A condition made of nothing but equalities and window bounds: `keys` entries of [`Parser::keys`] from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Filter {
    first: usize,
    pub(super) keys: usize,
    windows: bool,
    /// Whether one of the keys must match, all on one column, rather than all of them, each on its own column.
    pub(super) alternatives: bool,
}

impl<'a> Parser<'a> {
    /// The shape of `left AND right`.
    pub(super) fn both(&self, left: Shape<'a>, right: Shape<'a>) -> Shape<'a> {
        let (Shape::Filter(left), Shape::Filter(right)) = (left, right) else { return Shape::Other };
        let keyed = left.keys > 0 && right.keys > 0;
        if keyed && (left.alternatives || right.alternatives || self.overlap(left, right)) {
            return Shape::Other;
        }
        Shape::Filter(Filter {
            first: if left.keys > 0 { left.first } else { right.first },
            keys: left.keys + right.keys,
            windows: left.windows || right.windows,
            alternatives: left.alternatives || right.alternatives,
        })
    }

    /// The shape of `left OR right`.
    pub(super) fn either(&self, left: Shape<'a>, right: Shape<'a>) -> Shape<'a> {
        let (Shape::Filter(left), Shape::Filter(right)) = (left, right) else { return Shape::Other };
        let one_column = |filter: Filter| !filter.windows && (filter.alternatives || filter.keys == 1);
        let same = || match (self.keys.get(left.first), self.keys.get(right.first)) {
            (Some(left), Some(right)) => same_name(left.column, right.column),
            _ => false,
        };
        if one_column(left) && one_column(right) && same() {
            Shape::Filter(Filter { keys: left.keys + right.keys, alternatives: true, ..left })
        } else {
            Shape::Other
        }
    }

    /// Whether two filters speak of the same column, or of too many.
    fn overlap(&self, left: Filter, right: Filter) -> bool {
        let keys = |filter: Filter| self.keys.iter().skip(filter.first).take(filter.keys);
        left.keys + right.keys > MAX_COLUMNS
            || keys(left).any(|one| keys(right).any(|other| same_name(one.column, other.column)))
    }

    /// The shape of `left operator right`.
    pub(super) fn comparison(&mut self, left: Shape<'a>, operator: Kind, right: Shape<'a>) -> Shape<'a> {
        let comparison = match operator {
            Kind::Equal => Comparison::Equal,
            Kind::Less => Comparison::Less,
            Kind::LessOrEqual => Comparison::LessOrEqual,
            Kind::Greater => Comparison::Greater,
            Kind::GreaterOrEqual => Comparison::GreaterOrEqual,
            _ => return Shape::Other,
        };
        match (left, right) {
            (Shape::Column(column), Shape::Literal(start, token)) => self.bound(column, comparison, start, token),
            (Shape::Literal(start, token), Shape::Column(column)) => {
                self.bound(column, turned_round(comparison), start, token)
            }
            _ => Shape::Other,
        }
    }

    fn bound(&mut self, column: Name<'a>, comparison: Comparison, start: usize, token: Token) -> Shape<'a> {
        let Some(edge) = window_edge(column) else {
            return if comparison == Comparison::Equal {
                self.alternatives(column, &[(start, token)])
            } else {
                Shape::Other
            };
        };
        match literal(&self.cursor.lexer, start, token) {
            Some(literal) if self.filtering && matches!(token.kind, Kind::Integer | Kind::String) => {
                self.windows.push(WindowBound { edge, comparison, literal });
                Shape::Filter(Filter { first: self.keys.len(), keys: 0, windows: true, alternatives: false })
            }
            _ => Shape::Other,
        }
    }

    /// The shape of `column IN (literals)`.
    pub(super) fn alternatives(&mut self, column: Name<'a>, literals: &[(usize, Token)]) -> Shape<'a> {
        if !self.filtering || window_edge(column).is_some() {
            return Shape::Other;
        }
        let first = self.keys.len();
        for (start, token) in literals {
            match literal(&self.cursor.lexer, *start, *token) {
                Some(literal) => self.keys.push(Condition { column, literal }),
                None => return Shape::Other,
            }
        }
        Shape::Filter(Filter { first, keys: literals.len(), windows: false, alternatives: literals.len() > 1 })
    }
}

/// Whether two names are one to the metastore.
pub(super) fn same_name(left: Name<'_>, right: Name<'_>) -> bool {
    match (left.quote, right.quote) {
        (None, None) => left.text.eq_ignore_ascii_case(right.text),
        _ => left.metastore() == right.metastore(),
    }
}

fn window_edge(column: Name<'_>) -> Option<WindowEdge> {
    let is = |text| same_name(column, Name { text, quote: None });
    if is("WINDOWSTART") {
        Some(WindowEdge::Start)
    } else if is("WINDOWEND") {
        Some(WindowEdge::End)
    } else {
        None
    }
}

fn turned_round(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Equal => Comparison::Equal,
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
    }
}
