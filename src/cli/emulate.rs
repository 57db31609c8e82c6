//! `ksqldb-sidecar emulate`.

use super::EmulateArgs;
use crate::emulator::{ClusterConfig, ServeOptions, Version, serve};
use std::error::Error;
use std::str::FromStr;

/// Runs the emulated cluster until ctrl-c.
///
/// # Errors
/// When the version is none that is emulated, or a port cannot be bound.
pub fn emulate(args: &EmulateArgs) -> Result<(), Box<dyn Error>> {
    let seed = args.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let base = if args.defaults { ClusterConfig::server_defaults() } else { ClusterConfig::default() };
    let ports = match args.port {
        0 => Vec::new(),
        first => {
            let port = |place: u16| first.checked_add(place.checked_mul(10)?);
            (0..args.servers).map(port).collect::<Option<_>>().ok_or("--port is too high for so many servers")?
        }
    };
    let mut cluster = ClusterConfig {
        servers: usize::from(args.servers),
        version: Version::from_str(&args.version)?,
        partitions: args.partitions.get(),
        tables: args.tables.clone(),
        lag_report_interval: args.report_every,
        seed,
        ports,
        advertised: args.advertise.clone(),
        ..base
    };
    for (server, version) in pairs(&args.version_of, "--version-of")? {
        cluster.other_versions.insert(server.parse()?, Version::from_str(version)?);
    }
    for (table, format) in pairs(&args.key_format, "--key-format")? {
        cluster.key_formats.insert(table.to_owned(), format.to_owned());
    }
    for (name, value) in pairs(&args.set, "--set")? {
        cluster.set(name, value)?;
    }
    let options = ServeOptions { cluster, control_port: args.control, writes_per_second: args.writes };
    let stop = async {
        let _ = tokio::signal::ctrl_c().await; // without signals it runs until it is killed
    };
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(options, stop))?)
}

/// The two sides of each `NAME=VALUE`.
fn pairs<'a>(given: &'a [String], flag: &str) -> Result<Vec<(&'a str, &'a str)>, String> {
    let pair = |text: &'a String| text.split_once('=').ok_or_else(|| format!("{flag} takes NAME=VALUE, not {text:?}"));
    given.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_their_first_equals_sign() {
        let given = ["a=b=c".to_owned(), "a=".to_owned()];
        assert_eq!(pairs(&given, "--set"), Ok(vec![("a", "b=c"), ("a", "")]));
        assert_eq!(pairs(&["a".to_owned()], "--set"), Err("--set takes NAME=VALUE, not \"a\"".to_owned()));
    }
}
