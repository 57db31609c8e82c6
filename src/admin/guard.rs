//! Who may see statements and decisions: whoever is on this machine, and no web page of another site.
//!
//! A browser on this machine connects from loopback whatever page it shows. So the request must also name this machine: a
//! name that an attacker's DNS makes point here (DNS rebinding) is refused, and so is what a page of another site sends.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method};
use std::net::IpAddr;

/// Why a request is refused; `None` if it may be answered. `private` is what is shown to loopback only.
pub(super) fn refusal(head: &Parts, private: bool, peer: IpAddr) -> Option<&'static str> {
    let host = named(head);
    if private && !peer.to_canonical().is_loopback() {
        return Some("this is answered to loopback only: use an SSH tunnel or kubectl port-forward");
    }
    if private && !host.as_ref().is_some_and(is_this_machine) {
        return Some("the request names another host: use localhost, or an address");
    }
    if (private || head.method == Method::POST) && is_from_another_site(head, host.as_ref()) {
        return Some("the request comes from a page of another site");
    }
    None
}

/// The host that the client meant.
fn named(head: &Parts) -> Option<Authority> {
    match head.uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => Authority::try_from(head.headers.get(HOST)?.as_bytes()).ok(),
    }
}

/// Whether a name cannot be one of somebody else's DNS: localhost, or an address.
fn is_this_machine(authority: &Authority) -> bool {
    let host = authority.host().to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Whether a browser says that a page of another site made it ask; opening a link is no such request.
fn is_from_another_site(head: &Parts, host: Option<&Authority>) -> bool {
    let text = |headers: &HeaderMap, name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    if let Some(origin) = head.headers.get(ORIGIN) {
        let own = host.map(|host| format!("http://{host}"));
        return own.is_none_or(|own| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()));
    }
    match text(&head.headers, "sec-fetch-site").as_deref() {
        None | Some("same-origin" | "none") => false,
        Some(_) => {
            let navigates = text(&head.headers, "sec-fetch-mode").as_deref() == Some("navigate");
            head.method != Method::GET || !navigates
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const LOOPBACK: &str = "127.0.0.1";

    /// A method, header fields, and whether they are refused.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);

    fn refused(method: &str, private: bool, peer: &str, fields: &[(&str, &str)]) -> bool {
        let request = Request::builder().method(method).uri("/explain");
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        refusal(&head, private, peer.parse().unwrap()).is_some()
    }

    #[test]
    fn statements_are_for_this_machine_under_its_own_name() {
        for host in ["localhost:8090", "LOCALHOST", "a.localhost:1", "127.0.0.1:8090", "[::1]:8090", "10.0.0.7:8090"] {
            for peer in [LOOPBACK, "::1", "::ffff:127.0.0.1"] {
                assert!(!refused("POST", true, peer, &[("host", host)]), "{host} {peer}");
            }
            assert!(refused("POST", true, "10.0.0.7", &[("host", host)]), "{host} from another machine");
        }
        for host in ["evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", ""] {
            assert!(refused("GET", true, LOOPBACK, &[("host", host)]), "{host}");
        }
        assert!(refused("GET", true, LOOPBACK, &[]), "no host at all");
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "localhost:8090");
        let cases: [Case<'_>; 8] = [
            ("POST", &[host, ("origin", "http://localhost:8090")], false),
            ("POST", &[host, ("origin", "http://localhost:9999")], true),
            ("POST", &[host, ("origin", "https://evil.example")], true),
            ("POST", &[host, ("origin", "null")], true),
            ("GET", &[host, ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], false),
            ("GET", &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], true),
            ("GET", &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], false),
            ("POST", &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true),
        ];
        for (method, fields, expected) in cases {
            assert_eq!(refused(method, true, LOOPBACK, fields), expected, "{method} {fields:?}");
        }
    }

    #[test]
    fn peers_and_prometheus_use_any_name_but_no_page_posts() {
        let host = ("host", "ksql-2:8090");
        assert!(!refused("POST", false, "10.0.0.7", &[host]));
        assert!(!refused("GET", false, "10.0.0.7", &[host, ("origin", "http://grafana:3000")]));
        assert!(refused("POST", false, LOOPBACK, &[host, ("origin", "http://evil.example")]));
    }
}
