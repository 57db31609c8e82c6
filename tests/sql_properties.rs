//! What holds for the class of any statement.

use crate::sql::{class, corpus, unescaped};
use ksqldb_sidecar::sql::{classify, explain_line};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Pieces of statements; a row of them is a likely way to confuse a classifier.
const FRAGMENTS: &str = "SELECT FROM WHERE AND OR NOT IN BETWEEN LIKE IS NULL EMIT CHANGES FINAL LIMIT GROUP BY PARTITION JOIN ON \
    CASE WHEN THEN END CAST AS ARRAY MAP STRUCT T K T.K WINDOWSTART LIST CREATE 'a' '' ' \"q\" `b` 5 -5 1.5 1E3 ${v} * . , ; ( ) \
    [ ] = < >= -> := => || - -- --@d /* */ é \u{feff} \n";

fn fragments(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let known: Vec<&str> = FRAGMENTS.split(' ').filter(|fragment| !fragment.is_empty()).collect();
    let fragment = prop_oneof![8 => select(known).prop_map(str::to_owned), 1 => "\\PC{0,3}"];
    proptest::collection::vec(fragment, count).prop_map(|fragments| fragments.join(" "))
}

/// A statement of the corpus that is not blank and has no comments, and its class.
fn statement() -> impl Strategy<Value = (String, &'static str)> {
    let all = corpus().map(|(statement, class)| (unescaped(statement), class));
    select(all.filter(|(text, _)| !text.trim().is_empty() && !has_comment(text)).collect::<Vec<_>>())
}

fn has_comment(text: &str) -> bool {
    text.contains("--") || text.contains("/*")
}

fn may_be_repeated(class: &str) -> bool {
    matches!(class, "lookup" | "lookup-many" | "pull")
}

/// The parts of a text outside and inside its quotes, by turns.
fn by_quotes(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        let last = parts.len() - 1;
        match quote {
            None if matches!(c, '\'' | '"' | '`') => {
                quote = Some(c);
                parts.push(c.into());
            }
            Some(open) if open == c => {
                quote = None;
                parts[last].push(c);
                parts.push(String::new());
            }
            _ => parts[last].push(c),
        }
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_a_class(text in any::<String>()) {
        let line = explain_line(&text);
        prop_assert!(line.ends_with('}'), "{}", line);
    }

    #[test]
    fn what_is_recognised_is_in_the_text(text in fragments(0..40)) {
        let statement = classify(&text);
        prop_assert!(statement.keys.is_empty() || statement.source.is_some());
        for key in &statement.keys {
            prop_assert!(text.contains(key.literal.text) && text.contains(key.column.text));
        }
    }

    #[test]
    fn whatever_follows_its_key_a_lookup_asks_for_it(tail in fragments(1..8)) {
        let text = format!("SELECT * FROM T WHERE K='a' {tail}");
        let statement = classify(&text);
        if class(&text).starts_with("lookup") {
            let first = &statement.keys[0];
            prop_assert_eq!((first.column.text, first.literal.text), ("K", "'a'"));
        }
    }

    #[test]
    fn with_emit_nothing_may_be_repeated((text, before) in statement()) {
        let text = text.trim_end().trim_end_matches(';');
        let after = class(&format!("{text} EMIT CHANGES;"));
        // `SELECT * FROM` becomes a pull from a source named EMIT
        prop_assert!(before == "unsure" || !may_be_repeated(after));
        if may_be_repeated(before) && !text.to_ascii_uppercase().contains("LIMIT") {
            prop_assert_eq!(after, "push");
        }
    }

    #[test]
    fn a_comment_between_tokens_changes_nothing((text, before) in statement(), at in any::<Index>()) {
        let mut parts = by_quotes(&text);
        let outside = at.index(parts.len()) / 2 * 2;
        parts[outside] = parts[outside].replace(' ', " /* ' ; EMIT CHANGES */ -- \" FROM\r\n --@ x\n");
        prop_assert_eq!(class(&parts.concat()), before);
    }

    #[test]
    fn the_case_of_letters_changes_nothing_outside_quotes((text, before) in statement(), upper in any::<bool>()) {
        let mut parts = by_quotes(&text);
        for part in parts.iter_mut().step_by(2) {
            *part = if upper { part.to_ascii_uppercase() } else { part.to_ascii_lowercase() };
        }
        prop_assert_eq!(class(&parts.concat()), before);
    }

    #[test]
    fn two_statements_are_never_sent_elsewhere((one, _) in statement(), (other, second) in statement()) {
        let both = class(&format!("{}; {other}", one.trim_end().trim_end_matches(';')));
        prop_assert!(matches!(both, "unsure" | "other"), "{}", both);
        prop_assert!(both == "unsure" || second == "other");
    }
}
