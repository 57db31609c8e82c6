//! What the readers found, side by side.

use std::fmt;
use std::time::Duration;

/// Through what a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Native,
    Sidecar,
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
    /// No answer within the limit.
    Hung,
}

#[derive(Debug, Default)]
struct Column {
    reads: usize,
    failed: usize,
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
}

impl Tally {
    pub fn add(&mut self, side: Side, finding: &Finding, took: Duration) {
        let column = match side {
            Side::Native => &mut self.native,
            Side::Sidecar => &mut self.sidecar,
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
            Finding::Hung => column.hung += 1,
        }
    }

    /// Whether no read through a sidecar failed, hung or was wrong.
    ///
    /// Reads that went back in time are shown and not judged: after the loss of an active its standby may be behind, and
    /// nothing but a token can forbid that.
    pub fn promises_kept(&self) -> bool {
        let column = &self.sidecar;
        column.reads > 0 && column.failed == 0 && column.hung == 0 && column.wrong_empty == 0
    }

    /// The totals in one line.
    pub fn line(&self) -> String {
        let bad = |column: &Column| column.failed + column.hung + column.wrong_empty;
        let (native, sidecar) = (&self.native, &self.sidecar);
        format!(
            "native: {} reads, {} bad, {} back    sidecar: {} reads, {} bad, {} back",
            native.reads,
            bad(native),
            native.back,
            sidecar.reads,
            bad(sidecar),
            sidecar.back
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: &dyn Fn(&Column) -> String| {
            writeln!(f, "{name:<22} {:>12} {:>12}", value(&self.native), value(&self.sidecar))
        };
        row("", &|column| if std::ptr::eq(column, &self.native) { "native" } else { "sidecar" }.to_owned())?;
        row("reads", &|column| column.reads.to_string())?;
        row("failed", &|column| column.failed.to_string())?;
        row("hung over 5 s", &|column| column.hung.to_string())?;
        row("wrong empties", &|column| column.wrong_empty.to_string())?;
        row("went back in time", &|column| column.back.to_string())?;
        row("staleness p50, ms", &|column| millis(quantile(&column.staleness, 0.5)))?;
        row("staleness p99, ms", &|column| millis(quantile(&column.staleness, 0.99)))?;
        row("slowest read, ms", &|column| millis(column.slowest))?;
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
            tally.add(Side::Native, &Finding::Failed(String::new()), Duration::from_millis(2));
            tally.add(Side::Sidecar, &bad, Duration::from_millis(2));
            assert_eq!(tally.promises_kept(), kept, "{bad:?}");
        }
        assert!(!Tally::default().promises_kept(), "no reads prove nothing");
    }
}
