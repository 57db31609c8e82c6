//! Rows in the four formats.

use super::error::generic;
use crate::emulator::datum::{Datum, Type};
use crate::emulator::key::Column;
use crate::emulator::query::{End, Found};
use serde_json::{Value, json};
use std::fmt::Write;

/// The format of an answer's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Shape {
    V1Json,
    Delimited,
    JsonArray,
    Protobuf,
}

impl Shape {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Shape::V1Json => "application/vnd.ksql.v1+json",
            Shape::Delimited => "application/vnd.ksqlapi.delimited.v1",
            Shape::JsonArray => "application/json",
            Shape::Protobuf => "application/vnd.ksql.v1+protobuf",
        }
    }

    /// What separates two elements.
    pub fn separator(self) -> &'static str {
        match self {
            Shape::V1Json | Shape::Protobuf => ",\n",
            Shape::JsonArray => ",",
            Shape::Delimited => "",
        }
    }
}

/// The first element of an answer.
pub fn header(shape: Shape, id: &str, columns: &[(Column, bool)], out: &mut String) {
    if matches!(shape, Shape::Delimited | Shape::JsonArray) {
        let names: Vec<&str> = columns.iter().map(|(c, _)| c.name.as_str()).collect();
        let types: Vec<String> = columns.iter().map(|(c, _)| c.ty.sql()).collect();
        let open = if shape == Shape::JsonArray { "[" } else { "" };
        let close = if shape == Shape::Delimited { "\n" } else { "" };
        let (names, types) = (json!(names), json!(types));
        _ = write!(out, r#"{open}{{"queryId":"{id}","columnNames":{names},"columnTypes":{types}}}{close}"#);
        return;
    }
    _ = write!(out, r#"[{{"header":{{"queryId":"{id}","schema":""#);
    for (i, (column, key)) in columns.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let key = if *key { " KEY" } else { "" };
        _ = write!(out, "{comma}`{}` {}{key}", column.name, column.ty.sql());
    }
    out.push('"');
    if shape == Shape::Protobuf {
        _ = write!(out, r#","protoSchema":{}"#, Value::from(proto_schema(columns)));
    }
    out.push_str("}}");
}

/// One row; `host` is named only if it is given.
pub fn row(shape: Shape, values: &[Datum], host: Option<&str>, out: &mut String) {
    match shape {
        Shape::Delimited => {
            write_array(values, out);
            out.push('\n');
        }
        Shape::JsonArray => write_array(values, out),
        Shape::Protobuf => {
            let bytes = proto_row(values);
            _ = write!(out, r#"{{"row":{{"protobufBytes":"{}"}}}}"#, base64(&bytes));
        }
        Shape::V1Json => {
            out.push_str(r#"{"row":{"columns":"#);
            write_array(values, out);
            out.push('}');
            if let Some(host) = host {
                _ = write!(out, r#","sourceHost":"{host}""#);
            }
            out.push('}');
        }
    }
}

/// A whole answer.
pub fn render(shape: Shape, id: &str, found: &Found, names: Option<&[String]>, last: Option<&str>) -> String {
    let mut out = String::with_capacity(128 + found.rows.len() * 48);
    header(shape, id, &found.columns, &mut out);
    for (values, host) in &found.rows {
        out.push_str(shape.separator());
        row(shape, values, names.and_then(|n| n.get(*host)).map(String::as_str), &mut out);
    }
    if let End::Error(message) = &found.end {
        let error = generic(50000, message);
        out.push_str(shape.separator());
        match shape {
            Shape::Delimited => _ = writeln!(out, "{error}"),
            Shape::JsonArray => out.push_str(&error),
            _ => _ = write!(out, r#"{{"errorMessage":{error}}}"#),
        }
    }
    if let (Some(last), Shape::V1Json) = (last, shape) {
        _ = write!(out, ",\n{{\"finalMessage\":{}}}", Value::from(last));
    }
    if shape != Shape::Delimited {
        out.push(']');
    }
    out
}

/// The columns of a websocket's first frame.
pub fn fields_json(columns: &[(Column, bool)], keys: bool) -> String {
    let field = |(column, key): &(Column, bool)| {
        let mut out = format!(r#"{{"name":{},"schema":{}"#, Value::from(column.name.as_str()), schema_json(&column.ty));
        if *key && keys {
            out.push_str(r#","type":"KEY""#);
        }
        out + "}"
    };
    let fields: Vec<String> = columns.iter().map(field).collect();
    format!("[{}]", fields.join(","))
}

fn schema_json(ty: &Type) -> String {
    match ty {
        Type::Struct(fields) => {
            let field = |(name, ty): &(String, Type)| format!(r#"{{"name":"{name}","schema":{}}}"#, schema_json(ty));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!(r#"{{"type":"STRUCT","fields":[{}],"memberSchema":null}}"#, fields.join(","))
        }
        other => format!(r#"{{"type":"{}","fields":null,"memberSchema":null}}"#, other.sql()),
    }
}

/// A row's values as an array, as the delimited format has them.
pub fn delimited_value(values: &[Datum]) -> String {
    let mut out = String::new();
    write_array(values, &mut out);
    out
}

fn write_array(values: &[Datum], out: &mut String) {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        value.write_json(out);
    }
    out.push(']');
}

fn proto_schema(columns: &[(Column, bool)]) -> String {
    let mut out = "syntax = \"proto3\";\n\nmessage ConnectDefault1 {\n".to_owned();
    for (i, (column, _)) in columns.iter().enumerate() {
        let ty = match column.ty {
            Type::Integer => "int32",
            Type::Bigint => "int64",
            Type::Double => "double",
            _ => "string",
        };
        _ = writeln!(out, "  {ty} {} = {};", column.name, i + 1);
    }
    out + "}\n"
}

fn proto_row(values: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let tag = (i as u64 + 1) << 3;
        match value {
            Datum::Int(0) | Datum::Null => {}
            Datum::Int(n) => {
                varint(tag, &mut out);
                varint(*n as u64, &mut out);
            }
            Datum::Double(x) => {
                varint(tag | 1, &mut out);
                out.extend(x.to_le_bytes());
            }
            other => {
                let text = match other {
                    Datum::String(text) => text.clone(),
                    other => delimited_value(std::slice::from_ref(other)),
                };
                varint(tag | 2, &mut out);
                varint(text.len() as u64, &mut out);
                out.extend(text.as_bytes());
            }
        }
    }
    out
}

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let n = chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = ALPHABET[(n >> (18 - 6 * i) & 63) as usize]; // six bits are below 64
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}
