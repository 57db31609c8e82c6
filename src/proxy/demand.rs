//! What a request says about freshness: by headers, or by members of its JSON.

use super::envelope::{Envelope, MAX_LAG};
use crate::config::{Freshness, Level};
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
const DEADLINE: Field = Field { member: "request.deadline", header: "x-ksqldb-sidecar-deadline", takes: DURATION };
const DURATION: &str = "a duration such as 500ms or 2s, or a number of milliseconds";

/// How the headers begin.
const HEADER_PREFIX: &str = "x-ksqldb-sidecar-";

/// The cookie that carries the token for clients that keep cookies.
pub(super) const TOKEN_COOKIE: &str = "ksqldb-sidecar-token";

/// Every field, in the order of the README.
pub const FIELDS: [Field; 6] = [OFFSET_LAG, TIME_LAG, LEVEL, WAIT, AFTER, DEADLINE];

/// What a request asks, with the configuration's word where it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Most records that the answering replica may lack.
    pub max_offset_lag: Option<u64>,
    /// The answer must hold everything logged up to so long ago, as this place says.
    pub max_staleness: Option<(Duration, &'static str)>,
    /// Which replicas may answer.
    pub level: Level,
    /// How long to wait for a replica that keeps all this.
    pub wait: Duration,
    /// How long the answer may take, if the request says less than the configuration.
    pub deadline: Duration,
    /// What the session has read before.
    pub token: Option<Token>,
}

/// A session's token, and the place that it stood in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub text: String,
    pub place: &'static str,
}

impl Token {
    /// Whether the client keeps it without being told to, and sends it with everything.
    pub fn is_cookie(&self) -> bool {
        self.place == TOKEN_COOKIE
    }
}

/// What a request says that cannot be understood or kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadDemand {
    /// A value that is none.
    #[error("{place}: {value:?} is not {takes}")]
    Value { place: &'static str, value: String, takes: &'static str },
    /// A header that contradicts itself.
    #[error("{place}: is given twice, with different values")]
    Twice { place: &'static str },
    /// A bound on what the servers route: they would not keep it.
    #[error(
        "{place}: cannot be kept, as this is {what}, which a server routes; bounds on freshness are kept for single keys \
         of materialised tables"
    )]
    NotKept { place: &'static str, what: &'static str },
}

/// What a request itself said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    max_offset_lag: Option<u64>,
    max_staleness: Option<(Duration, &'static str)>,
    level: Option<Level>,
    wait: Option<Duration>,
    /// How long the answer may take.
    pub deadline: Option<Duration>,
    token: Option<Token>,
    /// The place of a bound by one of the sidecar's own names.
    bound_at: Option<&'static str>,
}

impl Said {
    /// Reads a request's headers, and its members where the body was understood.
    pub fn read(headers: &HeaderMap, envelope: Option<&Envelope>, cookies: bool) -> Result<Self, BadDemand> {
        let some_header = headers.keys().any(|name| name.as_str().starts_with(HEADER_PREFIX));
        if !some_header && !cookies && envelope.is_none_or(|envelope| !envelope.is_edited()) {
            // nearly every request: one look at each name costs less than a search for each field
            let max_offset_lag = envelope.and_then(Envelope::max_offset_lag);
            return Ok(Said { max_offset_lag, ..Said::default() });
        }
        let lag = read(headers, envelope, OFFSET_LAG, offset_lag)?;
        let max_staleness = read(headers, envelope, TIME_LAG, duration)?;
        let level = read(headers, envelope, LEVEL, |text| text.parse().ok())?;
        let token = read(headers, envelope, AFTER, |text| Some(text.to_owned()))?.filter(|(text, _)| !text.is_empty());
        let bounds = [
            lag.map(|(_, place)| place),
            max_staleness.map(|(_, place)| place),
            level.filter(|(level, _)| *level == Level::Active).map(|(_, place)| place),
            token.as_ref().map(|(_, place)| *place),
        ];
        let token = token.map(|(text, place)| Token { text, place });
        Ok(Said {
            max_offset_lag: lag.map(|(lag, _)| lag).or_else(|| envelope?.max_offset_lag()),
            max_staleness,
            level: level.map(|(level, _)| level),
            wait: read(headers, envelope, WAIT, duration)?.map(|(wait, _)| wait),
            deadline: read(headers, envelope, DEADLINE, duration)?.map(|(deadline, _)| deadline),
            token: token.or_else(|| cookies.then(|| cookie(headers)).flatten()),
            bound_at: bounds.into_iter().flatten().next(),
        })
    }

    /// Refuses a bound on what a server routes. The server's own bound is the server's to keep, where it keeps it; a
    /// cookie comes with every request, and holds the reads for which it can.
    pub fn none_for(&self, what: &'static str) -> Result<(), BadDemand> {
        self.bound_at.map_or(Ok(()), |place| Err(BadDemand::NotKept { place, what }))
    }

    /// As [`none_for`](Self::none_for), of a pull query; on `/query-stream` no server keeps its own bound.
    pub fn none_for_pull(&self, envelope: &Envelope, what: &'static str) -> Result<(), BadDemand> {
        self.none_for(what)?;
        match self.max_offset_lag {
            Some(_) if !envelope.server_keeps_bound() => Err(BadDemand::NotKept { place: MAX_LAG, what }),
            _ => Ok(()),
        }
    }

