//! Keys and their partitions: those of real servers, and what holds for every key.

use ksqldb_sidecar::partition::{KeyColumn, KeyFormat, KeySchema, Partitions, SqlType, Unknown, partition_of};
use ksqldb_sidecar::sql::{Literal, LiteralKind, Name};
use proptest::collection::vec;
use proptest::prelude::*;

/// Keys whose partition real servers confirmed.
const PARTITIONS: &str = include_str!("fixtures/partitions.tsv");

/// Hashes made by Kafka's own library.
const MURMUR2: &str = include_str!("fixtures/murmur2.tsv");

/// The cells of a fixture's rows, without its header.
fn rows<const N: usize>(fixture: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    fixture.lines().skip(1).map(|row| row.split('\t').collect::<Vec<_>>().try_into().expect(row))
}

fn partitions(count: u32) -> Partitions {
    Partitions::new(count).expect("a count above 0")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex")).collect()
}

fn string(text: &str) -> Literal<'_> {
    Literal { text, kind: LiteralKind::String(text.into()) }
}

fn number(text: &str) -> Literal<'_> {
    let kind = if text.contains('.') { LiteralKind::Decimal } else { LiteralKind::Integer };
    Literal { text, kind }
}

/// A literal of the fixture: a string, a number, or a STRUCT of them without commas or assignments in its strings.
fn literal(text: &str) -> Literal<'_> {
    if let Some(quoted) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Literal { text, kind: LiteralKind::String(quoted.replace("''", "'").into()) };
    }
    let Some(fields) = text.strip_prefix("STRUCT(").and_then(|rest| rest.strip_suffix(')')) else {
        return number(text);
    };
    let fields = fields.split(',').map(|field| {
        let (name, value) = field.split_once(":=").expect("an assignment");
        (Name { text: name, quote: None }, literal(value))
    });
    Literal { text, kind: LiteralKind::Struct(fields.collect()) }
}

/// The literals of a row: one, or `A=... AND B=...`.
fn literals(text: &str) -> Vec<Literal<'_>> {
    match text.strip_prefix("A=").and_then(|rest| rest.split_once(" AND B=")) {
        Some((a, b)) => vec![literal(a), literal(b)],
        None => vec![literal(text)],
    }
}

#[test]
fn keys_are_where_real_servers_have_them() {
    let mut count = 0;
    for [types, format, text, key_bytes, partition] in rows(PARTITIONS) {
        let schema = KeySchema::parse(types, format).expect(types);
        let literals = literals(text);
        let literals: Vec<_> = literals.iter().collect();
        let mut out = Vec::new();
        assert_eq!(schema.serialize(&literals, &mut out), Ok(()), "{types} {format} {text}");
        assert_eq!(hex(&out), key_bytes, "{types} {format} {text}");
        assert_eq!(schema.partition(&literals, partitions(6)), Ok(partition.parse().expect("a partition")), "{text}");
        count += 1;
    }
    assert_eq!(count, 139);
}

#[test]
fn hashes_lead_to_the_partitions_of_kafka() {
    let mut count = 0;
    for [key_bytes, _, positive, of_6, of_12, of_1000] in rows(MURMUR2) {
        let key_bytes = unhex(key_bytes);
        for (of, expected) in [(6, of_6), (12, of_12), (1000, of_1000), (i32::MAX as u32, positive)] {
            // The largest count leaves every hash below it as it is.
            let partition = partition_of(&key_bytes, partitions(of));
            assert_eq!(partition.to_string(), expected, "{} of {of}", hex(&key_bytes));
        }
        count += 1;
    }
    assert!(count > 100, "{count} rows");
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[A-C]", any::<String>()]
}

fn any_type() -> impl Strategy<Value = SqlType> {
    let scalar = prop_oneof![
        Just(SqlType::Boolean),
        Just(SqlType::Integer),
        Just(SqlType::Bigint),
        Just(SqlType::Double),
        Just(SqlType::String),
        Just(SqlType::Bytes),
        Just(SqlType::Other),
    ];
    scalar.prop_recursive(3, 8, 3, |inner| {
        let column = (any_name(), inner).prop_map(|(name, sql_type)| KeyColumn { name, sql_type });
        vec(column, 0..3).prop_map(SqlType::Struct)
    })
}

fn any_format() -> impl Strategy<Value = KeyFormat> {
    prop_oneof![Just(KeyFormat::Kafka), Just(KeyFormat::Json), Just(KeyFormat::Delimited)]
}

/// Source text of numbers, sometimes of anything else.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?[0-9]{1,30}",
        "[+-]?[0-9]{0,5}\\.[0-9]{0,20}",
        "[+-]?[0-9.]{1,5}[eE][+-]?[0-9]{1,4}",
        any::<String>()
    ]
}

/// Literals of every kind, whether a lexer would give them or not.
fn any_literal() -> impl Strategy<Value = Literal<'static>> {
    let kind = prop_oneof![
        Just(LiteralKind::Integer),
        Just(LiteralKind::Decimal),
        Just(LiteralKind::Float),
        any::<bool>().prop_map(LiteralKind::Boolean),
        any::<String>().prop_map(|text| LiteralKind::String(text.into())),
        "[ -~]{0,12}".prop_map(|text| LiteralKind::String(text.into())),
    ];
    let scalar = (any_text(), kind).prop_map(|(text, kind)| Literal { text: text.leak(), kind });
    scalar.prop_recursive(3, 8, 3, |inner| {
        let name = (any_name(), prop_oneof![Just(None), Just(Some('`'))]);
        let name = name.prop_map(|(text, quote)| Name { text: text.leak(), quote });
        vec((name, inner), 0..3).prop_map(|fields| Literal { text: "STRUCT()", kind: LiteralKind::Struct(fields) })
    })
}

