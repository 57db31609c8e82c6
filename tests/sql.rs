//! Statements -> classes: what people run, what the grammar has, and what is recognised in them.

use ksqldb_sidecar::sql::{Class, Comparison, LiteralKind, Statement, WindowEdge, classify, explain_line};
use std::borrow::Cow;

/// Statements that people run, by number.
const RUN: &str = include_str!("corpus/statements.tsv");

/// Statements for the features of the grammar: each way to write one, and each way to miss it.
const GRAMMAR: &str = include_str!("corpus/grammar.tsv");

/// The rows of both files: the statement as escaped there, and its class.
pub(crate) fn corpus() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = |file: &'static str| file.lines().skip(1);
    rows(RUN).chain(rows(GRAMMAR)).map(|row| {
        let mut columns = row.rsplit('\t');
        let class = columns.next().expect("a class");
        (columns.next().expect("a statement"), class)
    })
}

/// A statement of the corpus without its escapes.
pub(crate) fn unescaped(statement: &str) -> String {
    let parts: Vec<String> = statement
        .split(r"\\")
        .map(|part| part.replace(r"\n", "\n").replace(r"\t", "\t").replace(r"\r", "\r"))
        .collect();
    parts.join("\\")
}

pub(crate) fn class(text: &str) -> &'static str {
    classify(text).class.as_str()
}

/// The key conditions as `COLUMN=literal`.
fn keys(statement: &Statement<'_>) -> Vec<String> {
    statement.keys.iter().map(|key| format!("{}={}", key.column.metastore(), key.literal.text)).collect()
}

#[test]
fn every_row_of_the_corpus_gets_its_class() {
    let mut rows = 0;
    for (statement, expected) in corpus() {
        assert_eq!(class(&unescaped(statement)), expected, "{statement}");
        let line = explain_line(statement);
        assert!(line.starts_with(&format!("{expected}\t{{")), "{line}");
        rows += 1;
    }
    assert!(rows > 400, "only {rows} rows were read");
}

#[test]
fn a_pull_without_conditions_has_its_source() {
    for (text, source) in [
        ("SELECT * FROM t", Some("T")),
        ("SELECT * FROM `t` WHERE K>1", Some("t")),
        ("SELECT * FROM T EMIT", Some("T")),
        ("SELECT * FROM \"a\"\"b\" AS c LIMIT 5", Some("a\"b")),
        ("SELECT * FROM ${t}", None),
    ] {
        let statement = classify(text);
        assert_eq!(statement.class, Class::Pull, "{text}");
        assert_eq!(statement.source.map(|source| source.metastore()), source.map(Cow::Borrowed), "{text}");
    }
}

#[test]
fn a_lookup_tells_its_keys_windows_and_limit() {
    let statement = classify(
        "select * from T x where 5 < windowstart and (x.a = -1 and `b` = 'it''s') and windowend = '20' limit 7",
    );
    assert_eq!(statement.class, Class::LookupMultiColumn);
    assert_eq!(keys(&statement), ["A=-1", "b='it''s'"]);
    let windows: Vec<_> = statement.windows.iter().map(|w| (w.edge, w.comparison, w.literal.text)).collect();
    let expected = [(WindowEdge::Start, Comparison::Greater, "5"), (WindowEdge::End, Comparison::Equal, "'20'")];
    assert_eq!(windows, expected);
    assert_eq!(statement.limit, Some(7));
    let statement = classify("SELECT * FROM T WHERE K = 1 OR (K IN (2, - 3) OR 4 = K)");
    assert_eq!(
        (statement.class, keys(&statement)),
        (Class::LookupMany, ["K=1", "K=2", "K=- 3", "K=4"].map(String::from).to_vec())
    );
}

#[test]
fn brackets_are_followed_to_a_depth_and_no_deeper() {
    let nested = |depth: usize| format!("SELECT * FROM T WHERE {}K='a'{};", "(".repeat(depth), ")".repeat(depth));
    // a quarter of what a worker thread has
    let in_little_stack = std::thread::Builder::new().stack_size(512 * 1024).spawn(move || {
        assert_eq!(class(&nested(60)), "lookup");
        for depth in [70, 100_000] {
            assert_eq!(class(&nested(depth)), "unsure");
        }
        let openings =
            "(|F(|F(A,x=>|F((|A[|CASE WHEN |CAST(|ARRAY[|NOT (|MAP('a':=|CAST(A AS ARRAY<|- (|STRUCT(A:=|A=(|A IN (";
        for open in openings.split('|') {
            assert_eq!(class(&format!("SELECT {}", open.repeat(100_000))), "unsure", "{open}");
            assert_eq!(class(&format!("SELECT * FROM T WHERE {}", open.repeat(63))), "unsure", "{open}");
        }
    });
    in_little_stack.expect("a thread").join().expect("no overflow");
}

#[test]
fn length_is_no_obstacle() {
    let many = format!("SELECT * FROM T WHERE K IN ({}'z')", "'a',".repeat(50_000));
    assert_eq!((class(&many), classify(&many).keys.len()), ("lookup-many", 50_001));
    let alternatives = format!("SELECT * FROM T WHERE {}K='z'", "K='a' OR ".repeat(50_000));
    assert_eq!((class(&alternatives), classify(&alternatives).keys.len()), ("lookup-many", 50_001));
    let columns: String = (0..50_000).map(|i| format!("C{i}=1 AND ")).collect();
    for (expected, condition) in [
        ("pull", format!("{columns}K='a'")),
        ("pull", format!("K={}1", "- ".repeat(50_001))),
        ("lookup", format!("K='{}'", "''".repeat(100_000))),
        ("lookup", format!("K={}'a'", "/*-*/ ".repeat(50_000))),
    ] {
        assert_eq!(class(&format!("SELECT * FROM T WHERE {condition};")), expected);
    }
}

#[test]
fn a_common_lookup_is_borrowed_from_its_text() {
    for text in [
        "SELECT * FROM ITEMS WHERE CODE='17';",
        "select CODE, TOTAL from ITEMS t where t.CODE = 17 and WINDOWSTART >= 1 and WINDOWEND < 5 limit 1",
        "SELECT COUNT FROM `items` WHERE `Code`='17' AND UNIT IN (5)",
        "SELECT * FROM ITEMS WHERE CODE='1' OR CODE='2';",
    ] {
        let statement = classify(text);
        assert!(!statement.keys.is_empty() && !statement.keys.spilled() && !statement.windows.spilled(), "{text}");
        assert!(matches!(statement.source.map(|source| source.metastore()), Some(Cow::Borrowed(_))), "{text}");
        for key in &statement.keys {
            assert!(matches!(key.column.metastore(), Cow::Borrowed(_)), "{text}");
            assert!(!matches!(&key.literal.kind, LiteralKind::String(Cow::Owned(_))), "{text}");
        }
    }
}
