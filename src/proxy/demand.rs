//! What a request says about freshness: by headers, or by members of its JSON.

use super::envelope::Envelope;
use crate::config::{Freshness, Level, Span};
use crate::view::TableInfo;
use http::HeaderMap;
use http::header::COOKIE;
use std::time::Duration;

/// What a client can say. The header wins over the JSON member, which may stand at the top level or among the request's
/// properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The member's name.
    pub member: &'static str,
    /// The header's name.
    pub header: &'static str,
    /// What its value is.
    pub takes: &'static str,
}

const OFFSET_LAG: Field = Field {
    member: "acceptable.offset.lag",
    header: "x-ksqldb-sidecar-max-offset-lag",
    takes: "a whole number of changelog records, 0 or more",
};
const TIME_LAG: Field =
    Field { member: "acceptable.time.lag", header: "x-ksqldb-sidecar-max-staleness", takes: DURATION };
const LEVEL: Field = Field { member: "read.level", header: "x-ksqldb-sidecar-level", takes: "latest, active or any" };
const WAIT: Field = Field { member: "wait.for.freshness", header: "x-ksqldb-sidecar-wait", takes: DURATION };
pub(super) const AFTER: Field = Field {
    member: "read.after",
    header: "x-ksqldb-sidecar-token",
    takes: "a token from an earlier answer's X-Ksqldb-Sidecar-Token, or the word written",
};
const DURATION: &str = "a duration such as 500ms or 2s, or a number of milliseconds";

/// The cookie that carries the token for clients that keep cookies.
pub(super) const TOKEN_COOKIE: &str = "ksqldb-sidecar-token";

/// Every field, in the order of the README.
pub const FIELDS: [Field; 5] = [OFFSET_LAG, TIME_LAG, LEVEL, WAIT, AFTER];

/// What a request asks, with the configuration's word where it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Most records that the answering replica may lack.
    pub max_offset_lag: Option<u64>,
    /// The answer must hold everything logged up to so long ago.
    pub max_staleness: Option<Duration>,
    /// Which replicas may answer.
    pub level: Level,
    /// How long to wait for a replica that keeps all this.
    pub wait: Duration,
    /// What the session has read before.
    pub token: Option<String>,
}

/// A value that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {value:?} is not {takes}")]
pub(super) struct BadDemand {
    place: &'static str,
    value: String,
    takes: &'static str,
}

/// What a request itself said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    max_offset_lag: Option<u64>,
    max_staleness: Option<Duration>,
    level: Option<Level>,
    wait: Option<Duration>,
    token: Option<String>,
}

impl Said {
    /// Reads a request's headers and members.
    pub fn read(headers: &HeaderMap, envelope: &Envelope) -> Result<Self, BadDemand> {
        Ok(Said {
            max_offset_lag: read(headers, envelope, OFFSET_LAG, offset_lag)?.or(envelope.max_offset_lag()),
            max_staleness: read(headers, envelope, TIME_LAG, duration)?,
            level: read(headers, envelope, LEVEL, |text| text.parse().ok())?,
            wait: read(headers, envelope, WAIT, duration)?,
            token: read(headers, envelope, AFTER, |text| Some(text.to_owned()))?.or_else(|| cookie(headers)),
        })
    }

    /// Whether it asks for what only a routed lookup keeps; the server's own bound on `/query` is the server's to keep.
    pub fn is_bound(&self, envelope: &Envelope) -> bool {
        let own_lag = self.max_offset_lag.is_some() && !envelope.server_keeps_bound();
        let token = self.token.as_deref().is_some_and(|token| !token.is_empty());
        own_lag || self.max_staleness.is_some() || token || self.level == Some(Level::Active)
    }

    /// Fills in what the configuration says of the table, then what the table was made with, then what is said of all.
    pub fn or(self, table: &TableInfo, config: &Freshness) -> Demand {
        let bounds = config.of_table(&table.name);
        let lag = || match bounds.max_offset_lag {
            Some(bound) => bound.get(),
            None => table.max_offset_lag.or(config.max_offset_lag.get()),
        };
        let staleness = || bounds.max_staleness.unwrap_or(config.max_staleness).get().map(|Span(span)| span);
        Demand {
            max_offset_lag: self.max_offset_lag.or_else(lag),
            max_staleness: self.max_staleness.or_else(staleness),
            level: self.level.unwrap_or(config.level),
            wait: self.wait.unwrap_or(config.wait).min(config.max_wait),
            token: self.token.filter(|token| !token.is_empty()),
        }
    }
}

/// A field's value: of the header, else of the JSON.
fn read<T>(
    headers: &HeaderMap,
    envelope: &Envelope,
    field: Field,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, BadDemand> {
    let (place, text) = match headers.get(field.header) {
        Some(value) => (field.header, String::from_utf8_lossy(value.as_bytes()).into_owned()),
        None => match envelope.asked(field.member) {
            Some(text) => (field.member, text.to_owned()),
            None => return Ok(None),
        },
    };
    match parse(text.trim()) {
        Some(value) => Ok(Some(value)),
        None => Err(BadDemand { place, value: text, takes: field.takes }),
    }
}

fn offset_lag(text: &str) -> Option<u64> {
    text.parse().ok().filter(|lag| i64::try_from(*lag).is_ok())
}

fn duration(text: &str) -> Option<Duration> {
    text.parse().map(Duration::from_millis).ok().or_else(|| humantime::parse_duration(text).ok())
}

/// The session's cookie.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == TOKEN_COOKIE).map(|(_, token)| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Endpoint;
    use super::*;
    use http::HeaderValue;

    fn said(headers: &[(&'static str, &str)], members: &str) -> Result<Said, BadDemand> {
        let body = format!("{{\"ksql\":\"S\"{members}}}");
        let envelope = Envelope::read(Endpoint::Query, body.into()).expect("understood");
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value")));
        Said::read(&headers.collect(), &envelope)
    }

    #[test]
    fn headers_win_over_members_wherever_these_stand() {
        for members in [
            r#","acceptable.time.lag":"2s""#,
            r#","streamsProperties":{"acceptable.time.lag":2000}"#,
            r#","requestProperties":{"acceptable.time.lag":"2000"}"#,
        ] {
            assert_eq!(
                said(&[], members).map(|said| said.max_staleness),
                Ok(Some(Duration::from_secs(2))),
                "{members}"
            );
            let header = said(&[("x-ksqldb-sidecar-max-staleness", "500ms")], members);
            assert_eq!(header.map(|said| said.max_staleness), Ok(Some(Duration::from_millis(500))), "{members}");
        }
        assert_eq!(said(&[("cookie", "a=b; ksqldb-sidecar-token=xyz")], "").map(|s| s.token), Ok(Some("xyz".into())));
        assert_eq!(said(&[], r#","read.level":"any""#).map(|said| said.level), Ok(Some(Level::Any)));
    }

    #[test]
    fn nonsense_is_refused_with_its_place_and_what_it_should_be() {
        for (header, member, value) in [
            ("x-ksqldb-sidecar-max-offset-lag", "acceptable.offset.lag", "-1"),
            ("x-ksqldb-sidecar-max-staleness", "acceptable.time.lag", "soon"),
            ("x-ksqldb-sidecar-level", "read.level", "best"),
            ("x-ksqldb-sidecar-wait", "wait.for.freshness", "1.5"),
        ] {
            let error = said(&[(header, value)], "").unwrap_err().to_string();
            assert!(error.starts_with(&format!("{header}: \"{value}\" is not ")), "{error}");
            let error = said(&[], &format!(",\"{member}\":\"{value}\"")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{member}: \"{value}\" is not ")), "{error}");
        }
    }
}
