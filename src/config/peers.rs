//! `[peers]`.

use super::BaseUrl;
use super::choice::choice;
use super::server::non_empty;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

choice! {
    /// How peers are found.
    pub enum Discovery {
        /// The hosts of `/clusterStatus` that answer under their name.
        Cluster = "cluster",
        /// Every address of a host name.
        Dns = "dns",
        /// A list.
        Static = "static",
    }
}

/// The other servers of the cluster and the sidecars beside them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peers {
    /// How they are found.
    pub discovery: Discovery,
    /// Admin port of the other sidecars, under their servers' host names.
    pub sidecar_port: u16,
    /// Host name whose addresses are the servers; set when `discovery` is `Dns`.
    #[serde(deserialize_with = "non_empty")]
    pub dns_name: Option<String>,
    /// Port of the servers behind `dns_name`.
    pub server_port: u16,
    /// The peers when `discovery` is `Static`.
    #[serde(rename = "static")]
    pub static_peers: Vec<StaticPeer>,
    /// Name in `/clusterStatus` (`host:port`) -> address dialled in its place.
    pub names: BTreeMap<String, BaseUrl>,
    /// Time between two looks for peers.
    #[serde(with = "humantime_serde")]
    pub refresh_interval: Duration,
}

/// One peer of a static list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticPeer {
    /// Base address of the server.
    pub server: BaseUrl,
    /// Base address of its sidecar's admin port; `None` for [`Peers::sidecar_port`] on the server's host.
    pub sidecar: Option<BaseUrl>,
    /// Its name in `/clusterStatus`; `None` for the authority of `server`.
    pub name: Option<String>,
}

impl StaticPeer {
    /// The keys of an entry, for messages.
    pub(super) const KEYS: [&str; 3] = ["server", "sidecar", "name"];
}
