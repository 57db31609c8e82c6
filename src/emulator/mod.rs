//! An emulated ksqlDB cluster: real HTTP, real offsets, the faults of real servers; for the demonstration and the tests.
//!
//! [`Model`] is the cluster without I/O, clock or chance but its seed: placement, changelogs, stores, lag reports, heartbeats,
//! the phases of a server's start and end. [`exchange`] asks it without sockets; [`Cluster`] puts it on real ports.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use ksqldb_sidecar::emulator::{Cluster, ClusterConfig, Fault};
//!
//! let cluster = Cluster::start(ClusterConfig::default()).await?;
//! let written = cluster.write("S", &"k1".into(), None)?;
//! cluster.inject(Fault::Crash(2));
//! let truth = cluster.truth("TL", &"k1".into());
//! assert_eq!(truth.last().and_then(|t| t.v), written.value);
//! # Ok(())
//! # }
//! ```
//!
//! Where it is simpler than a real server it is harsher, never kinder. Not emulated: TLS, authentication, `Upgrade: h2c`,
//! statements that make tables, and Schema Registry formats.

mod answer;
mod catalogue;
mod cluster;
mod config;
mod control;
mod datum;
mod envelope;
mod exchange;
mod fault;
mod http;
mod key;
mod model;
mod query;
mod serve;
mod statement;

pub use answer::{Answer, Arrives};
pub use cluster::{Cluster, ServerHandle};
pub use config::{ClusterConfig, Phases, Version};
pub use control::Control;
pub use exchange::{Ask, Exchange, exchange};
pub use fault::Fault;
pub use model::{Model, Position, State, Truth, WriteError};
pub use serve::{ServeOptions, serve, write_on};
