//! The one integration binary.

mod http;
mod partition;
mod replay;
mod sql;
mod sql_properties;
