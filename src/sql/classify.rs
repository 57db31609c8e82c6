//! What was recognised -> the class of a statement.

use super::filter::Shape;
use super::parser::Parser;
use super::query::Query;
use super::token::Kind;
use super::word::{Word, begins_other_statement};
use super::{Class, Equalities, Selection, Statement};
use memchr::memmem;
use smallvec::SmallVec;

/// Tells what kind of statement a request's text is, and for a lookup, by which keys.
///
/// Takes linear time and bounded stack for any text; allocates only for strings with a doubled quote and for lookups of more
/// than two keys or window bounds.
///
/// ```
/// use ksqldb_sidecar::sql::{Class, classify};
///
/// let statement = classify("SELECT * FROM ITEMS WHERE CODE = '17';");
/// assert_eq!(statement.class, Class::Lookup);
/// assert_eq!(statement.keys[0].literal.text, "'17'");
/// assert_eq!(classify("SELECT * FROM ITEMS EMIT CHANGES;").class, Class::Push);
/// ```
pub fn classify(text: &str) -> Statement<'_> {
    let mut parser = Parser::new(text);
    if parser.kind() != Kind::Word(Word::Select) {
        return Statement::of(others(&mut parser));
    }
    let variables = memmem::find(text.as_bytes(), b"${").is_some();
    // the server replaces variables in the text: one with a default value can take a quote or a comment apart
    if variables && memmem::find(text.as_bytes(), b":-").is_some() {
        return Statement::of(Class::Unsure);
    }
    match parser.query() {
        Some(query) if parser.ends() => selected(query, parser, variables),
        _ => Statement::of(Class::Unsure),
    }
}

/// The class of a SELECT that is alone in its text.
fn selected<'a>(query: Query<'a>, parser: Parser<'a>, variables: bool) -> Statement<'a> {
    if query.emit {
        return Statement::of(Class::Push);
    }
    if query.streaming || parser.doubtful {
        return Statement::of(Class::Unsure);
    }
    let (selection, mut equalities) = match variables {
        true => (Selection::Unclear, Equalities::default()),
        false => (Selection::of(parser.items), parser.equalities),
    };
    equalities.unclear |= variables;
    let pull =
        Statement { source: query.source, limit: query.limit, selection, equalities, ..Statement::of(Class::Pull) };
    let Some(Shape::Filter(filter)) = query.filter else { return pull };
    // a lookup that may give no row whatever the store holds proves nothing by giving none
    if variables || filter.keys == 0 || query.limit == Some(0) {
        return pull;
    }
    let class = match filter.keys {
        1 => Class::Lookup,
        _ if filter.alternatives => Class::LookupMany,
        _ => Class::LookupMultiColumn,
    };
    Statement { class, keys: parser.keys, windows: parser.windows, ..pull }
}

/// The class of a text that does not begin with SELECT: known statements, each ended by `;` or the text, and no SELECT.
fn others(parser: &mut Parser<'_>) -> Class {
    loop {
        let first = parser.advance();
        if !matches!(first.kind, Kind::Word(_)) || !begins_other_statement(parser.text(first)) {
            return Class::Unsure;
        }
        loop {
            match parser.kind() {
                Kind::End => return Class::Other,
                Kind::Unrecognised => return Class::Unsure,
                _ => {}
            }
            if parser.advance().kind == Kind::Semicolon {
                break;
            }
        }
        if parser.kind() == Kind::End {
            return Class::Other;
        }
    }
}

impl Statement<'_> {
    /// A statement of which only the class is known.
    fn of(class: Class) -> Self {
        Statement {
            class,
            source: None,
            keys: SmallVec::new(),
            windows: SmallVec::new(),
            limit: None,
            selection: Selection::Unclear,
            equalities: Equalities::default(),
        }
    }
}
