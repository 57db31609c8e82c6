//! Tokens -> statements.

use super::{Expression, Placed, Token, tokens};
use crate::emulator::datum::Datum;

/// The EMIT clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Emit {
    None,
    Changes,
}

/// A SELECT.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Names of the columns with where they stand (in characters, from 1); empty for `*`.
    pub columns: Vec<(String, usize)>,
    /// The source.
    pub from: String,
    /// The WHERE clause.
    pub filter: Option<Expression>,
    /// The EMIT clause.
    pub emit: Emit,
    /// The LIMIT.
    pub limit: Option<usize>,
}

/// An `INSERT INTO ... VALUES`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The stream or table.
    pub into: String,
    /// The columns; empty for all.
    pub columns: Vec<String>,
    /// The values.
    pub values: Vec<Datum>,
}

/// A statement as far as the emulator tells statements apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// SELECT.
    Select(Select),
    /// INSERT.
    Insert(Insert),
    /// Anything else, as its tokens.
    Other(Vec<Token>),
}

/// The statements of a text with the text of each, or the server's message for a text it cannot read.
pub fn parse_all(text: &str) -> Result<Vec<(String, Statement)>, String> {
    let placed = tokens(text).ok_or_else(|| "line 1:1: Syntax Error\nExpecting statement".to_owned())?;
    let chars: Vec<char> = text.chars().collect();
    let mut statements = Vec::new();
    let mut rest = placed.as_slice();
    while !rest.is_empty() {
        let end = rest.iter().position(|p| p.token == Token::Symbol(";"));
        let Some(end) = end else {
            return Err(format!("line 1:{}: Syntax Error\nmissing ';' at '<EOF>'", chars.len() + 1));
        };
        let (statement, after) = (rest.get(..end).unwrap_or_default(), rest.get(end + 1..).unwrap_or_default());
        if let (Some(first), Some(last)) = (statement.first(), rest.get(end)) {
            let source: String = chars.get(first.at..=last.at).unwrap_or_default().iter().collect();
            statements.push((source, parse(statement)?));
        }
        rest = after;
    }
    Ok(statements)
}

fn parse(tokens: &[Placed]) -> Result<Statement, String> {
    let mut parser = Parser { tokens, next: 0 };
    let first = match parser.peek() {
        Some(Token::Word(word)) => word.clone(),
        _ => String::new(),
    };
    let read = match first.as_str() {
        "SELECT" => parser.select().map(Statement::Select),
        "INSERT" => parser.insert().map(Statement::Insert),
        word if OTHERS.contains(&word) => {
            return Ok(Statement::Other(tokens.iter().map(|p| p.token.clone()).collect()));
        }
        word => return Err(unknown_statement(word, tokens.first().map_or(0, |p| p.at))),
    };
    match read {
        Some(statement) if parser.next == tokens.len() => Ok(statement),
        _ => {
            let at = tokens.get(parser.next.min(tokens.len().saturating_sub(1))).map_or(0, |p| p.at) + 1;
            Err(format!("line 1:{at}: Syntax Error\nSyntax error at or near the marked place"))
        }
    }
}

const OTHERS: [&str; 18] = [
    "SHOW",
    "LIST",
    "DESCRIBE",
    "EXPLAIN",
    "CREATE",
    "DROP",
    "TERMINATE",
    "PRINT",
    "SET",
    "UNSET",
    "DEFINE",
    "UNDEFINE",
    "ALTER",
    "PAUSE",
    "RESUME",
    "ASSERT",
    "RUN",
    "EXIT",
];

fn unknown_statement(word: &str, at: usize) -> String {
    let near = |known: &&&str| strsim::levenshtein(known, word) <= 2;
    let hint = ["SELECT", "INSERT"].iter().chain(&OTHERS).find(near);
    let hint = hint.map_or(String::new(), |known| format!("\nDid you mean '{known}'?"));
    format!("line 1:{}: Syntax Error\nUnknown statement '{word}'{hint}", at + 1)
}

