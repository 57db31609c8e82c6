//! Calls with their lambdas, the constructors that look like calls, and types.

use super::filter::Shape;
use super::parser::{Cursor, Parser};
use super::token::{Kind, Token};
use super::word::Word;

/// What separates the parts of an argument, the same for all arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    /// `expression`, or a unit of time.
    Plain,
    /// `name := expression` or `expression := expression`: STRUCT and MAP.
    Assigned,
    /// `parameters => expression`: only after a plain argument.
    Lambda,
}

impl<'a> Parser<'a> {
    /// The bracketed arguments of a call.
    pub(super) fn call(&mut self, function: Token) -> Option<Shape<'a>> {
        self.expect(Kind::Open)?;
        if self.kind() == Kind::Asterisk && self.following() == Kind::Close {
            self.advance();
        } else if self.kind() != Kind::Close {
            let mut previous = None;
            self.list(|p| {
                let argument = p.argument(function)?;
                let allowed = match (previous, argument) {
                    (None, Argument::Lambda) => false,
                    (None, _) => true,
                    (Some(previous), argument) => {
                        previous == argument || (previous == Argument::Plain && argument == Argument::Lambda)
                    }
                };
                previous = Some(argument);
                allowed.then_some(())
            })?;
        }
        self.expect(Kind::Close)?;
        Some(Shape::Other)
    }

    fn argument(&mut self, function: Token) -> Option<Argument> {
        if let Some(body) = self.lambda_body() {
            self.cursor = body;
            self.expression()?;
            return Some(Argument::Lambda);
        }
        if self.eat_word(Word::ReservedUnit) {
            return Some(Argument::Plain);
        }
        let assigns = match function.kind {
            Kind::Word(Word::Struct) if self.kind().is_identifier() && self.following() == Kind::Assign => {
                self.advance();
                true
            }
            Kind::Word(Word::Map) => {
                self.expression()?;
                if self.kind() != Kind::Assign {
                    return Some(Argument::Plain);
                }
                true
            }
            _ => false,
        };
        if assigns {
            self.expect(Kind::Assign)?;
        }
        self.expression()?;
        Some(if assigns { Argument::Assigned } else { Argument::Plain })
    }

    /// Looks ahead for `name =>` or `(name, ...) =>`; where the lambda's body begins.
    ///
    /// Where it is no lambda, a few tokens at most were looked at, or the text is invalid: no other argument has names with
    /// commas between them in brackets.
    fn lambda_body(&mut self) -> Option<Cursor<'a>> {
        let start = self.cursor;
        let parameters = if self.eat(Kind::Open) {
            self.list(|p| p.identifier().map(drop)).and_then(|()| self.expect(Kind::Close))
        } else {
            self.identifier().map(drop)
        };
        let body = parameters.and_then(|()| self.expect(Kind::Lambda)).map(|()| self.cursor);
        self.cursor = start;
        body
    }

    /// A type, as CAST takes it.
    pub(super) fn type_name(&mut self) -> Option<()> {
        self.nested(Self::base_type)?;
        while self.eat_word(Word::Array) {}
        Some(())
    }

    fn base_type(&mut self) -> Option<()> {
        match (self.kind(), self.following()) {
            (Kind::Word(word @ (Word::Array | Word::Map | Word::Struct)), Kind::Less) => {
                self.advance();
                self.advance();
                match word {
                    Word::Struct if self.kind() == Kind::Greater => {}
                    Word::Struct => self.list(|p| {
                        p.identifier()?;
                        p.type_name()
                    })?,
                    Word::Map => {
                        self.type_name()?;
                        self.expect(Kind::Comma)?;
                        self.type_name()?;
                    }
                    _ => self.type_name()?,
                }
                self.expect(Kind::Greater)
            }
            (Kind::Word(Word::Decimal), _) => {
                self.advance();
                self.expect(Kind::Open)?;
                self.number()?;
                self.expect(Kind::Comma)?;
                self.number()?;
                self.expect(Kind::Close)
            }
            _ => {
                self.identifier()?;
                if !self.eat(Kind::Open) {
                    return Some(());
                }
                self.list(|p| (p.eat(Kind::Integer) || p.eat_word(Word::StringType)).then_some(()))?;
                self.expect(Kind::Close)
            }
        }
    }
}
