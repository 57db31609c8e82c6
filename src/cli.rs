//! The command line.

mod check;
mod classify;
mod demo;
pub mod doctor;
mod drain;
mod emulate;
mod explain;
mod lines;
mod partition;

mod run;
mod told;
mod top;

pub use check::check;
pub use classify::classify;
pub use demo::demo;
pub use drain::drain;
pub use emulate::emulate;
pub use explain::explain;
pub use lines::answer_lines;
pub use partition::partition;

pub use run::run;
pub use top::top;

use crate::config::{BaseUrl, Flag, LoadOptions};
use clap::{Args, Parser, Subcommand};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Sends each keyed pull query on ksqlDB to the freshest live replica, from beside each unmodified server.
///
/// Clients use the sidecar's port in place of their server's. What is no keyed pull query passes through as it is.
#[derive(Clone, Debug, Parser)]
#[command(name = "ksqldb-sidecar", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the sidecar in front of a server
    Run(ConfigArgs),
    /// Validate the configuration and print it with where each value comes from
    ///
    /// Exits with 2, and every problem on standard error, if the sidecar would not start with it.
    Check(ConfigArgs),
    /// Have no query sent to the local server any more, and wait until it may be stopped
    ///
    /// Exits with 0 once no sidecar chooses the server and others hold a current replica of all that it holds. A restart of
    /// the server ends the drain.
    Drain(DrainArgs),
    /// Ask the servers of a cluster whether it is ready for sidecars, and report what to change
    ///
    /// Changes nothing. One server's address is enough, also from a laptop. Exits with 0 if there is nothing but notes, 1 if there
    /// are warnings or errors, and 2 if no server could be asked.
    Doctor(DoctorArgs),
    /// Show an emulated cluster behind sidecars while its servers fail, compared with reading from the servers
    ///
    /// Exits with 0 only if no read through a sidecar failed, hung or was wrongly empty, and none with a token went back in
    /// time.
    Demo(DemoArgs),
    /// Run the emulated ksqlDB cluster alone, to try clients and sidecars against
    Emulate(EmulateArgs),
    /// Show what the status page of a running sidecar shows, anew every second
    Top(TopArgs),
    /// Ask a running sidecar where a statement would go now, and why
    Explain(ExplainArgs),
    /// Tell the class of statements
    ///
    /// Reads one statement a line from standard input, with \n, \t, \r and \\ escaped. Writes one line for each: the class,
    /// a tab, and a JSON object with what was recognised.
    Classify,
    /// Tell the partitions of keys
    ///
    /// Reads one key a line from standard input: a literal such as 'a1' or 17, or A='a1' AND B=1 for a key of several
    /// columns. Writes its partition, or - where it cannot be known.
    Partition(PartitionArgs),
}

/// Where the configuration comes from: the defaults, below a file, below the environment, below flags.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "KSQLDB_SIDECAR_CONFIG")]
    pub config: Option<PathBuf>,
    /// Base address of the local server [default: http://localhost:8088]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Address of the client port [default: 0.0.0.0:8089]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address of the admin port [default: 0.0.0.0:8090]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Form of log lines: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

impl ConfigArgs {
    /// What to load: these arguments and the variables of this process.
    pub fn load_options(&self) -> LoadOptions {
        LoadOptions::from_process(self.config.clone(), self.flags())
    }

    /// The flags that were given, with the keys they set.
    pub fn flags(&self) -> Vec<Flag> {
        let flags = [
            ("--server", "server.url", &self.server),
            ("--listen", "listen.client", &self.listen),
            ("--admin", "listen.admin", &self.admin),
            ("--log-format", "log.format", &self.log_format),
        ];
        let given = flags.into_iter().filter_map(|(flag, key, value)| Some((flag, key, value.clone()?)));
        given.map(|(flag, key, value)| Flag { flag, key, value }).collect()
    }
}

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Configuration file (TOML) of a sidecar, for credentials and addresses of peers
    #[arg(long, value_name = "FILE", env = "KSQLDB_SIDECAR_CONFIG")]
    pub config: Option<PathBuf>,
    /// Base address of a server; may be given several times [default: http://localhost:8088]
    ///
    /// The others are found through the first that answers.
    #[arg(long, value_name = "URL")]
    pub server: Vec<String>,
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: doctor::Format,
    /// Longest time in which lag reports are watched
    #[arg(long, value_name = "DURATION", default_value = "12s", value_parser = humantime::parse_duration)]
    pub watch: Duration,
}

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Leave the cluster running afterwards, and print addresses and curl lines to try
    #[arg(long)]
    pub keep: bool,
    /// Length of the demonstration, 10 to 3600 s
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(10..=3600))]
    pub seconds: u64,
    /// Seed of keys, faults and their times [default: a random one, printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Arguments of `drain`.
