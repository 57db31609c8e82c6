//! Tokens -> WHERE clauses and literals.

use super::parser::Parser;
use super::{Comparison, Expression, Operand, Token};
use crate::emulator::datum::Datum;

impl Parser<'_> {
    pub(super) fn or(&mut self) -> Option<Expression> {
        let mut left = self.and()?;
        while self.word("OR") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Expression> {
        let mut left = self.predicate()?;
        while self.word("AND") {
            left = Expression::And(Box::new(left), Box::new(self.predicate()?));
        }
        Some(left)
    }

    fn predicate(&mut self) -> Option<Expression> {
        if self.word("NOT") {
            return self.predicate().map(|p| Expression::Not(Box::new(p)));
        }
        let start = self.next;
        if self.symbol("(") {
            if let Some(inner) = self.or().filter(|_| self.symbol(")")) {
                return Some(inner);
            }
            self.next = start;
        }
        match (self.operand()?, self.word("IN"), self.word("BETWEEN")) {
            (Operand::Column(name), true, _) => self.in_list(&name),
            (Operand::Column(name), _, true) => {
                let low = Expression::Compare(name.clone(), Comparison::GreaterOrEqual, self.literal()?);
                let high = self.word("AND").then(|| self.literal())??;
                Some(Expression::And(Box::new(low), Box::new(Expression::Compare(name, Comparison::LessOrEqual, high))))
            }
            (left, false, false) => {
                let comparison = self.comparison()?;
                match (left, self.operand()?) {
                    (Operand::Column(name), Operand::Literal(value)) => {
                        Some(Expression::Compare(name, comparison, value))
                    }
                    (Operand::Literal(value), Operand::Column(name)) => {
                        Some(Expression::Compare(name, comparison.turned(), value))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn in_list(&mut self, name: &str) -> Option<Expression> {
        self.symbol("(").then_some(())?;
        let mut all = Expression::Compare(name.to_owned(), Comparison::Equal, self.literal()?);
        while self.symbol(",") {
            let next = Expression::Compare(name.to_owned(), Comparison::Equal, self.literal()?);
            all = Expression::Or(Box::new(all), Box::new(next));
        }
        self.symbol(")").then_some(all)
    }

    fn comparison(&mut self) -> Option<Comparison> {
        Some(match self.take()? {
            Token::Symbol("=") => Comparison::Equal,
            Token::Symbol("<>" | "!=") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    fn operand(&mut self) -> Option<Operand> {
        if self.symbol("(") {
            return self.operand().filter(|_| self.symbol(")"));
        }
        let literal_word = |w: &str| matches!(w, "TRUE" | "FALSE" | "NULL" | "STRUCT" | "CAST");
        match self.peek()? {
            Token::Word(w) if !literal_word(w) => self.column().map(Operand::Column),
            Token::Quoted(_) => self.column().map(Operand::Column),
            _ => self.literal().map(Operand::Literal),
        }
    }

    /// A literal, or a constant sum or cast of literals.
    pub(super) fn literal(&mut self) -> Option<Datum> {
        let mut value = self.term()?;
        loop {
            let sign = match (self.symbol("+"), self.symbol("-")) {
                (true, _) => 1,
                (_, true) => -1,
                _ => return Some(value),
            };
            value = match (value, self.term()?) {
                (Datum::Int(a), Datum::Int(b)) => Datum::Int(a.wrapping_add(sign * b)),
                (Datum::String(a), Datum::String(b)) if sign > 0 => Datum::String(a + &b),
                _ => return None,
            };
        }
    }

    fn term(&mut self) -> Option<Datum> {
        if self.symbol("-") {
            return match self.term()? {
                Datum::Int(n) => Some(Datum::Int(n.wrapping_neg())),
                Datum::Decimal(x) => Some(Datum::Decimal(-x)),
                Datum::Double(x) => Some(Datum::Double(-x)),
                _ => None,
            };
        }
        match self.take()? {
            Token::Text(text) => Some(Datum::String(text)),
            Token::Number(n) if n.contains(['e', 'E']) => n.parse().ok().map(Datum::Double),
            Token::Number(n) if n.contains('.') => n.parse().ok().map(Datum::Decimal),
            Token::Number(n) => n.parse().ok().map(Datum::Int),
            Token::Word(w) if w == "TRUE" || w == "FALSE" => Some(Datum::Boolean(w == "TRUE")),
            Token::Word(w) if w == "NULL" => Some(Datum::Null),
            Token::Word(w) if w == "STRUCT" => self.structure(),
            Token::Word(w) if w == "CAST" => self.cast(),
            _ => None,
        }
    }

    fn structure(&mut self) -> Option<Datum> {
        self.symbol("(").then_some(())?;
        let mut fields = Vec::new();
        loop {
            let name = self.name()?;
            self.symbol(":=").then_some(())?;
            fields.push((name, self.literal()?));
            if !self.symbol(",") {
                return self.symbol(")").then_some(Datum::Struct(fields));
            }
        }
    }

    fn cast(&mut self) -> Option<Datum> {
        self.symbol("(").then_some(())?;
        let value = self.literal()?;
        let ty = self.word("AS").then(|| self.name())??;
        self.symbol(")").then_some(())?;
        match (value, ty.as_str()) {
            (Datum::String(s), "INT" | "INTEGER" | "BIGINT") => s.parse().ok().map(Datum::Int),
            (Datum::Int(n), "STRING" | "VARCHAR") => Some(Datum::String(n.to_string())),
            (Datum::Int(n), "DOUBLE") => Some(Datum::Double(n as f64)),
            (value, _) => Some(value),
        }
    }
}
