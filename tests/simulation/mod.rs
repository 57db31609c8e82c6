//! The promises about freshness, held against a simulated cluster that knows the truth: virtual time, everything that is
//! left to chance from one seed.
//!
//! `SIM_READS` (20,000) checked reads, spread over seeds that follow `SIM_SEED` (a random one). Reads that the promises refuse
//! are not counted.

mod checker;
mod watcher;
mod world;

use self::checker::Tally;
use self::world::World;
use crate::cluster::support::setting;
use rand::Rng;

/// Reads without `SIM_READS`; fewer may leave a promise unchecked.
const DEFAULT: u64 = 20_000;

/// Virtual seconds of one seed.
const SECONDS: u64 = 60;

#[test]
fn simulation() {
    let wanted = setting("SIM_READS").unwrap_or(DEFAULT);
    let first = setting("SIM_SEED").unwrap_or_else(|| u64::from(rand::rng().random::<u32>()));
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.reads() < wanted {
        let mut world = World::new(seed);
        world.run(SECONDS);
        tally.add(seed, world.into_tally());
        seed += 1;
    }
    println!("{tally}");
    println!("simulation: {} reads, {} violations, seed {first}", tally.reads(), tally.violations.len());
    assert!(tally.violations.is_empty(), "{:#?}", &tally.violations[..tally.violations.len().min(5)]);
    assert!(wanted < DEFAULT || tally.every_promise_was_checked(), "{tally}");
}
