//! Value expressions: arithmetic, literals, columns, calls, constructors, casts and types.
//!
//! Operators of all precedences are read in one flat loop: which texts are values does not depend on precedence, and what
//! an operator makes is [`Shape::Other`] in any case.

use super::filter::{Shape, same_name};
use super::parser::Parser;
use super::token::{Kind, Token};
use super::word::Word;

impl<'a> Parser<'a> {
    /// A value expression.
    pub(super) fn value(&mut self) -> Option<Shape<'a>> {
        let mut shape = self.operand()?;
        loop {
            match self.kind() {
                Kind::Asterisk | Kind::Slash | Kind::Percent | Kind::Plus | Kind::Minus | Kind::Concat => {
                    self.advance();
                    self.operand()?;
                }
                Kind::Word(Word::At) => {
                    self.advance();
                    self.expect_word(Word::Time)?;
                    self.expect_word(Word::Zone)?;
                    self.expect(Kind::String)?;
                }
                _ => return Some(shape),
            }
            shape = Shape::Other;
        }
    }

    /// Signs and a primary expression; one minus and a number are a literal.
    fn operand(&mut self) -> Option<Shape<'a>> {
        let start = self.cursor.current.start;
        let mut signs = 0_usize;
        let mut negative = false;
        while let sign @ (Kind::Plus | Kind::Minus) = self.kind() {
            negative = sign == Kind::Minus;
            signs = signs.saturating_add(1);
            self.advance();
        }
        let first = self.cursor.current;
        if !self.in_range(first, negative) {
            return None;
        }
        match self.primary()? {
            shape if signs == 0 => Some(shape),
            Shape::Literal(_, number) if signs == 1 && negative && number == first && is_number(first.kind) => {
                Some(Shape::Literal(start, number))
            }
            _ => Some(Shape::Other),
        }
    }

    /// Whether a number is one that the server can read: an integer of 64 bits, or a finite floating-point number.
    fn in_range(&self, token: Token, negative: bool) -> bool {
        let text = self.text(token);
        match token.kind {
            Kind::Integer => {
                text.parse::<u64>().is_ok_and(|number| number <= i64::MAX.unsigned_abs() + u64::from(negative))
            }
            Kind::Float => text.parse::<f64>().is_ok_and(f64::is_finite),
            _ => true,
        }
    }

    /// A primary expression with what follows it directly: `[index]` and `->field`, but not `->*`.
    fn primary(&mut self) -> Option<Shape<'a>> {
        let start = self.cursor.current.start;
        let mut shape = self.unit()?;
        loop {
            if self.eat(Kind::OpenSquare) {
                self.nested(Self::value)?;
                self.expect(Kind::CloseSquare)?;
            } else if self.kind() == Kind::Arrow && self.following() != Kind::Asterisk {
                self.advance();
                self.identifier()?;
            } else {
                self.last_primary = start;
                return Some(shape);
            }
            shape = Shape::Other;
        }
    }

    fn unit(&mut self) -> Option<Shape<'a>> {
        let token = self.cursor.current;
        match token.kind {
            Kind::Open => {
                self.advance();
                let inner = self.expression()?;
                self.expect(Kind::Close)?;
                Some(inner)
            }
            Kind::String | Kind::Word(Word::True | Word::False) => {
                self.advance();
                Some(Shape::Literal(token.start, token))
            }
            kind if is_number(kind) => {
                self.advance();
                Some(Shape::Literal(token.start, token))
            }
            Kind::Word(Word::Null) => {
                self.advance();
                Some(Shape::Null)
            }
            Kind::Word(Word::Case) => self.nested(Self::case),
            Kind::Word(Word::Cast) => self.cast(),
            Kind::Word(Word::Array) if self.following() == Kind::OpenSquare => self.array(),
            _ => self.named(),
        }
    }

    /// What begins with a name: a typed literal, a call, or a column with or without the name of its source.
    fn named(&mut self) -> Option<Shape<'a>> {
        let first = self.identifier()?;
        match self.kind() {
            Kind::String => {
                self.advance();
                return Some(Shape::Other);
            }
            Kind::Open => return self.nested(|p| p.call(first)),
            _ => {}
        }
        self.columns = self.columns.saturating_add(1);
        if self.kind() != Kind::Dot || !self.following().is_identifier() {
            return Some(self.name(first).map_or(Shape::Other, Shape::Column));
        }
        self.advance();
        let column = self.identifier()?;
        match (self.scope, self.name(first), self.name(column)) {
            (Some(scope), Some(qualifier), Some(column)) if same_name(scope, qualifier) => Some(Shape::Column(column)),
            // in the select list, which stands before the source
            (None, Some(_), Some(column)) if !self.filtering => Some(Shape::Column(column)),
            _ => Some(Shape::Other),
        }
    }

    fn case(&mut self) -> Option<Shape<'a>> {
        self.expect_word(Word::Case)?;
        if self.kind() != Kind::Word(Word::When) {
            self.value()?;
        }
        self.expect_word(Word::When)?;
        loop {
            self.expression()?;
            self.expect_word(Word::Then)?;
            self.expression()?;
            if !self.eat_word(Word::When) {
                break;
            }
        }
        if self.eat_word(Word::Else) {
            self.expression()?;
        }
        self.expect_word(Word::End)?;
        Some(Shape::Other)
    }

    fn array(&mut self) -> Option<Shape<'a>> {
        self.expect_word(Word::Array)?;
        self.expect(Kind::OpenSquare)?;
        if self.kind() != Kind::CloseSquare {
            self.list(|p| p.expression().map(drop))?;
        }
        self.expect(Kind::CloseSquare)?;
        Some(Shape::Other)
    }

    fn cast(&mut self) -> Option<Shape<'a>> {
        self.expect_word(Word::Cast)?;
        self.expect(Kind::Open)?;
        self.expression()?;
        self.expect_word(Word::As)?;
        self.type_name()?;
        self.expect(Kind::Close)?;
        Some(Shape::Other)
    }
}

fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Integer | Kind::Decimal | Kind::Float)
}
