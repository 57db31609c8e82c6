//! The emulated cluster: its answers against those of real servers, its timelines, and every fault.

#[path = "emulator/captured.rs"]
mod captured;
#[path = "emulator/client.rs"]
pub mod client;
#[path = "emulator/exchanges.rs"]
mod exchanges;
#[path = "emulator/faults.rs"]
mod faults;
#[path = "emulator/pins.rs"]
mod pins;
#[path = "emulator/streams.rs"]
mod streams;
#[path = "emulator/timelines.rs"]
mod timelines;
