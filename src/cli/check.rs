//! `ksqldb-sidecar check`.

use crate::config::{Effective, LoadOptions};
use std::error::Error;
use std::io::Write;

/// Validates a configuration and prints it as TOML with where each value comes from.
///
/// # Errors
/// [`ConfigErrors`](crate::config::ConfigErrors) with every problem of the configuration, or an error of `output`.
pub fn check(options: LoadOptions, output: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let effective = Effective::load(options)?;
    write!(output, "{effective}")?;
    Ok(())
}
