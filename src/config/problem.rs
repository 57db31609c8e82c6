//! What can be wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `config/sidecar.toml`.
    Default,
    /// A file.
    File(PathBuf),
    /// A variable of the environment, by name.
    Environment(String),
    /// A flag, as typed.
    Flag(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Default => f.write_str("default"),
            Place::File(path) => write!(f, "file {}", path.display()),
            Place::Environment(name) => write!(f, "environment {name}"),
            Place::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, as `section.key`; empty when the whole place is meant.
    pub key: String,
    /// Where its value comes from.
    pub place: Place,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}: {}", self.place, self.message),
            key => write!(f, "{key} ({}): {}", self.place, self.message),
        }
    }
}

/// Everything that is wrong with a configuration; at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<Problem>);

impl ConfigErrors {
    pub(super) fn one(problem: Problem) -> Self {
        Self(vec![problem])
    }

    /// An error if there is any problem; they are put in the order of their keys.
    pub(super) fn check(mut problems: Vec<Problem>) -> Result<(), Self> {
        problems.sort_by(|one, other| one.key.cmp(&other.key));
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }

    /// The problems, in the order of their keys.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "the configuration has {} problem{plural}", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigErrors {}
