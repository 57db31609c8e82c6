//! The one integration binary.

mod sql;
mod sql_properties;
