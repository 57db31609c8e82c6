//! Values and their types.

use serde_json::Value;
use std::fmt::Write;

/// The types of column that the emulated tables have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Integer,
    Bigint,
    Double,
    String,
    Bytes,
    Struct(Vec<(String, Type)>),
}

impl Type {
    /// Reads the `schema` object of a field as `DESCRIBE` prints it.
    pub fn from_schema(schema: &Value) -> Self {
        match schema["type"].as_str() {
            Some("INTEGER") => Type::Integer,
            Some("BIGINT") => Type::Bigint,
            Some("DOUBLE") => Type::Double,
            Some("BYTES") => Type::Bytes,
            Some("STRUCT") => {
                let fields = schema["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
                let field =
                    |f: &Value| (f["name"].as_str().unwrap_or_default().to_owned(), Type::from_schema(&f["schema"]));
                Type::Struct(fields.iter().map(field).collect())
            }
            _ => Type::String,
        }
    }

    /// The name in error texts and `columnTypes`.
    pub fn sql(&self) -> String {
        match self {
            Type::Integer => "INTEGER".to_owned(),
            Type::Bigint => "BIGINT".to_owned(),
            Type::Double => "DOUBLE".to_owned(),
            Type::String => "STRING".to_owned(),
            Type::Bytes => "BYTES".to_owned(),
            Type::Struct(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, ty)| format!("`{name}` {}", ty.sql())).collect();
                format!("STRUCT<{}>", fields.join(", "))
            }
        }
    }
}

/// One value, or a literal before it was given the type of the column it is compared with.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Datum {
    Null,
    Int(i64),
    /// A literal with a point; the server refuses to compare it with an integer.
    Decimal(f64),
    Double(f64),
    String(String),
    Boolean(bool),
    Struct(Vec<(String, Datum)>),
}

impl Datum {
    /// A JSON value as a literal.
    pub fn from_json(value: &Value) -> Self {
        match value {
            Value::Null | Value::Array(_) => Datum::Null,
            Value::Bool(b) => Datum::Boolean(*b),
            Value::Number(n) => n.as_i64().map_or_else(|| Datum::Double(n.as_f64().unwrap_or_default()), Datum::Int),
            Value::String(text) => Datum::String(text.clone()),
            Value::Object(fields) => {
                Datum::Struct(fields.iter().map(|(n, v)| (n.to_uppercase(), Datum::from_json(v))).collect())
            }
        }
    }

    /// The columns of a key that is given as JSON: an array for several.
    pub fn key_from_json(key: &Value) -> Vec<Self> {
        match key {
            Value::Array(columns) => columns.iter().map(Datum::from_json).collect(),
            one => vec![Datum::from_json(one)],
        }
    }

    /// Gives a literal the type of a column, or `None` where the server refuses the comparison.
    pub fn coerce(&self, ty: &Type) -> Option<Datum> {
        match (self, ty) {
            (Datum::Int(n), Type::Integer) => i32::try_from(*n).ok().map(|_| Datum::Int(*n)),
            (Datum::Int(n), Type::Bigint) => Some(Datum::Int(*n)),
            (Datum::Int(n), Type::Double) => Some(Datum::Double(*n as f64)),
            (Datum::Decimal(x) | Datum::Double(x), Type::Double) => Some(Datum::Double(*x)),
            (Datum::String(_), Type::String | Type::Bytes) => Some(self.clone()),
            (Datum::Struct(given), Type::Struct(fields)) => {
                let value = |(name, ty): &(String, Type)| {
                    let given = given.iter().find(|(n, _)| n == name).map_or(Some(Datum::Null), |(_, v)| v.coerce(ty));
                    given.map(|v| (name.clone(), v))
                };
                fields.iter().map(value).collect::<Option<_>>().map(Datum::Struct)
            }
            _ => None,
        }
    }

    /// The SQL name of a literal's type.
    pub fn sql_type(&self) -> &'static str {
        match self {
            Datum::Null => "NULL",
            Datum::Int(n) if i32::try_from(*n).is_ok() => "INTEGER",
            Datum::Int(_) => "BIGINT",
            Datum::Decimal(_) => "DECIMAL",
            Datum::Double(_) => "DOUBLE",
            Datum::String(_) => "STRING",
            Datum::Boolean(_) => "BOOLEAN",
            Datum::Struct(_) => "STRUCT",
        }
    }

    /// Appends the JSON text of the value.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Datum::Null => out.push_str("null"),
            Datum::Int(n) => _ = write!(out, "{n}"),
            Datum::Decimal(x) | Datum::Double(x) => out.push_str(&java_double(*x)),
            Datum::Boolean(b) => _ = write!(out, "{b}"),
            Datum::String(s) => out.push_str(&Value::from(s.as_str()).to_string()),
            Datum::Struct(fields) => write_object(fields.iter().map(|(name, value)| (name.as_str(), value)), out),
        }
    }

    /// Compares two values of the same column; `None` where they cannot be ordered.
    pub fn order(&self, other: &Datum) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Datum::Int(a), Datum::Int(b)) => Some(a.cmp(b)),
            (Datum::String(a), Datum::String(b)) => Some(a.cmp(b)),
            (Datum::Double(a), Datum::Double(b)) => a.partial_cmp(b),
            (Datum::Boolean(a), Datum::Boolean(b)) => Some(a.cmp(b)),
            (a, b) if a == b && *a != Datum::Null => Some(std::cmp::Ordering::Equal),
            _ => None,
        }
    }
}

/// Java's text of a double as far as it is needed: always with a point.
fn java_double(x: f64) -> String {
    let text = x.to_string();
    if text.contains(['.', 'e', 'N', 'i']) { text } else { text + ".0" }
}

pub(super) fn write_object<'a>(fields: impl Iterator<Item = (&'a str, &'a Datum)>, out: &mut String) {
    out.push('{');
    for (i, (name, value)) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&Value::from(name).to_string());
        out.push(':');
        value.write_json(out);
    }
    out.push('}');
}
