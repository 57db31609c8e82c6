//! The one integration binary.

mod architecture;
mod behaviours;
mod cluster;
mod config;
mod control;
mod doctor;
mod emulator;
mod http;
mod page;
mod partition;
mod real_cluster;
mod replay;
mod scatter;
mod simulation;
mod sql;
mod sql_properties;
mod survival;