pub(super) struct Parser<'a> {
    tokens: &'a [Placed],
    pub(super) next: usize,
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|p| &p.token)
    }

    pub(super) fn take(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += usize::from(token.is_some());
        token
    }

    pub(super) fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        self.next += usize::from(found);
        found
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.next += usize::from(found);
        found
    }

    pub(super) fn name(&mut self) -> Option<String> {
        match self.take()? {
            Token::Word(name) | Token::Quoted(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn column(&mut self) -> Option<String> {
        let name = self.name()?;
        if self.symbol(".") { self.name() } else { Some(name) }
    }

    fn select(&mut self) -> Option<Select> {
        self.next += 1;
        let mut columns = Vec::new();
        if !self.symbol("*") {
            loop {
                let at = self.tokens.get(self.next)?.at + 1;
                columns.push((self.column()?, at));
                if !self.symbol(",") {
                    break;
                }
            }
        }
        let from = self.word("FROM").then(|| self.name())??;
        self.alias();
        let filter = if self.word("WHERE") { Some(self.or()?) } else { None };
        let emit = match self.word("EMIT") {
            true => self.word("CHANGES").then_some(Emit::Changes)?,
            false => Emit::None,
        };
        let limit = match (self.word("LIMIT"), self.peek()) {
            (true, Some(Token::Number(n))) => Some(n.parse().ok()?),
            (true, _) => return None,
            (false, _) => None,
        };
        self.next += usize::from(limit.is_some());
        Some(Select { columns, from, filter, emit, limit })
    }

    fn alias(&mut self) {
        let spelled = self.word("AS");
        let clause = |w: &str| matches!(w, "WHERE" | "EMIT" | "LIMIT");
        match self.peek() {
            Some(Token::Word(w)) if spelled || !clause(w) => self.next += 1,
            Some(Token::Quoted(_)) => self.next += 1,
            _ => {}
        }
    }

    fn insert(&mut self) -> Option<Insert> {
        self.next += 1;
        let into = self.word("INTO").then(|| self.name())??;
        let mut columns = Vec::new();
        if self.symbol("(") {
            loop {
                columns.push(self.name()?);
                if !self.symbol(",") {
                    break;
                }
            }
            self.symbol(")").then_some(())?;
        }
        self.word("VALUES").then_some(())?;
        self.symbol("(").then_some(())?;
        let mut values = Vec::new();
        loop {
            values.push(self.literal()?);
            if !self.symbol(",") {
                break;
            }
        }
        self.symbol(")").then_some(Insert { into, columns, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(text: &str) -> Select {
        match parse_all(text).unwrap().pop().unwrap().1 {
            Statement::Select(select) => select,
            other => panic!("{other:?}"),
        }
    }

    fn keys(text: &str) -> Option<Vec<Vec<Datum>>> {
        select(text).filter.and_then(|f| f.keys(&["K"]))
    }

    #[test]
    fn keys_are_found_in_every_shape_that_the_servers_take() {
        let one = Some(vec![vec![Datum::Int(3)]]);
        for condition in [
            "K=3",
            "3=K",
            "(K=3)",
            "K=1+2",
            "K=CAST('3' AS INT)",
            "K IN (3)",
            "K=3 AND WINDOWSTART>5",
            "T.K=3",
            "`K`=3",
        ] {
            assert_eq!(keys(&format!("select * from t where {condition} limit 1;")), one, "{condition}");
        }
        assert_eq!(keys("SELECT * FROM T WHERE K=1 OR K=2;").map(|k| k.len()), Some(2));
        assert_eq!(keys("SELECT * FROM T WHERE K=1 OR V=2;"), None);
        assert_eq!(keys("SELECT * FROM T WHERE K>1;"), None);
    }

    #[test]
    fn statements_end_with_a_semicolon_and_strings_and_comments_may_hold_one() {
        let texts: Vec<String> = parse_all("SHOW TABLES; -- a;b\nSELECT * FROM T WHERE K='x;''y'; /* ; */")
            .unwrap()
            .into_iter()
            .map(|s| s.0)
            .collect();
        assert_eq!(texts, ["SHOW TABLES;", "SELECT * FROM T WHERE K='x;''y';"]);
        assert!(parse_all("SHOW TABLES").unwrap_err().contains("missing ';' at '<EOF>'"));
        assert!(parse_all("SELECT * FROM T WHERE K='x;").is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "SELECT * FROM T WHERE;",
            "SELECT * FROM T LIMIT x;",
            "SELECT FROM T;",
            "SELECT * FROM T WHERE K=;",
            "FOO;",
        ] {
            assert!(parse_all(text).is_err(), "{text}");
        }
    }
}
