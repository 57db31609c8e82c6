//! The commands that answer each line of standard input with a line.

use std::io::{self, BufRead, Write};

/// Writes `answer(line)` as a line for each line of `input`, as soon as it has been read.
///
/// # Errors
/// When `input` cannot be read or is not UTF-8, or `output` cannot be written.
pub fn answer_lines(
    input: impl BufRead,
    mut output: impl Write,
    mut answer: impl FnMut(&str) -> String,
) -> io::Result<()> {
    for line in input.lines() {
        writeln!(output, "{}", answer(&line?))?;
        output.flush()?;
    }
    Ok(())
}
