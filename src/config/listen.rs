//! `[listen]` and `[shutdown]`.

use super::ByteSize;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;

/// The two ports.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Where clients connect.
    pub client: SocketAddr,
    /// Where peers, Prometheus and the kubelet connect.
    pub admin: SocketAddr,
    /// Whether another sidecar may listen on the same ports, to take over from this one.
    pub reuse_port: bool,
    /// Threads that serve requests and run the control loops.
    pub workers: usize,
    /// Most connections open on the client port at once.
    pub max_connections: usize,
    /// Largest request line and headers.
    pub max_header_bytes: ByteSize,
    /// Longest wait for them.
    #[serde(with = "humantime_serde")]
    pub header_timeout: Duration,
    /// Largest request body that is read to find a statement; larger ones are streamed through.
    pub max_inspected_body: ByteSize,
}

/// The end of the process.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// Longest time that requests under way are given after SIGTERM.
    #[serde(with = "humantime_serde")]
    pub grace: Duration,
}
