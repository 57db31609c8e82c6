//! Routes ksqlDB pull queries to the freshest live replica, from beside each unmodified server.
//!
//! The modules stand in the order in which a request meets them: reading this file top to bottom is following a request.

pub mod config;
pub mod http;
pub mod sql;
pub mod partition;
pub mod view;
pub mod route;
pub mod proxy;
pub mod control;
pub mod admin;
pub mod telemetry;
pub mod emulator;

pub mod app;
pub mod cli;
pub mod clock;
pub mod error;
