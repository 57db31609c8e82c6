//! Keys -> bytes -> partitions: the emulator's own, so that it can serve as an oracle for the product's.

use super::datum::{Datum, Type, write_object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The formats a key is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Format {
    Kafka,
    Json,
    Delimited,
}

/// A column of a key.
#[derive(Clone, Debug)]
pub struct Column {
    /// The metastore's spelling.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// Serialises a key; the values are in the order of the columns and have their types.
pub fn serialize(format: Format, columns: &[Column], values: &[Datum]) -> Vec<u8> {
    match (format, values) {
        (Format::Kafka, [value]) => kafka(value, columns.first().map(|c| &c.ty)),
        (Format::Json, [value]) => json_text(value).into_bytes(),
        (Format::Delimited, values) => {
            let cells: Vec<String> = values.iter().enumerate().map(|(i, v)| csv_cell(v, i == 0)).collect();
            cells.join(",").into_bytes()
        }
        (_, values) => {
            let mut out = String::new();
            write_object(columns.iter().map(|c| c.name.as_str()).zip(values), &mut out);
            out.into_bytes()
        }
    }
}

fn json_text(value: &Datum) -> String {
    let mut out = String::new();
    value.write_json(&mut out);
    out
}

fn kafka(value: &Datum, ty: Option<&Type>) -> Vec<u8> {
    match (value, ty) {
        (Datum::Int(n), Some(Type::Integer)) => (*n as i32).to_be_bytes().to_vec(),
        (Datum::Int(n), _) => n.to_be_bytes().to_vec(),
        (Datum::Double(x), _) => x.to_be_bytes().to_vec(),
        // statements and answers have bytes in base64
        (Datum::String(s), Some(Type::Bytes)) => STANDARD.decode(s).unwrap_or_else(|_| s.as_bytes().to_vec()),
        (Datum::String(s), _) => s.as_bytes().to_vec(),
        (other, _) => json_text(other).into_bytes(),
    }
}

/// One cell by the rules of commons-csv with minimal quoting; the first cell of a record is quoted more readily.
fn csv_cell(value: &Datum, first: bool) -> String {
    let Datum::String(text) = value else { return json_text(value) };
    let Some(start) = text.chars().next() else { return if first { "\"\"".to_owned() } else { String::new() } };
    let odd_start = start <= '#' || (first && start > '~');
    let special = text.contains(['"', ',', '\r', '\n']) || text.ends_with(|c| c <= ' ');
    if odd_start || special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.clone() }
}

/// Kafka's murmur2 with its seed, made positive, modulo the partitions.
pub fn partition(bytes: &[u8], partitions: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h: u32 = 0x9747_b28c ^ bytes.len() as u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = chunk.iter().rev().fold(0u32, |k, b| k << 8 | u32::from(*b)).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        h ^= rest.iter().rev().fold(0u32, |k, b| k << 8 | u32::from(*b));
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^= h >> 15;
    (h & 0x7fff_ffff) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::statement::{Statement, parse_all};

    fn ty(name: &str) -> Type {
        match name {
            "INT" => Type::Integer,
            "BIGINT" => Type::Bigint,
            "DOUBLE" => Type::Double,
            _ => Type::String,
        }
    }

    fn column(name: &str, ty: Type) -> Column {
        Column { name: name.to_owned(), ty }
    }

    fn columns(text: &str) -> Vec<Column> {
        if text.starts_with("STRUCT") {
            return vec![column(
                "K",
                Type::Struct(vec![("A".to_owned(), Type::Integer), ("B".to_owned(), Type::String)]),
            )];
        }
        match text.strip_prefix('(') {
            Some(_) => vec![column("A", Type::String), column("B", Type::Integer)],
            None => vec![column("K", ty(text))],
        }
    }

    /// The 139 keys whose partition was confirmed on real servers.
    #[test]
    fn confirmed_keys_have_their_bytes_and_partitions() {
        let table = include_str!("../../tests/fixtures/partitions.tsv");
        for line in table.lines().skip(1) {
            let [types, format, literal, hex, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let format = match format {
                "JSON" => Format::Json,
                "DELIMITED" => Format::Delimited,
                _ => Format::Kafka,
            };
            let columns = columns(types);
            let condition = if columns.len() > 1 { literal.to_owned() } else { format!("K={literal}") };
            let parsed = parse_all(&format!("SELECT * FROM T WHERE {condition};")).unwrap();
            let Some((_, Statement::Select(select))) = parsed.first() else { panic!("{line}") };
            let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
            let key = select.filter.as_ref().unwrap().keys(&names).unwrap().remove(0);
            let key: Vec<Datum> = key.iter().zip(&columns).map(|(d, c)| d.coerce(&c.ty).unwrap()).collect();
            let bytes = serialize(format, &columns, &key);
            let own: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(own, hex, "{line}");
            assert_eq!(partition(&bytes, 6).to_string(), expected, "{line}");
        }
    }
}