fn written(types: &str, format: &str, literals: &[&Literal<'_>]) -> Result<Vec<u8>, Unknown> {
    let mut out = Vec::new();
    KeySchema::parse(types, format).expect(types).serialize(literals, &mut out)?;
    Ok(out)
}

proptest! {
    #[test]
    fn any_key_has_a_partition_below_the_count_or_none(
        format in any_format(),
        columns in vec((any_name(), any_type()), 0..3),
        literals in vec(any_literal(), 0..3),
        count in 1..=u32::MAX,
    ) {
        let columns = columns.into_iter().map(|(name, sql_type)| KeyColumn { name, sql_type }).collect();
        let schema = KeySchema { format, columns };
        let literals: Vec<_> = literals.iter().collect();
        let mut out = vec![7];
        match schema.serialize(&literals, &mut out) {
            Ok(()) => {
                let partition = schema.partition(&literals, partitions(count));
                prop_assert_eq!(partition, Ok(partition_of(&out[1..], partitions(count))));
                prop_assert!(partition.is_ok_and(|partition| partition < count));
            }
            Err(unknown) => {
                prop_assert_eq!(schema.partition(&literals, partitions(count)), Err(unknown));
                prop_assert_eq!(out, [7]);
            }
        }
    }

    #[test]
    fn kafka_integers_read_back(value in any::<i64>(), zeros in "0{0,3}") {
        let digits = format!("{}{zeros}{}", if value < 0 { "-" } else { "" }, value.unsigned_abs());
        let bigint = written("BIGINT", "KAFKA", &[&number(&digits)]);
        prop_assert_eq!(bigint, Ok(value.to_be_bytes().to_vec()));
        let short = (value as i32).to_string();
        let integer = written("INT", "KAFKA", &[&number(&short)]);
        prop_assert_eq!(integer, Ok((value as i32).to_be_bytes().to_vec()));
        let fits = i32::try_from(value).is_ok();
        prop_assert_eq!(written("INT", "KAFKA", &[&number(&digits)]).is_ok(), fits);
    }

    #[test]
    fn kafka_texts_are_utf_8(text in any::<String>()) {
        prop_assert_eq!(written("STRING", "KAFKA", &[&string(&text)]), Ok(text.into_bytes()));
    }

    #[test]
    fn kafka_doubles_read_back(value in prop::num::f64::NORMAL) {
        for text in [format!("{value:e}"), format!("{value:?}")] {
            let kind = if text.contains('e') { LiteralKind::Float } else { LiteralKind::Decimal };
            let written = written("DOUBLE", "KAFKA", &[&Literal { text: &text, kind }]);
            prop_assert_eq!(written, Ok(value.to_be_bytes().to_vec()), "{}", text);
        }
    }

    #[test]
    fn delimited_texts_read_back_or_are_unknown(text in "[A-Za-z0-9][ -~\n\r\té€]{0,6}") {
        let certain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.ends_with(' ');
        match written("A STRING, B INT", "DELIMITED", &[&string(&text), &number("-1")]) {
            Ok(out) => {
                let out = String::from_utf8(out).expect("UTF-8");
                let first = out.strip_suffix(",-1").expect("the second column");
                let quoted = first.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                prop_assert_eq!(quoted.is_some(), text.contains([',', '"']));
                prop_assert_eq!(quoted.map_or(first.to_owned(), |quoted| quoted.replace("\"\"", "\"")), text);
                prop_assert!(certain);
            }
            Err(unknown) => {
                prop_assert_eq!(unknown, Unknown::UncertainText);
                prop_assert!(!certain);
            }
        }
    }

    #[test]
    fn plain_json_is_that_of_serde_json(text in "[\u{20}-\u{d7ff}\u{e000}-\u{ffff}]{0,20}", value in any::<i64>()) {
        let digits = value.to_string();
        let expected = serde_json::to_vec(&text).expect("JSON");
        prop_assert_eq!(written("STRING", "JSON", &[&string(&text)]), Ok(expected));
        let expected = serde_json::to_vec(&serde_json::json!({"A": text, "B": value})).expect("JSON");
        prop_assert_eq!(written("A STRING, B BIGINT", "JSON", &[&string(&text), &number(&digits)]), Ok(expected));
    }

    #[test]
    fn json_texts_read_back_or_are_unknown(text in any::<String>()) {
        match written("STRING", "JSON", &[&string(&text)]) {
            Ok(out) => prop_assert_eq!(serde_json::from_slice::<String>(&out).expect("JSON"), text),
            Err(unknown) => {
                prop_assert_eq!(unknown, Unknown::UncertainText);
                prop_assert!(text.chars().any(|c| c.len_utf8() == 4), "{:?}", text);
            }
        }
    }

    #[test]
    fn types_never_panic(types in any::<String>(), words in "[A-Z<>(), `\"1]{0,30}") {
        for text in [&types, &words] {
            if let Err(error) = KeySchema::parse(text, "JSON") {
                prop_assert!(error.contains(" at character "), "{}", error);
            }
        }
    }
}
