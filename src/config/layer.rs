//! The layers of a configuration: defaults, file, environment, flags.

use super::problem::{Place, Problem};
use super::{DEFAULTS, LoadOptions};
use config::{ConfigError, File, FileFormat, Map, Source, Value, ValueKind};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// What every variable of the environment that sets a key starts with; section and key follow, joined by two underscores.
pub(super) const PREFIX: &str = "KSQLDB_SIDECAR__";

/// A flag that sets a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The flag, as typed: `--server`.
    pub flag: &'static str,
    /// The key it sets: `server.url`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// The keys that one place sets.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) place: Place,
    pub(super) sections: Map<String, Value>,
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.sections.clone())
    }
}

impl Layer {
    fn parsed(place: Place, parsed: Result<Map<String, Value>, String>, problems: &mut Vec<Problem>) -> Self {
        let sections = parsed.unwrap_or_else(|message| {
            problems.push(Problem { key: String::new(), place: place.clone(), message });
            Map::new()
        });
        Self { place, sections }
    }

    /// A layer that sets one key.
    pub(super) fn of_key(place: Place, section: &str, key: &str, value: Value) -> Self {
        let keys = Map::from_iter([(key.to_owned(), value)]);
        Self { place, sections: Map::from_iter([(section.to_owned(), Value::from(keys))]) }
    }

    /// The keys this layer sets, each with its section, in the order of their names.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut keys: Vec<_> = self
            .sections
            .iter()
            .flat_map(|(section, value)| match &value.kind {
                ValueKind::Table(keys) => keys.keys().map(|key| (section.as_str(), key.as_str())).collect(),
                _ => Vec::new(),
            })
            .collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// Keeps the keys of sections for which `keep(section, key, value)` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str, &str, &mut Value) -> bool) {
        for (section, value) in &mut self.sections {
            if let ValueKind::Table(keys) = &mut value.kind {
                keys.retain(|key, value| keep(section, key, value));
            }
        }
    }

    /// The value of a key, if this layer sets it.
    pub(super) fn get(&self, section: &str, key: &str) -> Option<&Value> {
        match &self.sections.get(section)?.kind {
            ValueKind::Table(keys) => keys.get(key),
            _ => None,
        }
    }
}

/// The lowest layer, `config/sidecar.toml`.
pub(super) fn defaults(problems: &mut Vec<Problem>) -> Layer {
    Layer::parsed(Place::Default, parse(DEFAULTS), problems)
}

/// Collects the layers above the defaults, lowest first; a variable and a flag are a layer each.
///
/// What cannot be read is a problem and no layer.
pub(super) fn collect(options: &LoadOptions, defaults: &Layer, problems: &mut Vec<Problem>) -> Vec<Layer> {
    let mut layers = Vec::new();
    if let Some(path) = &options.file {
        layers.push(Layer::parsed(Place::File(path.clone()), read_file(path), problems));
    }
    for (name, value) in &options.environment {
        let place = Place::Environment(name.clone());
        let path = name.strip_prefix(PREFIX).unwrap_or(name).to_ascii_lowercase();
        let Some((section, key)) = path.split_once("__") else {
            let message = format!("names no key; write {PREFIX}SECTION__KEY");
            problems.push(Problem { key: String::new(), place, message });
            continue;
        };
        let default = defaults.get(section, key).map(|default| &default.kind);
        let structured = matches!(default, Some(ValueKind::Array(_) | ValueKind::Table(_)));
        match variable(value, structured) {
            Ok(value) => layers.push(Layer::of_key(place, section, key, value)),
            Err(message) => problems.push(Problem { key: format!("{section}.{key}"), place, message }),
        }
    }
    for Flag { flag, key, value } in &options.flags {
        let (section, key) = key.split_once('.').unwrap_or((key, ""));
        layers.push(Layer::of_key(Place::Flag(flag), section, key, Value::from(value.as_str())));
    }
    layers
}

fn read_file(path: &Path) -> Result<Map<String, Value>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    File::from_str(text, FileFormat::Toml).collect().map_err(|error| match error {
        ConfigError::FileParse { cause, .. } => format!("is not TOML: {}", cause.to_string().trim_end()),
        other => other.to_string(),
    })
}

/// The value of a variable: text, or TOML where the key holds a list or a map.
fn variable(value: &OsString, structured: bool) -> Result<Value, String> {
    let text = value.to_str().ok_or("is not UTF-8")?;
    if !structured {
        return Ok(Value::from(text));
    }
    let mut parsed = parse(&format!("value = {text}"))?;
    parsed.remove("value").ok_or_else(|| "is not a TOML list or map".to_owned())
}
