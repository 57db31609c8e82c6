//! The clauses that only push queries have: JOIN, WINDOW, and what follows GROUP BY and PARTITION BY.

use super::parser::Parser;
use super::token::Kind;
use super::word::Word;

impl Parser<'_> {
    /// Any number of joined sources; whether there was one.
    pub(super) fn joins(&mut self) -> Option<bool> {
        let mut found = false;
        loop {
            let outer = self.eat_word(Word::Full) || self.eat_word(Word::Left) || self.eat_word(Word::Right);
            if outer {
                self.eat_word(Word::Outer);
            }
            let typed = outer || self.eat_word(Word::Inner);
            if !self.eat_word(Word::Join) {
                return (!typed).then_some(found);
            }
            self.relation()?;
            self.within()?;
            self.expect_word(Word::On)?;
            self.expression()?;
            found = true;
        }
    }

    fn within(&mut self) -> Option<()> {
        if !self.eat_word(Word::Within) {
            return Some(());
        }
        if self.eat(Kind::Open) {
            self.span()?;
            self.expect(Kind::Comma)?;
            self.span()?;
            self.expect(Kind::Close)?;
        } else {
            self.span()?;
        }
        if self.kind() == Kind::Word(Word::Grace) { self.grace() } else { Some(()) }
    }

    /// `WINDOW [name] TUMBLING|HOPPING|SESSION (...)`; whether there was one.
    pub(super) fn window_clause(&mut self) -> Option<bool> {
        if !self.eat_word(Word::Window) {
            return Some(false);
        }
        self.eat_word(Word::Plain);
        let Kind::Word(word) = self.advance().kind else { return None };
        self.expect(Kind::Open)?;
        match word {
            Word::Tumbling => self.size()?,
            Word::Hopping => {
                self.size()?;
                self.expect(Kind::Comma)?;
                self.expect_word(Word::Advance)?;
                self.expect_word(Word::By)?;
                self.span()?;
            }
            Word::Session => self.span()?,
            _ => return None,
        }
        let mut more = self.eat(Kind::Comma);
        if more && self.eat_word(Word::Retention) {
            self.span()?;
            more = self.eat(Kind::Comma);
        }
        if more {
            self.grace()?;
        }
        self.expect(Kind::Close)?;
        Some(true)
    }

    fn size(&mut self) -> Option<()> {
        self.expect_word(Word::Size)?;
        self.span()
    }

    fn grace(&mut self) -> Option<()> {
        self.expect_word(Word::Grace)?;
        self.expect_word(Word::Period)?;
        self.span()
    }

    /// A number and a unit of time.
    fn span(&mut self) -> Option<()> {
        self.number()?;
        matches!(self.advance().kind, Kind::Word(Word::Unit | Word::ReservedUnit)).then_some(())
    }

    /// A number with an optional minus.
    pub(super) fn number(&mut self) -> Option<()> {
        self.eat(Kind::Minus);
        matches!(self.advance().kind, Kind::Integer | Kind::Decimal | Kind::Float).then_some(())
    }

    /// What GROUP BY and PARTITION BY take: values, or a bracketed list of them that may be empty.
    pub(super) fn values(&mut self) -> Option<()> {
        let start = self.cursor;
        if self.eat(Kind::Open) {
            let listed = self.kind() == Kind::Close || self.nested(|p| p.list(|p| p.value().map(drop))).is_some();
            if listed && self.eat(Kind::Close) && self.at_clause_end() {
                return Some(());
            }
            self.cursor = start;
        }
        self.list(|p| p.value().map(drop))
    }

    fn at_clause_end(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Semicolon | Kind::End | Kind::Word(Word::Partition | Word::Having | Word::Emit | Word::Limit)
        )
    }
}
