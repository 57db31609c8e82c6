//! What was read, what it should have been.

use std::fmt;

/// What a read was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    Offset = 0,
    Time = 1,
    Session = 2,
    Written = 3,
    Absence = 4,
    Epoch = 5,
}

const NAMES: [&str; 6] = ["offset bound", "time bound", "session", "written", "absence", "epoch"];

#[derive(Debug, Default)]
pub struct Tally {
    kept: [u64; 6],
    /// Plans without a replica that keeps the promise.
    refused: [u64; 6],
    /// Reads that the server refused or left unanswered.
    unanswered: u64,
    pub violations: Vec<String>,
}

impl Tally {
    pub fn check(&mut self, promise: Promise, kept: bool, what: impl FnOnce() -> String) {
        self.kept[promise as usize] += 1;
        if !kept {
            self.violations.push(format!("{}: {}", NAMES[promise as usize], what()));
        }
    }

    pub fn refuse(&mut self, promise: Promise) {
        self.refused[promise as usize] += 1;
    }

    pub fn unanswered(&mut self) {
        self.unanswered += 1;
    }

    pub fn reads(&self) -> u64 {
        self.kept.iter().sum()
    }

    /// A promise that is never checked, or always refused, is not proven.
    pub fn every_promise_was_checked(&self) -> bool {
        self.kept.iter().all(|kept| *kept > 0) && self.refused[..4].iter().all(|refused| *refused > 0)
    }

    pub fn add(&mut self, seed: u64, other: Tally) {
        for place in 0..self.kept.len() {
            self.kept[place] += other.kept[place];
            self.refused[place] += other.refused[place];
        }
        self.unanswered += other.unanswered;
        self.violations.extend(other.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in NAMES.iter().enumerate() {
            writeln!(f, "{name:<14} {:>9} checked {:>9} refused", self.kept[place], self.refused[place])?;
        }
        write!(f, "{} unanswered", self.unanswered)
    }
}
