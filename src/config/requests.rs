//! `[requests]`, `[absence]` and `[upstream]`: what the request path obeys.

use super::ByteSize;
use super::choice::choice;
use serde::Deserialize;
use std::time::Duration;

/// The way of a pull query through its attempts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Longest time to an answer, all attempts together.
    #[serde(with = "humantime_serde")]
    pub deadline: Duration,
    /// Least time an attempt is given to its first body byte.
    #[serde(with = "humantime_serde")]
    pub attempt_floor: Duration,
    /// Most time an attempt is given to its first body byte while another candidate remains.
    #[serde(with = "humantime_serde")]
    pub attempt_ceiling: Duration,
    /// Longest time that a request refused by every replica for a passing reason keeps asking again.
    #[serde(with = "humantime_serde")]
    pub patience: Duration,
    /// Retries allowed for each request, as a share between 0 and 1.
    pub retry_budget_ratio: f64,
    /// Retries allowed each second whatever the number of requests.
    pub retry_budget_min_per_second: u32,
    /// Attempts that one server is given at once, at most.
    pub max_concurrent_per_server: u32,
    /// Attempts beside a slow one allowed for each lookup, as a share between 0 and 1.
    pub hedge_ratio: f64,
    /// Least time that the first attempt is given before one is made beside it.
    #[serde(with = "humantime_serde")]
    pub hedge_floor: Duration,
    /// Largest answer to a lookup that is held to its end.
    pub held_answer: ByteSize,
    /// Whether scans, ranges and lists of keys are asked partition by partition.
    pub scatter: bool,
    /// Largest part of such an answer, which is what one server gives of it.
    pub scatter_part: ByteSize,
    /// What all such answers under way may hold together.
    pub scatter_memory: ByteSize,
}

choice! {
    /// What an empty answer needs.
    pub enum AbsenceMode {
        /// Proof that its replica has the partition.
        Prove = "prove",
        /// Nothing; unproven answers are counted.
        Trust = "trust",
    }
}

/// Empty answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// What they need.
    pub mode: AbsenceMode,
    /// Most proofs under way at once.
    pub max_in_flight: usize,
    /// Longest wait for one proof.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

/// Connections to the servers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Most idle HTTP/1.1 connections kept to each server.
    pub max_idle_per_host: usize,
    /// Time after which an idle connection is closed.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
}
