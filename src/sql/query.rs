//! The clauses of a SELECT, in the order of the grammar.

use super::Name;
use super::filter::Shape;
use super::parser::Parser;
use super::selection::Item;
use super::token::{Kind, Token};
use super::word::Word;

/// What the clauses of a SELECT say.
pub(super) struct Query<'a> {
    /// The source after FROM; `None` if it is a variable.
    pub(super) source: Option<Name<'a>>,
    /// Whether there is a JOIN, WINDOW, GROUP BY, PARTITION BY or HAVING: the server takes none of them without EMIT.
    pub(super) streaming: bool,
    /// What WHERE filters by; `None` without a WHERE.
    pub(super) filter: Option<Shape<'a>>,
    /// Whether there is an EMIT clause.
    pub(super) emit: bool,
    pub(super) limit: Option<u64>,
}

impl<'a> Parser<'a> {
    /// A SELECT up to the end of its last clause.
    pub(super) fn query(&mut self) -> Option<Query<'a>> {
        self.expect_word(Word::Select)?;
        self.list(Self::select_item)?;
        self.expect_word(Word::From)?;
        let (source, alias) = self.relation()?;
        let mut streaming = self.joins()?;
        streaming |= self.window_clause()?;
        let filter = self.where_clause(alias.or(source))?;
        streaming |= self.grouping()?;
        let emit = self.emit_clause()?;
        let limit = self.limit_clause()?;
        Some(Query { source: source.and_then(|token| self.name(token)), streaming, filter, emit, limit })
    }

    /// After the last clause: at most one `;`, then the end.
    pub(super) fn ends(&mut self) -> bool {
        self.eat(Kind::Semicolon);
        self.kind() == Kind::End
    }

    fn select_item(&mut self) -> Option<()> {
        if self.eat(Kind::Asterisk) {
            self.items.push(Item::All);
            return Some(());
        }
        if self.kind().is_identifier() && self.following() == Kind::Dot {
            let mut ahead = self.cursor.lexer;
            if ahead.next().kind == Kind::Asterisk {
                self.advance();
                self.advance();
                self.advance();
                self.items.push(Item::All);
                return Some(());
            }
        }
        let start = self.cursor.current.start;
        let shape = self.expression()?;
        if self.kind() == Kind::Arrow {
            self.items.push(Item::Several);
            self.advance();
            self.expect(Kind::Asterisk)?;
            return (self.last_primary == start).then_some(());
        }
        self.items.push(Item::of(shape));
        self.alias().map(drop)
    }

    /// `AS name`, `name`, or nothing.
    fn alias(&mut self) -> Option<Option<Token>> {
        if self.eat_word(Word::As) { self.identifier().map(Some) } else { Some(self.identifier()) }
    }

    /// A source with its alias. `EMIT` and `PARTITION` are aliases unless they begin a clause.
    pub(super) fn relation(&mut self) -> Option<(Option<Token>, Option<Token>)> {
        let source = self.identifier()?;
        let clause = matches!(
            (self.kind(), self.following()),
            (Kind::Word(Word::Emit), Kind::Word(Word::Changes | Word::Final))
                | (Kind::Word(Word::Partition), Kind::Word(Word::By))
        );
        let alias = if clause { None } else { self.alias()? };
        Some((Some(source), alias))
    }

    fn where_clause(&mut self, scope: Option<Token>) -> Option<Option<Shape<'a>>> {
        if !self.eat_word(Word::Where) {
            return Some(None);
        }
        self.scope = scope.and_then(|token| self.name(token));
        self.filtering = true;
        let filter = self.expression()?;
        self.filtering = false;
        Some(Some(filter))
    }

    fn grouping(&mut self) -> Option<bool> {
        let mut found = false;
        for word in [Word::Group, Word::Partition] {
            if self.eat_word(word) {
                self.expect_word(Word::By)?;
                self.values()?;
                found = true;
            }
        }
        if self.eat_word(Word::Having) {
            self.expression()?;
            found = true;
        }
        Some(found)
    }

    fn emit_clause(&mut self) -> Option<bool> {
        if !self.eat_word(Word::Emit) {
            return Some(false);
        }
        (self.eat_word(Word::Changes) || self.eat_word(Word::Final)).then_some(true)
    }

    /// `LIMIT n`, which the server reads as a 32-bit integer without a sign.
    fn limit_clause(&mut self) -> Option<Option<u64>> {
        if !self.eat_word(Word::Limit) {
            return Some(None);
        }
        let token = self.advance();
        let limit = if token.kind == Kind::Integer { self.text(token).parse::<u64>().ok()? } else { return None };
        (limit <= u64::from(i32::MAX.unsigned_abs())).then_some(Some(limit))
    }
}
