//! Answers as the servers write them, byte for byte where they are deterministic.

mod cluster_status;
mod describe;
mod error;
mod ksql;
mod rows;
mod types;

pub use cluster_status::{cluster_status, info};
pub use error::{generic, refusal, statement_error};
pub use ksql::ksql;
pub use rows::{Shape, delimited_value, fields_json, header, render, row};

use std::time::Duration;

/// An answer that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The Content-Type, if it has one.
    pub content_type: Option<&'static str>,
    /// Whether it is chunked, else it has a Content-Length.
    pub chunked: bool,
    /// The body.
    pub body: String,
    /// How much longer it takes.
    pub delay: Duration,
    /// Whether all of it arrives.
    pub arrives: Arrives,
}

/// How much of an answer arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrives {
    /// All.
    #[default]
    Whole,
    /// The head and half the body; then the connection breaks.
    Half,
    /// The head; then nothing happens.
    Head,
}

/// The Content-Type of everything but rows.
pub const JSON: &str = "application/json";

impl Answer {
    /// In chunks, without a Content-Type.
    pub fn chunked(status: u16, body: String) -> Self {
        Answer { content_type: None, chunked: true, ..Answer::json(status, body) }
    }

    /// JSON with a Content-Length.
    pub fn json(status: u16, body: String) -> Self {
        Answer {
            status,
            content_type: Some(JSON),
            chunked: false,
            body,
            delay: Duration::ZERO,
            arrives: Arrives::Whole,
        }
    }
}
