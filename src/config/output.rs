//! `[answers]` and `[log]`: what the sidecar shows.

use super::choice::choice;
use serde::Deserialize;

/// What is added to answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// Whether answers carry the `X-Ksqldb-Sidecar-*` headers.
    pub headers: bool,
}

choice! {
    /// The form of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One object a line.
        Json = "json",
    }
}

/// Log lines.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Their form.
    pub format: LogFormat,
    /// Least severe level written, or a filter of `tracing-subscriber`.
    pub level: String,
    /// Whether each request is logged, with target `access`.
    pub access: bool,
    /// Routing decisions kept in memory.
    pub decisions: usize,
}