#[derive(Clone, Debug, Args)]
pub struct DrainArgs {
    /// Admin address of the sidecar, on this machine
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8090")]
    pub admin: String,
    /// How long to wait until the server may be stopped, up to 10m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    /// Do not end sooner than this, so that clients elsewhere have time to notice
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub at_least: Duration,
    /// Only tell whether it would be safe now
    #[arg(long, conflicts_with = "end")]
    pub ready: bool,
    /// Take a drain back
    #[arg(long)]
    pub end: bool,
}

/// Arguments of `emulate`.
#[derive(Clone, Debug, Args)]
pub struct EmulateArgs {
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub servers: u16,
    /// Port of the first server, each next one is 10 higher; 0 for free ones, which are printed
    #[arg(long, value_name = "PORT", default_value_t = 8088)]
    pub port: u16,
    /// Port on which faults are injected and the state is shown; 0 for a free one, which is printed
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub control: u16,
    /// Records written each second; 0 for none
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub writes: u32,
    /// ksqlDB version whose behaviour is shown: 0.29.0, 7.4.0, 8.0.1 or 7.1.0
    #[arg(long, value_name = "VERSION", default_value = "0.29.0")]
    pub version: String,
    /// Partitions of each table
    #[arg(long, value_name = "N", default_value = "6")]
    pub partitions: NonZeroU32,
    /// Time between two lag reports of a server; servers' own default is 5s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub report_every: Duration,
    /// Tables to have, separated by commas [default: all that are emulated]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tables: Vec<String>,
    /// Seed of what happens by chance [default: a random one, printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Give the servers their default settings: no heartbeats, lag reports or standby reads
    #[arg(long)]
    pub defaults: bool,
    /// Setting of the servers, such as ksql.lag.reporting.enable=false; may be given several times
    ///
    /// Obeyed are heartbeats, lag reports and their interval, standby reads and replicas, the commit interval, the forwarding
    /// timeout, and ksql.pull.queries.enable. Others are only shown in LIST PROPERTIES.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Names of the servers in /clusterStatus, separated by commas [default: their addresses]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub advertise: Vec<String>,
    /// Version that one server tells in place of --version, such as 1=7.4.0; may be given several times
    #[arg(long, value_name = "SERVER=VERSION")]
    pub version_of: Vec<String>,
    /// Key format under which a table is listed, such as TL=AVRO; may be given several times
    #[arg(long, value_name = "TABLE=FORMAT")]
    pub key_format: Vec<String>,
}

/// Arguments of `top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Admin port of the sidecar, which tells decisions to its own machine only
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8090")]
    pub admin: BaseUrl,
    /// Show it once
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// Admin port of the sidecar, which explains statements to its own machine only
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8090")]
    pub admin: BaseUrl,
    /// The statement, or the JSON body of a query, with its bounds [default: standard input]
    pub statement: Option<String>,
}

/// Arguments of `partition`.
#[derive(Clone, Debug, Args)]
pub struct PartitionArgs {
    /// Type of the key, such as INT, or its columns, such as "A STRING, B INT"
    #[arg(long = "type", value_name = "TYPE")]
    pub types: String,
    /// Format of the key: KAFKA, JSON or DELIMITED
    #[arg(long, default_value = "KAFKA")]
    pub format: String,
    /// Number of partitions
    #[arg(long, value_name = "N")]
    pub partitions: NonZeroU32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_in_help_texts_are_those_of_the_configuration() {
        let help = Cli::command().find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for flag in ConfigArgs::flags(&ConfigArgs {
            config: None,
            server: Some(String::new()),
            listen: Some(String::new()),
            admin: Some(String::new()),
            log_format: Some(String::new()),
        }) {
            let reference = crate::config::reference().into_iter().find(|known| known.key() == flag.key).unwrap();
            let default = reference.default.trim_matches('"');
            assert!(help.contains(&format!("[default: {default}]")), "{}: {default}\n{help}", flag.flag);
        }
    }

    #[test]
    fn a_running_sidecar_is_looked_for_at_the_default_admin_port() {
        let reference = crate::config::reference().into_iter().find(|known| known.key() == "listen.admin").unwrap();
        let (_, port) = reference.default.trim_matches('"').rsplit_once(':').unwrap();
        for command in ["top", "explain"] {
            let cli = Cli::try_parse_from(["ksqldb-sidecar", command]).unwrap();
            let (Command::Top(TopArgs { admin, .. }) | Command::Explain(ExplainArgs { admin, .. })) = cli.command
            else {
                panic!("{:?}", cli.command)
            };
            assert_eq!(admin.to_string(), format!("http://127.0.0.1:{port}"));
        }
    }

    #[test]
    fn only_given_flags_set_keys() {
        let cli = Cli::try_parse_from(["ksqldb-sidecar", "run", "--server", "http://ksql-1:8088"]).unwrap();
        let Command::Run(args) = cli.command else { panic!("{:?}", cli.command) };
        let expected = Flag { flag: "--server", key: "server.url", value: "http://ksql-1:8088".to_owned() };
        assert_eq!(args.flags(), [expected]);
    }
}
