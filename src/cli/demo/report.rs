//! What the readers found, side by side.

use super::promises::{RECORDS, STALENESS};
use std::fmt;
use std::time::Duration;

/// Through what a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Native,
    Sidecar,
    /// Sidecars, with a token and the patience that it may need.
    Session,
}

/// What a bound promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    Offset = 0,
    Time = 1,
    Written = 2,
}

impl Promise {
    pub const ALL: [Promise; 3] = [Promise::Offset, Promise::Time, Promise::Written];

    fn describe(self) -> String {
        match self {
            Promise::Offset => format!("lacks at most {RECORDS} records"),
            Promise::Time => format!("complete up to {} s ago", STALENESS.as_secs()),
            Promise::Written => "holds what was written".to_owned(),
        }
    }
}

/// What became of a promise in one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    /// No replica kept it in time, and the client was told so.
    Refused,
    /// With the reason.
    Broken(String),
}

/// Counts of verdicts.
#[derive(Clone, Debug, Default)]
struct Verdicts {
    kept: usize,
    refused: usize,
    broken: Vec<String>,
}

/// What one read came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finding {
    /// A row.
    Read {
        /// Whether it is older than one that this reader saw before.
        back: bool,
        /// How long before the read the first write was made that it lacks.
        staleness: Duration,
    },
    /// No row of a key that exists.
    WrongEmpty,
    /// An error, or no answer, and what it said.
    Failed(String),
    /// No replica kept what the reader asked for, and it was told so.
    Refused,
    /// No answer within the limit.
    Hung,
}

#[derive(Debug, Default)]
struct Column {
    reads: usize,
    failed: usize,
    refused: usize,
    hung: usize,
    wrong_empty: usize,
    back: usize,
    staleness: Vec<Duration>,
    slowest: Duration,
    /// What the first failures said.
    failures: Vec<String>,
}

/// Failures whose words are kept.
const KEPT: usize = 5;

/// All reads so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    native: Column,
    sidecar: Column,
    session: Column,
    promises: [Verdicts; 3],
}

impl Tally {
    pub fn judge(&mut self, promise: Promise, verdict: Verdict) {
        let Some(verdicts) = self.promises.get_mut(promise as usize) else { return };
        match verdict {
            Verdict::Kept => verdicts.kept += 1,
            Verdict::Refused => verdicts.refused += 1,
            Verdict::Broken(why) => verdicts.broken.push(why),
        }
    }

    pub fn add(&mut self, side: Side, finding: &Finding, took: Duration) {
        let column = match side {
            Side::Native => &mut self.native,
            Side::Sidecar => &mut self.sidecar,
            Side::Session => &mut self.session,
        };
        column.reads += 1;
        column.slowest = column.slowest.max(took);
        match finding {
            Finding::Read { back, staleness } => {
                column.back += usize::from(*back);
                column.staleness.push(*staleness);
            }
            Finding::WrongEmpty => column.wrong_empty += 1,
            Finding::Failed(error) => {
                column.failed += 1;
                if column.failures.len() < KEPT {
                    column.failures.push(error.clone());
                }
            }
            Finding::Refused => column.refused += 1,
            Finding::Hung => column.hung += 1,
        }
    }

    /// Whether no read through a sidecar failed, hung or was wrong, none with a token went back in time, and no bound was
    /// broken.
    ///
    /// Without a token, reads that went back in time are shown and not judged: after the loss of an active its standby may
    /// be behind, and the sidecar answers from it where the servers themselves do not answer.
    pub fn promises_kept(&self) -> bool {
        let sound =
            |column: &Column| column.reads > 0 && column.failed == 0 && column.hung == 0 && column.wrong_empty == 0;
        let bounds = self.promises.iter().all(|promise| promise.broken.is_empty());
        sound(&self.sidecar) && sound(&self.session) && self.session.back == 0 && bounds
    }

