//! `[requests]`, `[absence]`, `[freshness]` and `[upstream]`: what the request path obeys.

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
    /// Largest answer to a lookup that is held to its end.
    pub held_answer: ByteSize,
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

/// How fresh a replica must be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freshness {
    /// Most changelog records that the chosen replica may lack.
    pub max_offset_lag: OffsetBound,
}

/// A bound on offset lag: a number of changelog records, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OffsetBound(Option<u64>);

impl OffsetBound {
    /// No bound.
    pub const UNLIMITED: Self = Self(None);

    /// A bound of so many records.
    pub const fn records(records: u64) -> Self {
        Self(Some(records))
    }

    /// The bound in records; `None` when there is none.
    pub const fn get(self) -> Option<u64> {
        self.0
    }
}

impl TryFrom<String> for OffsetBound {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::UNLIMITED);
        }
        text.parse()
            .map(Self::records)
            .map_err(|_| format!("{text:?} is neither \"unlimited\" nor a number of records"))
    }
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
