//! `ksqldb-sidecar classify`.

use super::answer_lines;
use crate::sql;
use std::io::{self, BufRead, Write};

/// Answers each escaped statement with its class, a tab, and what was recognised.
///
/// # Errors
/// When `input` cannot be read or is not UTF-8, or `output` cannot be written.
pub fn classify(input: impl BufRead, output: impl Write) -> io::Result<()> {
    answer_lines(input, output, sql::explain_line)
}
