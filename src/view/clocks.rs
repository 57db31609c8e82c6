//! The clocks of the other sidecars, as far as exchanges with them told.

use super::Interval;
use std::collections::HashMap;
use std::time::Duration;

/// One exchange with a sidecar: its clock stood at `theirs` at some moment between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockExchange {
    /// When the question was sent and the answer received.
    pub here: Interval,
    /// The other's monotonic clock when it answered, counted from its own epoch.
    pub theirs: Duration,
}

/// How long an exchange is preferred to a less exact one: clocks of two machines drift apart, by at most some 0.1 ms each
/// second.
const PREFERRED: Duration = Duration::from_secs(30);

/// How fast two clocks may drift apart.
const DRIFT: f64 = 200e-6;

/// The newest good exchange with each sidecar, by its incarnation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerClocks(HashMap<u64, ClockExchange>);

/// Incarnations remembered; each restart of a sidecar is a new one.
const KNOWN: usize = 1024;

impl PeerClocks {
    /// Takes in an exchange, unless the one known is more exact and still young.
    pub fn note(&mut self, incarnation: u64, exchange: ClockExchange) {
        let width = |exchange: &ClockExchange| exchange.here.to.since(exchange.here.from);
        let keeps = |known: &ClockExchange| {
            width(known) <= width(&exchange) && exchange.here.to.since(known.here.to) < PREFERRED
        };
        if self.0.get(&incarnation).is_some_and(keeps) {
            return;
        }
        if self.0.len() >= KNOWN && !self.0.contains_key(&incarnation) {
            let oldest = self.0.iter().min_by_key(|(_, exchange)| exchange.here.to).map(|(oldest, _)| *oldest);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(incarnation, exchange);
    }

    /// When a sidecar's clock stood at `theirs`, on this one's; `None` if it is not known, or that was before this one began.
    pub fn convert(&self, incarnation: u64, theirs: Duration) -> Option<Interval> {
        let ClockExchange { here, theirs: then } = self.0.get(&incarnation)?;
        let apart = then.abs_diff(theirs);
        let drift = apart.mul_f64(DRIFT);
        Some(match theirs.checked_sub(*then) {
            Some(later) => Interval { from: (here.from + later).back(drift), to: here.to + later + drift },
            None => Interval { from: here.from.back(apart + drift), to: here.to.back(apart) + drift },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Moment;

    fn exchange(from: u64, to: u64, theirs: u64) -> ClockExchange {
        let here = Interval { from: Moment::from_millis(from), to: Moment::from_millis(to) };
        ClockExchange { here, theirs: Duration::from_millis(theirs) }
    }

    #[test]
    fn a_time_lies_where_the_exchange_allows() {
        let mut clocks = PeerClocks::default();
        assert_eq!(clocks.convert(7, Duration::ZERO), None);
        clocks.note(7, exchange(1_000, 1_010, 500_000));
        let at = |theirs| clocks.convert(7, Duration::from_millis(theirs)).expect("known");
        assert_eq!(at(500_000), Interval { from: Moment::from_millis(1_000), to: Moment::from_millis(1_010) });
        let later = at(510_000);
        assert_eq!((later.from, later.to), (Moment::from_millis(10_998), Moment::from_millis(11_012)));
        let earlier = at(499_500);
        assert!(earlier.from <= Moment::from_millis(500) && earlier.to >= Moment::from_millis(510), "{earlier:?}");
    }

    #[test]
    fn the_more_exact_exchange_stays_while_it_is_young() {
        let mut clocks = PeerClocks::default();
        clocks.note(7, exchange(1_000, 1_002, 0));
        clocks.note(7, exchange(2_000, 2_050, 1_020));
        assert_eq!(clocks.0[&7], exchange(1_000, 1_002, 0));
        clocks.note(7, exchange(40_000, 40_050, 39_020));
        assert_eq!(clocks.0[&7], exchange(40_000, 40_050, 39_020));
    }
}
