//! The one integration binary.

mod partition;
mod replay;
mod sql;
mod sql_properties;
