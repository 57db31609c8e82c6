//! When changelogs were created anew: their ends fell.

use super::Moment;
use super::report::Report;
use std::collections::HashMap;
use std::sync::Arc;

/// When each slot's changelog was last created anew, if ever; remembered for longer than reports are.
pub(super) type Begun = HashMap<(Arc<str>, u32), Moment>;

/// Watches the ends of changelogs.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    /// By query id and partition: the end that was last reported, and when that report was made, at the latest.
    ends: HashMap<Arc<str>, Vec<Option<(i64, Moment)>>>,
    begun: Arc<Begun>,
}

impl Epochs {
    /// By when each slot's changelog certainly was the one of now.
    pub fn begun(&self) -> Arc<Begun> {
        Arc::clone(&self.begun)
    }

    /// Forgets queries that are gone.
    pub fn retain(&mut self, lives: impl Fn(&str) -> bool) {
        self.ends.retain(|query, _| lives(query));
        if self.begun.keys().any(|(query, _)| !lives(query)) {
            Arc::make_mut(&mut self.begun).retain(|(query, _), _| lives(query));
        }
    }

    /// Takes in a host's newest report, and the one that the same process made before it.
    ///
    /// Ends never fall while a changelog lives. So it has been created anew if an end is smaller than that of the report
    /// before, as collections of one host do not overlap, or than one that was made before this report's sampling began.
    pub fn note(&mut self, report: &Report, before: Option<&Report>) {
        for (query_id, positions) in report.positions.iter() {
            if !self.ends.contains_key(query_id) {
                self.ends.insert(Arc::clone(query_id), Vec::new());
            }
            let Some(ends) = self.ends.get_mut(query_id) else { continue };
            ends.resize(positions.len().max(ends.len()), None);
            for (partition, (position, known)) in positions.iter().zip(ends).enumerate() {
                let Some(end) = position.map(|position| position.end) else { continue };
                let own = before.and_then(|before| Some((before, before.position(query_id, partition)?.end)));
                let fell = |earlier: i64, made: Moment, begun: Option<Moment>| {
                    end < earlier && begun.is_some_and(|begun| begun >= made)
                };
                let slot = || (Arc::clone(query_id), partition as u32);
                let anew = known.is_some_and(|(earlier, made)| fell(earlier, made, report.begun))
                    || own.is_some_and(|(before, earlier)| {
                        // another host's report may have shown this already
                        end < earlier && self.begun.get(&slot()).is_none_or(|begun| *begun <= before.seen)
                    });
                if anew {
                    Arc::make_mut(&mut self.begun).insert(slot(), report.seen);
                }
                if anew || known.is_none_or(|(earlier, _)| end > earlier) {
                    *known = Some((end, report.seen));
                }
            }
        }
    }
}
