//! What the operator said: typed, documented, and validated before any port is bound.
//!
//! `config/sidecar.toml` is both the documentation of every key and the source of every default. [`Config::load`] lays a
//! file, the environment and flags over it and reports everything that is wrong with them at once.

mod choice;
mod credentials;
mod effective;
mod freshness;
mod health;
mod known;
mod layer;
mod listen;
mod load;
mod output;
mod peers;
mod problem;
mod reference;
mod requests;
mod server;
mod size;
mod url;
mod validate;

pub use choice::NotAChoice;
pub use credentials::Credentials;
pub use effective::Effective;
pub use freshness::{Bound, Freshness, InForce, Level, OnUnmet, SessionMode, Span, TableBounds, Tokens};
pub use health::{Catalogue, Health, Lag};
pub use layer::Flag;
pub use listen::{Listen, Shutdown};
pub use load::LoadOptions;
pub use output::{Answers, Log, LogFormat};
pub use peers::{Discovery, Peers, StaticPeer};
pub use problem::{ConfigErrors, Place, Problem};
pub use reference::{Reference, reference};
pub use requests::{Absence, AbsenceMode, Requests, Upstream};
pub use server::Server;
pub use size::ByteSize;
pub use url::BaseUrl;

use serde::Deserialize;

/// The documented defaults.
pub const DEFAULTS: &str = include_str!("../../config/sidecar.toml");

/// Everything an operator can set. The fields are the sections of `config/sidecar.toml`, which has their bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub listen: Listen,
    pub server: Server,
    pub peers: Peers,
    pub health: Health,
    pub lag: Lag,
    pub catalogue: Catalogue,
    pub requests: Requests,
    pub absence: Absence,
    pub freshness: Freshness,
    pub upstream: Upstream,
    pub answers: Answers,
    pub log: Log,
    pub shutdown: Shutdown,
}

impl Config {
    /// Reads the defaults and lays file, environment and flags over them.
    ///
    /// # Errors
    /// Every problem of the configuration, each with its place and remedy.
    pub fn load(options: LoadOptions) -> Result<Self, ConfigErrors> {
        Effective::load(options).map(|effective| effective.config)
    }
}
