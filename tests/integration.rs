//! The one integration binary.

mod partition;
mod sql;
mod sql_properties;
