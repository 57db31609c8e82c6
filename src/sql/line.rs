//! One line of text -> one line that says how it is classified, for `ksqldb-sidecar classify`.

use super::{Comparison, LiteralKind, Statement, WindowEdge, classify};
use serde::Serialize;
use std::borrow::Cow;

/// Classifies the statement on a line, in which `\n`, `\t`, `\r` and `\\` are escaped, and says what was recognised.
///
/// The answer is the class, a tab, and a JSON object: `source`, `keys`, `windows` and `limit` as far as there are any.
///
/// ```
/// use ksqldb_sidecar::sql::explain_line;
///
/// let line = explain_line(r"SELECT * FROM items\nWHERE code = 17;");
/// let json = r#"{"source":"ITEMS","keys":[{"column":"CODE","type":"integer","literal":"17"}]}"#;
/// assert_eq!(line, format!("lookup\t{json}"));
/// ```
pub fn explain_line(line: &str) -> String {
    let text = unescape(line);
    let statement = classify(&text);
    // the object has neither maps nor numbers that JSON cannot hold
    let recognised = serde_json::to_string(&Recognised::of(&statement)).unwrap_or_else(|_| "{}".to_owned());
    format!("{}\t{recognised}", statement.class.as_str())
}

#[derive(Serialize)]
struct Recognised<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Key<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows: Vec<Bound<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Key<'a> {
    column: Cow<'a, str>,
    r#type: &'static str,
    literal: &'a str,
}

#[derive(Serialize)]
struct Bound<'a> {
    edge: &'static str,
    comparison: &'static str,
    literal: &'a str,
}

impl<'a> Recognised<'a> {
    fn of(statement: &Statement<'a>) -> Self {
        let keys = statement.keys.iter().map(|key| Key {
            column: key.column.metastore(),
            r#type: type_name(&key.literal.kind),
            literal: key.literal.text,
        });
        let windows = statement.windows.iter().map(|bound| Bound {
            edge: edge_name(bound.edge),
            comparison: sign(bound.comparison),
            literal: bound.literal.text,
        });
        Recognised {
            source: statement.source.map(|source| source.metastore()),
            keys: keys.collect(),
            windows: windows.collect(),
            limit: statement.limit,
        }
    }
}

fn type_name(kind: &LiteralKind<'_>) -> &'static str {
    match kind {
        LiteralKind::Integer => "integer",
        LiteralKind::Decimal => "decimal",
        LiteralKind::Float => "float",
        LiteralKind::String(_) => "string",
        LiteralKind::Boolean(_) => "boolean",
        LiteralKind::Struct(_) => "struct",
    }
}

fn edge_name(edge: WindowEdge) -> &'static str {
    match edge {
        WindowEdge::Start => "WINDOWSTART",
        WindowEdge::End => "WINDOWEND",
    }
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

/// Replaces `\n`, `\t`, `\r` and `\\`; any other backslash stays.
fn unescape(line: &str) -> Cow<'_, str> {
    if !line.contains('\\') {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        let replaced = match (c, rest.clone().next()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some('\\')) => '\\',
            _ => {
                text.push(c);
                continue;
            }
        };
        rest.next();
        text.push(replaced);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_is_told_in_full() {
        let line = "SELECT * FROM `Items` i WHERE i.code IN ('1','it''s') AND 12000 <= WindowStart AND windowend<'2020' LIMIT 5";
        let expected = concat!(
            "lookup-many\t{\"source\":\"Items\",\"keys\":[{\"column\":\"CODE\",\"type\":\"string\",\"literal\":\"'1'\"},",
            "{\"column\":\"CODE\",\"type\":\"string\",\"literal\":\"'it''s'\"}],",
            "\"windows\":[{\"edge\":\"WINDOWSTART\",\"comparison\":\">=\",\"literal\":\"12000\"},",
            "{\"edge\":\"WINDOWEND\",\"comparison\":\"<\",\"literal\":\"'2020'\"}],\"limit\":5}"
        );
        assert_eq!(explain_line(line), expected);
    }

    #[test]
    fn what_is_no_lookup_tells_its_source_at_most() {
        let table = [
            ("SELECT * FROM T;", "pull\t{\"source\":\"T\"}"),
            ("SELECT * FROM ${t} WHERE K=1;", "pull\t{}"),
            ("SELECT * FROM T EMIT CHANGES;", "push\t{}"),
            ("LIST STREAMS;", "other\t{}"),
            ("", "unsure\t{}"),
        ];
        for (line, expected) in table {
            assert_eq!(explain_line(line), expected, "{line}");
        }
    }

    #[test]
    fn only_the_four_escapes_are_replaced() {
        assert_eq!(unescape(r"a\nb\tc\rd\\e\\nf\x\"), "a\nb\tc\rd\\e\\nf\\x\\");
        assert!(matches!(unescape("plain"), Cow::Borrowed(_)));
    }
}
