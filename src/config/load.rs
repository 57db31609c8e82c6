//! From layers to a [`Config`](super::Config): known keys, then types key by key, then bounds and what keys say of each other.

use super::layer::{self, Flag, Layer};
use super::problem::{ConfigErrors, Place, Problem};
use super::{Config, Effective, known, reference, validate};
use config::ConfigError;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// What is laid over the defaults; by default nothing.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Variables named `KSQLDB_SIDECAR__SECTION__KEY`.
    pub environment: Vec<(String, OsString)>,
    /// Flags.
    pub flags: Vec<Flag>,
}

impl LoadOptions {
    /// Options with the variables of this process, sorted by name.
    pub fn from_process(file: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let mut environment: Vec<_> = variables.filter(|(name, _)| name.starts_with(layer::PREFIX)).collect();
        environment.sort();
        Self { file, environment, flags }
    }
}

impl Effective {
    /// Reads the layers and remembers which of them each value comes from.
    ///
    /// # Errors
    /// Every problem of the configuration, each with its place and remedy.
    pub fn load(options: LoadOptions) -> Result<Self, ConfigErrors> {
        let mut problems = Vec::new();
        let defaults = layer::defaults(&mut problems);
        let mut layers = vec![defaults.clone()];
        layers.extend(layer::collect(&options, &defaults, &mut problems));
        for layer in layers.iter_mut().skip(1) {
            known::retain_known(layer, &defaults, &mut problems);
            retain_readable(layer, &defaults, &mut problems);
        }
        let merged = merge(&layers).and_then(|values| Ok((values.cache.clone(), values.try_deserialize()?)));
        let (values, config) = match merged {
            Ok(merged) => merged,
            Err(error) => return Err(ConfigErrors::one(unreadable(String::new(), Place::Default, error))),
        };
        let effective = Self { config, values, places: places(&layers) };
        validate::validate(&effective, &mut problems);
        ConfigErrors::check(problems).map(|()| effective)
    }
}

/// Removes what has not the type of its key, and reports it: each key is tried alone over the defaults.
fn retain_readable(layer: &mut Layer, defaults: &Layer, problems: &mut Vec<Problem>) {
    let place = layer.place.clone();
    layer.retain(|section, key, value| {
        let alone = Layer::of_key(place.clone(), section, key, value.clone());
        let tried = merge(&[defaults.clone(), alone]).and_then(config::Config::try_deserialize::<Config>);
        let Err(error) = tried else { return true };
        let mut problem = unreadable(format!("{section}.{key}"), place.clone(), error);
        if let Some(known) = reference().iter().find(|known| known.key() == problem.key) {
            problem.message += &format!("; the default is {}", known.default);
        }
        problems.push(problem);
        false
    });
}

fn merge(layers: &[Layer]) -> Result<config::Config, ConfigError> {
    config::Config::builder().add_source(layers.to_vec()).build()
}

/// The highest layer that sets each key.
fn places(layers: &[Layer]) -> BTreeMap<String, Place> {
    let mut places = BTreeMap::new();
    for layer in layers {
        places.extend(layer.keys().map(|(section, key)| (format!("{section}.{key}"), layer.place.clone())));
    }
    places
}

/// The problem of a value that cannot be read; its own path if that is more precise than `key`.
fn unreadable(key: String, place: Place, error: ConfigError) -> Problem {
    match error {
        ConfigError::At { error, key: path, .. } => unreadable(dotted(path.unwrap_or(key)), place, *error),
        ConfigError::Type { unexpected, expected, key: path, .. } => {
            Problem { key: dotted(path.unwrap_or(key)), place, message: format!("{unexpected} is not {expected}") }
        }
        ConfigError::NotFound(path) => Problem { key: dotted(path), place, message: "is missing; set it".to_owned() },
        other => Problem { key, place, message: other.to_string() },
    }
}

/// A path with the dot between an index and the field after it, which `config` leaves out.
fn dotted(path: String) -> String {
    match path.split_once(']') {
        Some((list, field)) if field.starts_with(|c: char| c.is_ascii_lowercase()) => format!("{list}].{field}"),
        _ => path,
    }
}
