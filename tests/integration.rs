//! The one integration binary.

mod architecture;
mod behaviours;
mod cluster;
mod config;
mod control;
mod emulator;
mod http;
mod partition;
mod real_cluster;
mod replay;
mod scatter;
mod simulation;
mod sql;
mod sql_properties;
