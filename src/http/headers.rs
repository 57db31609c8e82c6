//! What a proxy must take out of, and put into, the headers it passes on.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, Entry, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Uri, Version};
use smallvec::SmallVec;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// The client's first SETTINGS in an `Upgrade: h2c` request.
pub(super) const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const HOP_BY_HOP: [HeaderName; 7] =
    [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, UPGRADE, HTTP2_SETTINGS, TRANSFER_ENCODING, TE];

/// Removes the fields that are about one connection only, those that `Connection` names included (RFC 9110, 7.6.1).
///
/// `TE: trailers` stays, without the other codings. `Host` and `Content-Length` stay even if `Connection` names them, as
/// removing them would change what the message means; but `Content-Length` goes if there was a `Transfer-Encoding`, which
/// overrides it (RFC 9112, 6.3).
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if !headers.keys().any(|name| HOP_BY_HOP.contains(name)) {
        return; // one look at each name costs less than a search for each
    }
    if headers.contains_key(CONNECTION) {
        for name in named_by_connection(headers) {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
    headers.remove(UPGRADE);
    headers.remove(HTTP2_SETTINGS);
    if headers.remove(TRANSFER_ENCODING).is_some() {
        headers.remove(CONTENT_LENGTH);
    }
    if headers.contains_key(TE) {
        keep_te_trailers(headers);
    }
}

fn named_by_connection(headers: &HeaderMap) -> SmallVec<[HeaderName; 4]> {
    tokens(headers, CONNECTION)
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(|name| ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TE].contains(name))
        .collect()
}

fn keep_te_trailers(headers: &mut HeaderMap) {
    let trailers = has_token(headers, TE, "trailers");
    headers.remove(TE);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// The members of a comma-separated field, over all its lines; members that are not text are left out.
pub fn tokens(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

/// Whether a comma-separated field has this member, in any case.
pub fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|member| member.eq_ignore_ascii_case(token))
}

/// Whether a request asks for this protocol by the HTTP/1.1 upgrade mechanism.
pub fn asks_upgrade(headers: &HeaderMap, protocol: &str) -> bool {
    headers.contains_key(UPGRADE) && has_token(headers, CONNECTION, "upgrade") && has_token(headers, UPGRADE, protocol)
}

/// Fits a request's head to the version in which it is sent upstream: hop-by-hop fields, version, target, host.
///
/// The server gets the host that the client named, as if no proxy stood between: `Host` becomes `:authority` for HTTP/2 and
/// the reverse, and the authority of a target in absolute form wins over `Host` (RFC 9112, 3.2.2). A request without any
/// gets `fallback`. `Expect` is removed, because the listener answers it.
pub fn prepare_request(head: &mut Parts, version: Version, scheme: &Scheme, fallback: &Authority) {
    strip_hop_by_hop(&mut head.headers);
    head.headers.remove(EXPECT);
    head.version = version;
    if version == Version::HTTP_2 {
        target_with_authority(head, scheme, fallback);
    } else {
        target_in_origin_form(head, fallback);
    }
}

fn target_with_authority(head: &mut Parts, scheme: &Scheme, fallback: &Authority) {
    let host = head.headers.remove(HOST);
    let named = head.uri.authority().cloned();
    let authority = named.or_else(|| Authority::try_from(host?.as_bytes()).ok()).unwrap_or_else(|| fallback.clone());
    let path = path_and_query(&head.uri);
    let built = Uri::builder().scheme(scheme.clone()).authority(authority).path_and_query(path).build();
    if let Ok(uri) = built {
        head.uri = uri;
    }
}

pub(super) fn target_in_origin_form(head: &mut Parts, fallback: &Authority) {
    if let Some(authority) = head.uri.authority() {
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        if let Ok(host) = HeaderValue::from_str(host) {
            head.headers.insert(HOST, host);
        }
        head.uri = Uri::from(path_and_query(&head.uri));
    } else if let Entry::Vacant(missing) = head.headers.entry(HOST)
        && let Ok(host) = HeaderValue::from_str(fallback.as_str())
    {
        missing.insert(host);
    }
}

fn path_and_query(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn stripped(fields: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut headers = headers(fields);
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        left.sort();
        left
    }

    #[test]
    fn fields_named_by_any_connection_line_go() {
        let fields =
            [("connection", "close, X-One"), ("connection", "x-two,, b@d"), ("x-one", "1"), ("x-two", "2"), ("x", "3")];
        assert_eq!(stripped(&fields), ["x: 3"]);
    }

    #[test]
    fn connection_cannot_name_away_what_frames_or_addresses_the_message() {
        let fields = [("connection", "Host, Content-Length"), ("host", "db"), ("content-length", "2")];
        assert_eq!(stripped(&fields), ["content-length: 2", "host: db"]);
    }

    #[test]
    fn a_length_beside_a_transfer_encoding_goes_with_it() {
        let fields = [("content-length", "2"), ("transfer-encoding", "chunked"), ("connection", "transfer-encoding")];
        assert!(stripped(&fields).is_empty());
    }

    #[test]
    fn of_te_only_trailers_stays() {
        assert_eq!(stripped(&[("te", "gzip, Trailers"), ("connection", "te")]), ["te: trailers"]);
        assert!(stripped(&[("te", "gzip")]).is_empty());
    }

    #[test]
    fn an_upgrade_must_be_named_by_connection() {
        let upgrade = ("upgrade", "WebSocket");
        assert!(asks_upgrade(&headers(&[upgrade, ("connection", "keep-alive, Upgrade")]), "websocket"));
        assert!(!asks_upgrade(&headers(&[upgrade]), "websocket"));
        assert!(!asks_upgrade(&headers(&[upgrade, ("connection", "upgrade")]), "h2c"));
    }

    #[test]
    fn the_authority_of_the_target_wins_over_host() {
        let fallback = Authority::from_static("server:8088");
        let prepared = |uri: &str, host: &[(&'static str, &'static str)], version| {
            let (mut head, ()) = hyper::Request::get(uri).body(()).unwrap().into_parts();
            head.headers = headers(host);
            prepare_request(&mut head, version, &Scheme::HTTP, &fallback);
            (head.uri.to_string(), head.headers.get(HOST).map(|host| host.to_str().unwrap().to_owned()))
        };
        let host = [("host", "named")];
        let (h1, h2) = (Version::HTTP_11, Version::HTTP_2);
        assert_eq!(prepared("/a?b", &host, h1), ("/a?b".into(), Some("named".into())));
        assert_eq!(prepared("/a?b", &[], h1), ("/a?b".into(), Some("server:8088".into())));
        assert_eq!(prepared("http://u:p@target/a", &host, h1), ("/a".into(), Some("target".into())));
        assert_eq!(prepared("/a?b", &host, h2), ("http://named/a?b".into(), None));
        assert_eq!(prepared("/a?b", &[], h2), ("http://server:8088/a?b".into(), None));
        assert_eq!(prepared("http://target/a", &host, h2), ("http://target/a".into(), None));
    }
}
