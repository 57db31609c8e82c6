//! `config/sidecar.toml` read as documentation: the known keys in order, with default and text.

use super::DEFAULTS;

/// One documented key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its section.
    pub section: &'static str,
    /// Its name in the section.
    pub name: &'static str,
    /// Its default, as TOML.
    pub default: &'static str,
    /// The comment above it; the first sentence says what it is, the rest its effect and bounds. Empty if there is none.
    pub text: &'static str,
}

impl Reference {
    /// `section.name`.
    pub fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// The keys of the embedded file, each on one line with a one-line comment above it, in its order.
pub fn reference() -> Vec<Reference> {
    let (mut keys, mut section, mut text) = (Vec::new(), "", "");
    for line in DEFAULTS.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            text = comment.trim();
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((name, default)) = line.split_once('=') {
            keys.push(Reference { section, name: name.trim(), default: default.trim(), text });
        }
        text = "";
    }
    keys
}