    /// Fills in what the configuration says of the table, then what the table was made with, then what is said of all.
    pub fn or(self, table: &TableInfo, config: &Freshness) -> Demand {
        let bounds = config.in_force(&table.name, table.max_offset_lag);
        Demand {
            max_offset_lag: self.max_offset_lag.or(bounds.max_offset_lag.map(|(lag, _)| lag)),
            max_staleness: self.max_staleness.or(bounds.max_staleness),
            level: self.level.unwrap_or(config.level),
            wait: self.wait.unwrap_or(config.wait).min(config.max_wait),
            deadline: self.deadline.unwrap_or(Duration::MAX),
            token: self.token,
        }
    }
}

/// A field's value and place: of the header, else of the JSON.
fn read<T>(
    headers: &HeaderMap,
    envelope: Option<&Envelope>,
    field: Field,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<(T, &'static str)>, BadDemand> {
    let mut given = headers.get_all(field.header).iter();
    let (place, text) = match given.next() {
        Some(value) if given.any(|other| other != value) => return Err(BadDemand::Twice { place: field.header }),
        Some(value) => (field.header, String::from_utf8_lossy(value.as_bytes())),
        None => match envelope.and_then(|envelope| envelope.asked(field.member)) {
            Some(text) => (field.member, text.into()),
            None => return Ok(None),
        },
    };
    match parse(text.trim()) {
        Some(value) => Ok(Some((value, place))),
        None => Err(BadDemand::Value { place, value: text.into_owned(), takes: field.takes }),
    }
}

/// The token of a request that writes: of its header, its members or its cookie.
pub(super) fn token(headers: &HeaderMap, asked: Option<String>, cookies: bool) -> Option<String> {
    let header = headers.get(AFTER.header).and_then(|token| token.to_str().ok()).map(str::to_owned);
    header.or(asked).or_else(|| cookies.then(|| cookie(headers)).flatten().map(|token| token.text))
}

fn offset_lag(text: &str) -> Option<u64> {
    digits(text).filter(|lag| i64::try_from(*lag).is_ok())
}

/// A number without a sign.
fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

fn duration(text: &str) -> Option<Duration> {
    digits(text).map(Duration::from_millis).or_else(|| humantime::parse_duration(text).ok())
}

/// The session's cookie.
fn cookie(headers: &HeaderMap) -> Option<Token> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, text) = pairs.find(|(name, text)| *name == TOKEN_COOKIE && !text.is_empty())?;
    Some(Token { text: text.to_owned(), place: TOKEN_COOKIE })
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
        Said::read(&headers.collect(), Some(&envelope), true)
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
                Ok(Some((Duration::from_secs(2), "acceptable.time.lag"))),
                "{members}"
            );
            let header = said(&[("x-ksqldb-sidecar-max-staleness", "500ms")], members);
            let expected = Some((Duration::from_millis(500), "x-ksqldb-sidecar-max-staleness"));
            assert_eq!(header.map(|said| said.max_staleness), Ok(expected), "{members}");
        }
        let token = said(&[("cookie", "a=b; ksqldb-sidecar-token=xyz")], "").map(|said| said.token);
        assert_eq!(token, Ok(Some(Token { text: "xyz".into(), place: TOKEN_COOKIE })));
        assert_eq!(said(&[], r#","read.level":"any""#).map(|said| said.level), Ok(Some(Level::Any)));
    }

    #[test]
    fn nonsense_is_refused_with_its_place_and_what_it_should_be() {
        for (header, member, value) in [
            ("x-ksqldb-sidecar-max-offset-lag", "acceptable.offset.lag", "-1"),
            ("x-ksqldb-sidecar-max-offset-lag", "acceptable.offset.lag", "+1"),
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

    #[test]
    fn a_bound_on_what_servers_route_is_refused_by_its_name_and_a_cookie_is_none() {
        let refused = |headers: &[(&'static str, &str)], members: &str| {
            let said = said(headers, members).expect("good values");
            said.none_for("a push query").map_err(|error| error.to_string())
        };
        assert_eq!(refused(&[("cookie", "ksqldb-sidecar-token=xyz")], r#","read.level":"any""#), Ok(()));
        for (headers, members, place) in [
            (&[("x-ksqldb-sidecar-level", "active")][..], "", "x-ksqldb-sidecar-level"),
            (&[], r#","read.after":"written""#, "read.after"),
            (&[], r#","acceptable.offset.lag":0"#, "acceptable.offset.lag"),
        ] {
            let error = refused(headers, members).unwrap_err();
            assert!(error.starts_with(&format!("{place}: ")) && error.contains("a push query"), "{error}");
        }
    }

    #[test]
    fn a_header_that_contradicts_itself_is_refused() {
        let twice = |a, b| said(&[("x-ksqldb-sidecar-wait", a), ("x-ksqldb-sidecar-wait", b)], "");
        assert!(twice("1s", "1s").is_ok());
        assert!(twice("1s", "2s").unwrap_err().to_string().starts_with("x-ksqldb-sidecar-wait: is given twice"));
    }
}
