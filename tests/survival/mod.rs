//! Faults that clients do not notice: how soon they are seen, and what becomes of requests meanwhile.

mod chaos;
mod drain;
mod process;
mod restart;
