//! `[freshness]`: how fresh a replica must be, where a request does not say.

use super::choice::choice;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

choice! {
    /// Which replicas may answer.
    pub enum Level {
        /// Any live one within the bounds, the freshest first.
        Latest = "latest",
        /// Only the active.
        Active = "active",
        /// Any live one within the bounds, the least busy first.
        Any = "any",
    }
}

choice! {
    /// What happens when no replica keeps a bound.
    pub enum OnUnmet {
        /// The request is refused with 503, each replica with its reason.
        Fail = "fail",
        /// The freshest replica answers, and the answer says so.
        Degrade = "degrade",
    }
}

choice! {
    /// How answers carry tokens.
    pub enum Tokens {
        /// As `X-Ksqldb-Sidecar-Token`.
        Header = "header",
        /// As a cookie too, for clients that keep cookies.
        Cookie = "cookie",
        /// Not at all.
        Off = "off",
    }
}

choice! {
    /// What a session's token holds its reads to.
    pub enum SessionMode {
        /// Never older than what the session has read.
        Monotonic = "monotonic",
        /// The host that the session read last, while it lives.
        Sticky = "sticky",
    }
}

/// How fresh a replica must be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freshness {
    /// Most changelog records that the answering replica may lack.
    pub max_offset_lag: Bound<u64>,
    /// The answer holds everything that was logged up to so long ago.
    pub max_staleness: Bound<Span>,
    /// Which replicas may answer.
    pub level: Level,
    /// How long a request waits for a replica that keeps its bounds.
    #[serde(with = "humantime_serde")]
    pub wait: Duration,
    /// Longest such wait that a request may ask for.
    #[serde(with = "humantime_serde")]
    pub max_wait: Duration,
    /// Most requests that wait at once.
    pub max_waiting: usize,
    /// What happens when no replica keeps a bound.
    pub on_unmet: OnUnmet,
    /// How answers carry tokens.
    pub tokens: Tokens,
    /// What a token holds the reads of its session to.
    pub session: SessionMode,
    /// Share of lookups that are asked again of a second replica.
    pub audit: f64,
    /// Bounds of single tables, by name or pattern.
    pub tables: BTreeMap<String, TableBounds>,
}

/// The bounds of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableBounds {
    /// As [`Freshness::max_offset_lag`].
    pub max_offset_lag: Option<Bound<u64>>,
    /// As [`Freshness::max_staleness`].
    pub max_staleness: Option<Bound<Span>>,
}

impl Freshness {
    /// The bounds of a table that was made with the offset bound `made_with`: what is said of the table, then what it was
    /// made with, then what is said of all.
    pub fn in_force(&self, table: &str, made_with: Option<u64>) -> InForce {
        let own = self.of_table(table);
        let of_all = self.max_offset_lag.get().map(|lag| (lag, "freshness.max_offset_lag"));
        let staleness = |bound: Bound<Span>, place| bound.get().map(|Span(span)| (span, place));
        InForce {
            max_offset_lag: match own.max_offset_lag {
                Some(bound) => bound.get().map(|lag| (lag, "freshness.tables")),
                None => made_with.map(|lag| (lag, "ACCEPTABLE_OFFSET_LAG")).or(of_all),
            },
            max_staleness: match own.max_staleness {
                Some(bound) => staleness(bound, "freshness.tables"),
                None => staleness(self.max_staleness, "freshness.max_staleness"),
            },
        }
    }

    /// The bounds of a table, by the metastore's spelling: those of its name, else of the longest pattern that fits.
    pub fn of_table(&self, table: &str) -> TableBounds {
        let fitting = self.tables.iter().filter(|(pattern, _)| fits(pattern, table));
        let nearest = fitting.max_by_key(|(pattern, _)| (*pattern == table, pattern.len()));
        nearest.map(|(_, bounds)| *bounds).unwrap_or_default()
    }
}

/// The bounds of a table's reads where the request says nothing, each with the place that set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// As [`Freshness::max_offset_lag`].
    pub max_offset_lag: Option<(u64, &'static str)>,
    /// As [`Freshness::max_staleness`].
    pub max_staleness: Option<(Duration, &'static str)>,
}

/// Whether a name fits a pattern, in which `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut tail) = name.strip_prefix(head) else { return false };
    let mut parts = rest.split('*').collect::<Vec<_>>();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = tail.find(part) else { return false };
        tail = tail.get(at + part.len()..).unwrap_or_default();
    }
    tail.ends_with(last)
}

/// A bound, or none: "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String", bound = "T: Unit")]
pub struct Bound<T>(Option<T>)
where
    T: Unit;

/// What bounds are counted in.
pub trait Unit: FromStr {
    /// What a text should have been.
    const TAKES: &'static str;
}

impl Unit for u64 {
    const TAKES: &'static str = "a number of records";
}

/// A duration as operators write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Unit for Span {
    const TAKES: &'static str = "a duration such as 2s";
}

impl FromStr for Span {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text).map(Span)
    }
}

impl<T: Unit> Bound<T> {
    /// The bound; `None` when there is none.
    pub fn get(self) -> Option<T> {
        self.0
    }
}

impl<T: Unit> TryFrom<String> for Bound<T> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "unlimited" => Ok(Bound(None)),
            text => text
                .parse()
                .map(|bound| Bound(Some(bound)))
                .map_err(|_| format!("{text:?} is neither \"unlimited\" nor {}", T::TAKES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pattern_that_fits_a_table_counts() {
        for (pattern, name, expected) in [
            ("ORDERS", "ORDERS", true),
            ("ORDERS", "ORDERS2", false),
            ("ORDERS*", "ORDERS_BY_DAY", true),
            ("*", "", true),
            ("*_BY_*", "ORDERS_BY_DAY", true),
            ("*_BY_*X", "ORDERS_BY_DAY", false),
            ("A*A", "A", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn bounds_are_numbers_durations_or_none() {
        assert_eq!(Bound::<u64>::try_from("10".to_owned()).map(Bound::get), Ok(Some(10)));
        assert_eq!(Bound::<Span>::try_from("2s".to_owned()).map(Bound::get), Ok(Some(Span(Duration::from_secs(2)))));
        assert_eq!(Bound::<Span>::try_from("unlimited".to_owned()).map(Bound::get), Ok(None));
        let error = Bound::<Span>::try_from("2".to_owned()).unwrap_err();
        assert!(error.contains("a duration such as 2s"), "{error}");
    }
}
