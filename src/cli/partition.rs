//! `ksqldb-sidecar partition`.

use super::{PartitionArgs, answer_lines};
use crate::partition::{KeySchema, Partition, Partitions};
use crate::sql::{self, Literal};
use std::error::Error;
use std::io::{BufRead, Write};

/// Answers each key with its partition, or `-` where it cannot be known.
///
/// # Errors
/// When type or format cannot be read, `input` cannot be read or is not UTF-8, or `output` cannot be written.
pub fn partition(args: &PartitionArgs, input: impl BufRead, output: impl Write) -> Result<(), Box<dyn Error>> {
    let schema = KeySchema::parse(&args.types, &args.format)?;
    let answer = |line: &str| match partition_of(&schema, args.partitions, line) {
        Some(partition) => partition.to_string(),
        None => "-".to_owned(),
    };
    Ok(answer_lines(input, output, answer)?)
}

/// The partition of a literal, or of one condition for each of several columns.
fn partition_of(schema: &KeySchema, partitions: Partitions, line: &str) -> Option<Partition> {
    if schema.columns.len() == 1 {
        return schema.partition(&[&sql::parse_literal(line)?], partitions).ok();
    }
    let text = format!("SELECT * FROM T WHERE {line};");
    let statement = sql::classify(&text);
    if statement.keys.len() != schema.columns.len() {
        return None;
    }
    let literal_of = |column: &str| {
        let condition = statement.keys.iter().find(|condition| condition.column.metastore() == column);
        condition.map(|condition| &condition.literal)
    };
    let literals: Option<Vec<&Literal<'_>>> = schema.columns.iter().map(|column| literal_of(&column.name)).collect();
    schema.partition(&literals?, partitions).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to `lines`, joined by blanks.
    fn answers(types: &str, lines: &str) -> String {
        let partitions = Partitions::new(6).unwrap();
        let args = PartitionArgs { types: types.to_owned(), format: "KAFKA".to_owned(), partitions };
        let mut output = Vec::new();
        partition(&args, lines.as_bytes(), &mut output).unwrap();
        String::from_utf8(output).unwrap().lines().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_no_key_has_no_partition() {
        let answers = answers("INT", "17\nCOUNT(1)\n\n17");
        let answers: Vec<_> = answers.split(' ').collect();
        assert!(answers[0].parse::<Partition>().unwrap() < 6);
        assert_eq!(answers[1..], ["-", "-", answers[0]]);
    }

    #[test]
    fn several_columns_need_one_condition_each_in_any_order() {
        let answers =
            answers("A STRING, B INT", "A='a1' AND B=1\nB=1 AND A='a1'\nA='a1'\nA='a1' AND C=1\nA='a1' AND A='a2'");
        let answers: Vec<_> = answers.split(' ').collect();
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[2..], ["-", "-", "-"]);
    }

    #[test]
    fn an_unknown_format_is_an_error() {
        let partitions = Partitions::new(6).unwrap();
        let args = PartitionArgs { types: "INT".to_owned(), format: "PAPER".to_owned(), partitions };
        assert!(partition(&args, "1".as_bytes(), Vec::new()).is_err());
    }
}
