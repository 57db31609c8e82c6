//! The one clock: the runtime's, so that tests can pause it.

use crate::view::Moment;
use tokio::time::Instant;

/// Turns the runtime's instants into [`Moment`]s counted from the clock's creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn start() -> Self {
        Clock { epoch: Instant::now() }
    }

    /// The moment of now.
    pub fn now(&self) -> Moment {
        Moment::after_epoch(self.epoch.elapsed())
    }

    /// The runtime's instant of a moment, for its timers.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.epoch + moment.since_epoch()
    }
}
