//! WHERE clauses: their evaluation, and the keys that they ask for.

use crate::emulator::datum::Datum;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How two operands are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The name in the server's error texts.
    pub fn name(self) -> &'static str {
        match self {
            Comparison::Equal => "EQUAL",
            Comparison::NotEqual => "NOT_EQUAL",
            Comparison::Less => "LESS_THAN",
            Comparison::LessOrEqual => "LESS_THAN_OR_EQUAL",
            Comparison::Greater => "GREATER_THAN",
            Comparison::GreaterOrEqual => "GREATER_THAN_OR_EQUAL",
        }
    }

    /// The operator as the server prints it.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The same comparison with its sides exchanged.
    pub fn turned(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// Whether an ordering satisfies it.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Operand {
    Column(String),
    Literal(Datum),
}

/// A WHERE clause; comparisons have their column on the left-hand side.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Expression {
    Compare(String, Comparison, Datum),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
}

/// The most alternatives that are looked for keys; more are a scan.
const MAX_ALTERNATIVES: usize = 10_000;

impl Expression {
    /// Whether a row satisfies the clause; a comparison with an unknown value does not hold.
    pub fn holds(&self, column: &impl Fn(&str) -> Datum) -> bool {
        match self {
            Expression::Compare(name, comparison, literal) => {
                column(name).order(literal).is_some_and(|o| comparison.holds(o))
            }
            Expression::And(a, b) => a.holds(column) && b.holds(column),
            Expression::Or(a, b) => a.holds(column) || b.holds(column),
            Expression::Not(a) => !a.holds(column),
        }
    }

    /// Visits every comparison and may change its literal.
    pub fn comparisons<E>(
        &mut self,
        visit: &mut impl FnMut(&str, Comparison, &mut Datum) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Expression::Compare(name, comparison, literal) => visit(name, *comparison, literal),
            Expression::And(a, b) | Expression::Or(a, b) => a.comparisons(visit).and_then(|()| b.comparisons(visit)),
            Expression::Not(a) => a.comparisons(visit),
        }
    }

    /// The keys asked for, if every alternative gives an equality for each of `columns`.
    pub fn keys(&self, columns: &[&str]) -> Option<Vec<Vec<Datum>>> {
        let mut keys = Vec::new();
        for alternative in self.alternatives() {
            let key: Option<Vec<Datum>> = columns.iter().map(|c| alternative.get(*c).cloned()).collect();
            let key = key?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Some(keys)
    }

    /// The lower bound of a range over `column`, if the clause is just that.
    pub fn lower_bound(&self, column: &str) -> Option<&Datum> {
        match self {
            Expression::Compare(name, Comparison::Greater | Comparison::GreaterOrEqual, literal) if name == column => {
                Some(literal)
            }
            Expression::And(a, b) => a.lower_bound(column).or_else(|| b.lower_bound(column)),
            _ => None,
        }
    }

    fn alternatives(&self) -> Vec<BTreeMap<&str, Datum>> {
        match self {
            Expression::Compare(name, Comparison::Equal, literal) => {
                vec![BTreeMap::from([(name.as_str(), literal.clone())])]
            }
            Expression::Or(a, b) => {
                let mut all = a.alternatives();
                all.extend(b.alternatives());
                all
            }
            Expression::And(a, b) => {
                let (left, right) = (a.alternatives(), b.alternatives());
                if left.len().saturating_mul(right.len()) > MAX_ALTERNATIVES {
                    return vec![BTreeMap::new()];
                }
                let mut all = Vec::new();
                for l in &left {
                    for r in &right {
                        let mut both = l.clone();
                        both.extend(r.iter().map(|(k, v)| (*k, v.clone())));
                        all.push(both);
                    }
                }
                all
            }
            _ => vec![BTreeMap::new()],
        }
    }
}
