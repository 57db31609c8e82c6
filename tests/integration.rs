//! The one integration binary.

mod emulator;
mod http;
mod partition;
mod replay;
mod sql;
mod sql_properties;
