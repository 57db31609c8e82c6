//! Boolean expressions: OR, AND, NOT and predicates.

use super::filter::Shape;
use super::parser::Parser;
use super::token::{Kind, Token};
use super::word::Word;
use smallvec::SmallVec;

impl<'a> Parser<'a> {
    /// Any expression.
    pub(super) fn expression(&mut self) -> Option<Shape<'a>> {
        self.nested(Self::disjunction)
    }

    fn disjunction(&mut self) -> Option<Shape<'a>> {
        let mut left = self.conjunction()?;
        while self.eat_word(Word::Or) {
            let right = self.conjunction()?;
            left = self.either(left, right);
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Shape<'a>> {
        let mut left = self.negation()?;
        while self.eat_word(Word::And) {
            let right = self.negation()?;
            left = self.both(left, right);
        }
        Some(left)
    }

    fn negation(&mut self) -> Option<Shape<'a>> {
        let mut negated = false;
        while self.eat_word(Word::Not) {
            negated = true;
        }
        let shape = self.predicate()?;
        Some(if negated { Shape::Other } else { shape })
    }

    fn predicate(&mut self) -> Option<Shape<'a>> {
        let left = self.value()?;
        match self.kind() {
            operator @ (Kind::Equal
            | Kind::NotEqual
            | Kind::Less
            | Kind::LessOrEqual
            | Kind::Greater
            | Kind::GreaterOrEqual) => {
                self.advance();
                let right = self.value()?;
                self.doubt_if(matches!(left, Shape::Null) || matches!(right, Shape::Null));
                if operator == Kind::Equal {
                    self.note_equality(left, right);
                }
                Some(self.comparison(left, operator, right))
            }
            Kind::Word(Word::Is) => self.is_predicate(),
            Kind::Word(Word::In) => self.in_list(left),
            Kind::Word(Word::Not) => {
                self.advance();
                match self.kind() {
                    Kind::Word(Word::In) => self.in_list(Shape::Other),
                    _ => self.range_or_pattern(),
                }
            }
            Kind::Word(Word::Between | Word::Like) => self.range_or_pattern(),
            _ => Some(left),
        }
    }

    /// `IS [NOT] NULL` and `IS [NOT] DISTINCT FROM value`.
    fn is_predicate(&mut self) -> Option<Shape<'a>> {
        self.expect_word(Word::Is)?;
        self.eat_word(Word::Not);
        if !self.eat_word(Word::Null) {
            self.expect_word(Word::Distinct)?;
            self.expect_word(Word::From)?;
            self.value()?;
            self.equalities.unclear |= self.filtering;
        }
        Some(Shape::Other)
    }

    /// `BETWEEN low AND high` and `LIKE pattern [ESCAPE string]`.
    fn range_or_pattern(&mut self) -> Option<Shape<'a>> {
        if self.eat_word(Word::Between) {
            self.value()?;
            self.expect_word(Word::And)?;
            self.value()?;
        } else {
            self.expect_word(Word::Like)?;
            self.value()?;
            if self.eat_word(Word::Escape) {
                self.expect(Kind::String)?;
            }
        }
        Some(Shape::Other)
    }

    /// `IN (expressions)`. The server looks the values up, so that a filter by columns or by NULL is refused.
    fn in_list(&mut self, left: Shape<'a>) -> Option<Shape<'a>> {
        self.expect_word(Word::In)?;
        self.expect(Kind::Open)?;
        let mut literals: SmallVec<[(usize, Token); 4]> = SmallVec::new();
        let mut plain = true;
        self.list(|p| {
            let columns = p.columns;
            let element = p.expression()?;
            p.doubt_if(p.columns > columns || matches!(element, Shape::Null));
            match element {
                Shape::Literal(start, token) => literals.push((start, token)),
                _ => plain = false,
            }
            Some(())
        })?;
        self.expect(Kind::Close)?;
        self.note_equality(left, Shape::Other);
        match left {
            Shape::Column(column) if plain => Some(self.alternatives(column, &literals)),
            _ => Some(Shape::Other),
        }
    }

    /// Notes that the server may refuse the WHERE that is being read.
    fn doubt_if(&mut self, condition: bool) {
        self.doubtful |= condition && self.filtering;
    }
}