    /// The totals in one line.
    pub fn line(&self) -> String {
        let bad = |column: &Column| column.failed + column.hung + column.wrong_empty;
        let (native, sidecar, session) = (&self.native, &self.sidecar, &self.session);
        format!(
            "native: {} reads, {} bad, {} back    sidecar: {} reads, {} bad, {} back    with tokens: {} reads, {} bad, {} back",
            native.reads,
            bad(native),
            native.back,
            sidecar.reads,
            bad(sidecar),
            sidecar.back,
            session.reads,
            bad(session),
            session.back
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [("native", &self.native), ("sidecar", &self.sidecar), ("with tokens", &self.session)];
        let mut row = |name: &str, value: &dyn Fn(&str, &Column) -> String| {
            let [native, sidecar, session] = columns.map(|(name, column)| value(name, column));
            writeln!(f, "{name:<22} {native:>12} {sidecar:>12} {session:>12}")
        };
        row("", &|name, _| name.to_owned())?;
        row("reads", &|_, column| column.reads.to_string())?;
        row("failed", &|_, column| column.failed.to_string())?;
        row("hung over 5 s", &|_, column| column.hung.to_string())?;
        row("wrong empties", &|_, column| column.wrong_empty.to_string())?;
        row("went back in time", &|_, column| column.back.to_string())?;
        row("refused, for that", &|_, column| column.refused.to_string())?;
        row("staleness p50, ms", &|_, column| millis(quantile(&column.staleness, 0.5)))?;
        row("staleness p99, ms", &|_, column| millis(quantile(&column.staleness, 0.99)))?;
        row("slowest read, ms", &|_, column| millis(column.slowest))?;
        writeln!(
            f,
            "A read that went back in time is older than one before: a standby took over for a lost active. Natively such reads often\n\
             fail or hang instead; with a token they wait for a replica that is not older, or are refused."
        )?;
        writeln!(f, "\n{:<25} {:>9} {:>12} {:>12}", "bounds, by sidecars", "kept", "broken", "refused")?;
        for promise in Promise::ALL {
            let Some(Verdicts { kept, refused, broken }) = self.promises.get(promise as usize) else { continue };
            writeln!(f, "{:<25} {kept:>9} {:>12} {refused:>12}", promise.describe(), broken.len())?;
            broken.iter().take(KEPT).try_for_each(|why| writeln!(f, "broken: {why}"))?;
        }
        self.sidecar.failures.iter().try_for_each(|failure| writeln!(f, "failed through a sidecar: {failure}"))
    }
}

fn millis(span: Duration) -> String {
    span.as_millis().to_string()
}

/// The value below which a share `q` of the samples lies.
fn quantile(samples: &[Duration], q: f64) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let index = ((sorted.len() as f64) * q) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_read_breaks_the_promise() {
        let good = Finding::Read { back: false, staleness: Duration::from_millis(3) };
        for (bad, kept) in [
            (good.clone(), true),
            (Finding::Failed(String::new()), false),
            (Finding::Hung, false),
            (Finding::WrongEmpty, false),
        ] {
            let mut tally = Tally::default();
            tally.add(Side::Sidecar, &good, Duration::from_millis(2));
            tally.add(Side::Session, &good, Duration::from_millis(2));
            tally.add(Side::Native, &Finding::Failed(String::new()), Duration::from_millis(2));
            tally.add(Side::Sidecar, &bad, Duration::from_millis(2));
            assert_eq!(tally.promises_kept(), kept, "{bad:?}");
        }
        assert!(!Tally::default().promises_kept(), "no reads prove nothing");
        for (verdict, kept) in [(Verdict::Kept, true), (Verdict::Refused, true), (Verdict::Broken("x".into()), false)] {
            let mut tally = Tally::default();
            tally.add(Side::Sidecar, &good, Duration::from_millis(2));
            tally.add(Side::Session, &good, Duration::from_millis(2));
            tally.judge(Promise::Time, verdict);
            assert_eq!(tally.promises_kept(), kept);
        }
        let mut tally = Tally::default();
        for (side, back) in [(Side::Sidecar, true), (Side::Session, false), (Side::Session, true)] {
            assert_eq!(tally.promises_kept(), tally.session.reads == 1);
            tally.add(side, &Finding::Read { back, staleness: Duration::ZERO }, Duration::ZERO);
        }
        assert!(!tally.promises_kept(), "a token forbids going back");
    }
}
