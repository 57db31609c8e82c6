//! Base addresses of servers and sidecars.

use http::Uri;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// The address of a server or sidecar: `http://host:port`, without path, query or user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct BaseUrl {
    /// As in a URL: an IPv6 address stands in brackets.
    host: String,
    port: u16,
}

impl BaseUrl {
    /// The address of `port` on `host`, which is a name, an IPv4 address, or an IPv6 address with or without brackets.
    ///
    /// # Errors
    /// When this is no host.
    pub fn new(host: &str, port: u16) -> Result<Self, String> {
        match host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("http://[{address}]:{port}").parse(),
            Err(_) => format!("http://{host}:{port}").parse(),
        }
    }

    /// The host, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 80 where none is written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`, as `/clusterStatus` names hosts.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Before anything that repeats the text, which may hold a password.
        if text.contains('@') {
            return Err("an address has no user; use server.username and server.password_file".to_owned());
        }
        let uri: Uri = text.parse().map_err(|e| format!("not an address such as http://ksql-1:8088: {e}"))?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), authority) else {
            return Err(format!("{text:?} is not an address such as http://ksql-1:8088"));
        };
        if scheme != "http" {
            return Err(format!("scheme {scheme:?} is not supported; use http"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(format!("{text:?} has a path or query; leave them out"));
        }
        // `http::Uri` takes `:port` as it stands, so a port that is no number shows only as one that cannot be read.
        let written = authority.as_str().len() > authority.host().len();
        match authority.port_u16() {
            Some(0) => Err(format!("{text:?} has port 0; use the port the server listens on")),
            None if written => Err(format!("{text:?} has a port that is no number from 1 to 65535")),
            port => Ok(Self { host: authority.host().to_ascii_lowercase(), port: port.unwrap_or(80) }),
        }
    }
}

impl TryFrom<String> for BaseUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, printed) in [
            ("http://localhost:8088", "http://localhost:8088"),
            ("http://KSQL-1:8088/", "http://ksql-1:8088"),
            ("http://10.0.0.2", "http://10.0.0.2:80"),
            ("http://[::1]:8088", "http://[::1]:8088"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().to_string(), printed);
        }
        assert_eq!(BaseUrl::new("::1", 8088).unwrap().authority(), "[::1]:8088");
        assert_eq!(BaseUrl::new("ksql-2", 8090).unwrap().authority(), "ksql-2:8090");
    }

    #[test]
    fn what_is_no_base_address_is_refused() {
        for text in [
            "",
            "ksql-1:8088",
            "http://",
            "https://h:1",
            "http://h:1/ksql",
            "http://h:1?a",
            "http://h:0",
            "http://h:x",
            "http://h:99999",
            "http://h:",
            "http://a b",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        for text in ["http://me:secret@h:1", "me:secret@h:1", "http://me:secret@h:1/ksql", "http://me:sec#ret@h"] {
            let error = text.parse::<BaseUrl>().unwrap_err();
            assert!(error.starts_with("an address has no user") && !error.contains("ret"), "{error}");
        }
    }
}
