//! The JSON around a statement: read what routing needs, add or take out members, leave every other byte as it came.

use super::demand::FIELDS;
use crate::partition::Partition;
use crate::view::{Members, Text};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The two endpoints that answer queries; they spell the same members differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /query`: `ksql`, `streamsProperties`; coerces property values.
    Query,
    /// `POST /query-stream`: `sql`, `properties`; takes a pin only as a list of strings.
    QueryStream,
}

impl Endpoint {
    /// The endpoint of a path.
    pub fn of(path: &str) -> Option<Self> {
        match path {
            "/query" => Some(Endpoint::Query),
            "/query-stream" => Some(Endpoint::QueryStream),
            _ => None,
        }
    }

    fn statement_member(self) -> &'static str {
        match self {
            Endpoint::Query => "ksql",
            Endpoint::QueryStream => "sql",
        }
    }

    fn properties_member(self) -> &'static str {
        match self {
            Endpoint::Query => "streamsProperties",
            Endpoint::QueryStream => "properties",
        }
    }
}

/// The server's own name for a bound on offset lag.
pub(super) const MAX_LAG: &str = "ksql.query.pull.max.allowed.offset.lag";

/// Properties with this prefix steer the server's routing; a client that sets one routes for itself.
const ROUTING_PREFIX: &str = "request.ksql.";

/// A request body that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    endpoint: Endpoint,
    body: Bytes,
    sql: String,
    /// Where `requestProperties` has its value; `None` if the member is missing.
    request_properties: Option<Range<usize>>,
    /// Where the document's closing brace is.
    end: usize,
    max_offset_lag: Option<u64>,
    client_pinned: bool,
    /// The sidecar's own members that were taken out of the body, with their values.
    asked: Vec<(&'static str, String)>,
}

type Object<'a> = Members<Text<'a>, &'a RawValue>;

impl Envelope {
    /// Reads a body; `None` where it is not understood, for whatever reason, and must go to the server as it came.
    ///
    /// Not understood are: no JSON object, no statement, a member that matters given twice, properties of another shape.
    pub fn read(endpoint: Endpoint, body: Bytes) -> Option<Self> {
        let document: Object<'_> = serde_json::from_slice(&body).ok()?;
        if let Some((body, asked)) = has_own(&document).then(|| take_own(&document)).flatten() {
            return Some(Envelope { asked, ..Self::read(endpoint, body)? });
        }
        let sql: Text<'_> = serde_json::from_str(only(&document, endpoint.statement_member())??.get()).ok()?;
        let properties = object(only(&document, endpoint.properties_member())?)?;
        let request_properties = only(&document, "requestProperties")?;
        let client_pinned = object(request_properties)?
            .is_some_and(|object| object.0.iter().any(|(name, _)| name.starts_with(ROUTING_PREFIX)));
        let bound = match &properties {
            Some(properties) => only(properties, MAX_LAG)?,
            None => None,
        };
        let sql = sql.to_string();
        let request_properties = request_properties.map(|raw| range_in(&body, raw));
        let end = body.iter().rposition(|byte| *byte == b'}')?;
        let max_offset_lag = bound.and_then(offset_lag);
        let asked = Vec::new();
        Some(Envelope { endpoint, sql, request_properties, end, max_offset_lag, client_pinned, asked, body })
    }

    /// The statement, unescaped.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The endpoint that the body was meant for.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// The value of a member of the sidecar's own.
    pub fn asked(&self, member: &str) -> Option<&str> {
        self.asked.iter().find(|(name, _)| *name == member).map(|(_, value)| value.as_str())
    }

    /// Whether members were taken out of the body.
    pub fn is_edited(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether the client's bound on offset lag is one that the server keeps too.
    pub fn server_keeps_bound(&self) -> bool {
        self.max_offset_lag.is_some() && self.endpoint == Endpoint::Query
    }

    /// The body as it came, but for the sidecar's own members, which servers refuse.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The client's bound on offset lag in records, if it gave one that makes sense; nonsense is the server's to refuse.
    pub fn max_offset_lag(&self) -> Option<u64> {
        self.max_offset_lag
    }

    /// Whether the client steers the server's routing itself.
    pub fn client_pinned(&self) -> bool {
        self.client_pinned
    }

    /// The body with a pin: answer from the own store of that partition, do not forward.
    pub fn pinned(&self, partition: Partition) -> Bytes {
        self.pinned_to(&[partition])
    }

    /// The body with a pin to several partitions.
    pub fn pinned_to(&self, partitions: &[Partition]) -> Bytes {
        let pin = pin_members(self.endpoint, partitions);
        let (at, until, text) = match &self.request_properties {
            None => (self.end, self.end, format!(",\"requestProperties\":{{{pin}}}")),
            Some(value) => match self.body.get(value.clone()).map(<[u8]>::trim_ascii) {
                Some([b'{', inner @ .., b'}']) if !inner.trim_ascii().is_empty() => {
                    (value.start + 1, value.start + 1, format!("{pin},"))
                }
                _ => (value.start, value.end, format!("{{{pin}}}")),
            },
        };
        let mut body = Vec::with_capacity(self.body.len() + text.len());
        body.extend_from_slice(self.body.get(..at).unwrap_or_default());
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(self.body.get(until..).unwrap_or_default());
        self.without_stream_bound(Bytes::from(body))
    }

    /// Takes the offset bound out of a `/query-stream` body: every server refuses or ignores it there, so that it is this
    /// sidecar's alone to keep.
    fn without_stream_bound(&self, body: Bytes) -> Bytes {
        if self.endpoint != Endpoint::QueryStream || self.max_offset_lag.is_none() {
            return body;
        }
        without_member(&body, self.endpoint.properties_member(), MAX_LAG).map_or(body, Bytes::from)
    }
}

/// Where properties may stand; each endpoint reads its own and passes over the other's.
const PROPERTIES: [&str; 3] = ["requestProperties", "streamsProperties", "properties"];

/// The sidecar's own member of that name.
fn own(name: &str) -> Option<&'static str> {
    FIELDS.iter().map(|field| field.member).find(|member| *member == name)
}

/// Whether a body has members of the sidecar's own.
fn has_own(document: &Object<'_>) -> bool {
    let some_own = |object: &Object<'_>| object.0.iter().any(|(name, _)| own(name).is_some());
    let properties = |name| only(document, name).flatten().and_then(|raw| object(Some(raw)).flatten());
    some_own(document) || PROPERTIES.iter().filter_map(|name| properties(name)).any(|object| some_own(&object))
}

/// A body without the sidecar's own members, and those with their values; `None` if it has none.
pub(super) fn without_own(body: &Bytes) -> Option<(Bytes, Vec<(&'static str, String)>)> {
    let document: Object<'_> = serde_json::from_slice(body).ok()?;
    has_own(&document).then(|| take_own(&document)).flatten()
}

/// The body without the sidecar's own members, and those with their values; `None` if there are none. Of a member that
/// stands in several places the outermost counts, then that of `requestProperties`.
fn take_own(document: &Object<'_>) -> Option<(Bytes, Vec<(&'static str, String)>)> {
    let mut asked = Vec::new();
    let mut keep = |object: &Object<'_>| -> Option<Vec<(String, String)>> {
        let mut kept = Vec::with_capacity(object.0.len());
        let before = asked.len();
        for (name, value) in &object.0 {
            match own(name) {
                Some(member) => asked.push((member, text_of(value))),
                None => kept.push((name.to_string(), value.get().to_owned())),
            }
        }
        (asked.len() > before).then_some(kept)
    };
    let mut members = keep(document);
    for properties in PROPERTIES {
        let Some(inner) = only(document, properties).flatten().and_then(|raw| object(Some(raw)).flatten()) else {
            continue;
        };
        if let Some(kept) = keep(&inner) {
            let all = document.0.iter().filter(|(name, _)| own(name).is_none());
            let members =
                members.get_or_insert_with(|| all.map(|(n, v)| (n.to_string(), v.get().to_owned())).collect());
            if let Some((_, value)) = members.iter_mut().find(|(name, _)| name == properties) {
                *value = written(kept);
            }
        }
    }
    Some((Bytes::from(written(members?)), asked))
}

fn written(members: Vec<(String, String)>) -> String {
    let members = members.into_iter().map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// A value as a header would have it: the text of a string, else the JSON.
fn text_of(value: &RawValue) -> String {
    serde_json::from_str::<Text<'_>>(value.get()).map_or_else(|_| value.get().to_owned(), |text| text.to_string())
}

/// The members of a pin, in the form that each endpoint accepts.
pub fn pin_members(endpoint: Endpoint, partitions: &[Partition]) -> String {
    let (open, between, close) = match endpoint {
        Endpoint::Query => ("", ",", ""),
        Endpoint::QueryStream => ("[", "\",\"", "]"),
    };
    let numbers: Vec<String> = partitions.iter().map(Partition::to_string).collect();
    let numbers = numbers.join(between);
    format!(
        "\"request.ksql.query.pull.skip.forwarding\":true,\
         \"request.ksql.query.pull.partition\":{open}\"{numbers}\"{close}"
    )
}

/// The member's value; `None` if it is there twice, `Some(None)` if it is not there.
fn only<'a>(object: &Object<'a>, name: &str) -> Option<Option<&'a RawValue>> {
    let mut found = object.0.iter().filter(|(member, _)| **member == *name).map(|(_, value)| *value);
    match (found.next(), found.next()) {
        (value, None) => Some(value),
        _ => None,
    }
}

/// The value as an object; `None` if it is something else, `Some(None)` if it is missing or null.
fn object(value: Option<&RawValue>) -> Option<Option<Object<'_>>> {
    match value {
        None => Some(None),
        Some(raw) => serde_json::from_str(raw.get()).ok(),
    }
}

fn range_in(body: &[u8], raw: &RawValue) -> Range<usize> {
    let start = (raw.get().as_ptr() as usize).saturating_sub(body.as_ptr() as usize);
    start..start + raw.get().len()
}

fn offset_lag(raw: &RawValue) -> Option<u64> {
    let text = raw.get();
    let digits = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
    digits.parse::<u64>().ok().filter(|lag| i64::try_from(*lag).is_ok())
}

fn without_member(body: &[u8], object_name: &str, member: &str) -> Option<Vec<u8>> {
    let document: Object<'_> = serde_json::from_slice(body).ok()?;
    let raw = only(&document, object_name)??;
    let members = object(Some(raw))??;
    let kept: Vec<String> = members
        .0
        .iter()
        .filter(|(name, _)| **name != *member)
        .map(|(name, value)| format!("{}:{}", serde_json::Value::from(&**name), value.get()))
        .collect();
    let place = range_in(body, raw);
    let mut edited = body.get(..place.start)?.to_vec();
    edited.extend_from_slice(format!("{{{}}}", kept.join(",")).as_bytes());
    edited.extend_from_slice(body.get(place.end..)?);
    Some(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(endpoint: Endpoint, body: &str) -> Option<Envelope> {
        Envelope::read(endpoint, Bytes::copy_from_slice(body.as_bytes()))
    }

    fn pinned(endpoint: Endpoint, body: &str) -> String {
        let bytes = read(endpoint, body).expect("understood").pinned(3);
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    const PIN: &str = r#""request.ksql.query.pull.skip.forwarding":true,"request.ksql.query.pull.partition":"3""#;

    #[test]
    fn a_pin_is_added_and_every_other_byte_stays() {
        for (before, after) in [
            (r#"{"ksql":"S"}"#, format!(r#"{{"ksql":"S","requestProperties":{{{PIN}}}}}"#)),
            (" \n{ \"ksql\" : \"S\" }  ", format!(" \n{{ \"ksql\" : \"S\" ,\"requestProperties\":{{{PIN}}}}}  ")),
            (r#"{"requestProperties":{},"ksql":"S"}"#, format!(r#"{{"requestProperties":{{{PIN}}},"ksql":"S"}}"#)),
            (r#"{"requestProperties":null,"ksql":"S"}"#, format!(r#"{{"requestProperties":{{{PIN}}},"ksql":"S"}}"#)),
            (
                r#"{"requestProperties":{"a":1},"ksql":"S"}"#,
                format!(r#"{{"requestProperties":{{{PIN},"a":1}},"ksql":"S"}}"#),
            ),
            (
                r#"{"ksql":"S","x":{"y":[1,2]},"x":1}"#,
                format!(r#"{{"ksql":"S","x":{{"y":[1,2]}},"x":1,"requestProperties":{{{PIN}}}}}"#),
            ),
        ] {
            assert_eq!(pinned(Endpoint::Query, before), after);
        }
        let stream = pinned(Endpoint::QueryStream, r#"{"sql":"S"}"#);
        assert!(stream.ends_with(r#""request.ksql.query.pull.partition":["3"]}}"#), "{stream}");
        for (endpoint, pin) in [(Endpoint::Query, r#":"3,0"}}"#), (Endpoint::QueryStream, r#":["3","0"]}}"#)] {
            let envelope = read(endpoint, r#"{"ksql":"S","sql":"S"}"#).expect("understood");
            let bytes = envelope.pinned_to(&[3, 0]);
            assert!(bytes.ends_with(pin.as_bytes()), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_passed_on() {
        for body in [
            "",
            "[]",
            "null",
            "{",
            r#"{"sql":"S"}"#,
            r#"{"ksql":5}"#,
            r#"{"ksql":"S","ksql":"T"}"#,
            r#"{"ksql":"S","requestProperties":{},"requestProperties":{}}"#,
            r#"{"ksql":"S","requestProperties":[]}"#,
            r#"{"ksql":"S","streamsProperties":"x"}"#,
            r#"{"ksql":"S"} x"#,
            r#"{"ksql":"\ud800"}"#,
        ] {
            assert_eq!(read(Endpoint::Query, body), None, "{body}");
        }
    }

    #[test]
    fn bounds_and_routing_properties_are_seen() {
        let bound = |endpoint, body: &str| read(endpoint, body).expect("understood").max_offset_lag();
        let query = |value: &str| format!(r#"{{"ksql":"S","streamsProperties":{{"{MAX_LAG}":{value}}}}}"#);
        for (value, expected) in [
            ("10", Some(10)),
            ("\"10\"", Some(10)),
            ("-1", None),
            ("\"x\"", None),
            ("1.5", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(bound(Endpoint::Query, &query(value)), expected, "{value}");
        }
        let escaped = r#"{"ksql":"SELECT \u0027\n","requestProperties":{"request.ksql.debug.request":true}}"#;
        let envelope = read(Endpoint::Query, escaped).expect("understood");
        assert!(envelope.client_pinned());
        assert_eq!(envelope.sql(), "SELECT '\n");
    }

    #[test]
    fn a_bound_on_query_stream_is_taken_out() {
        let body = format!(r#"{{"sql":"S","properties":{{"a":"b","{MAX_LAG}":10}}}}"#);
        let edited = pinned(Endpoint::QueryStream, &body);
        assert!(edited.starts_with(r#"{"sql":"S","properties":{"a":"b"},"requestProperties""#), "{edited}");
    }
}
