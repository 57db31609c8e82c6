//! The effective configuration with where each value comes from, for `ksqldb-sidecar check`.

use super::{Config, Place, reference};
use config::{Value, ValueKind};
use std::collections::BTreeMap;
use std::fmt;

/// A configuration that remembers where its values come from; printed, it is TOML.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The configuration.
    pub config: Config,
    /// The merged layers as written.
    pub(super) values: Value,
    /// `section.key` -> the highest layer that sets it.
    pub(super) places: BTreeMap<String, Place>,
}

impl Effective {
    /// Where a key's value comes from.
    pub fn place(&self, key: &str) -> Place {
        self.places.get(key).cloned().unwrap_or(Place::Default)
    }

    fn value(&self, section: &str, name: &str) -> Option<&Value> {
        let ValueKind::Table(sections) = &self.values.kind else { return None };
        let ValueKind::Table(keys) = &sections.get(section)?.kind else { return None };
        keys.get(name)
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = "";
        for key in reference() {
            if key.section != section {
                let blank = if section.is_empty() { "" } else { "\n" };
                writeln!(f, "{blank}[{}]", key.section)?;
                section = key.section;
            }
            if let Some(value) = self.value(section, key.name) {
                let value = toml(&key, value);
                writeln!(f, "{} = {value} # {}", key.name, self.place(&key.key()))?;
            }
        }
        Ok(())
    }
}

/// A value as inline TOML. What a variable or flag gave as text is written as the number or boolean it stands for.
fn toml(key: &super::Reference, value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) if !key.default.starts_with('"') => text.clone(),
        _ => inline(value),
    }
}

fn inline(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) => quoted(text),
        ValueKind::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        ValueKind::Table(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let fields: Vec<_> =
                sorted.iter().map(|(name, value)| format!("{} = {}", quoted(name), inline(value))).collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        ValueKind::Float(number) => format!("{number:?}"),
        other => other.to_string(),
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
