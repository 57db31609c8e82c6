//! What a server of a given version can do, as far as routing depends on it.

use std::fmt;

/// A server's version, told by `GET /info`, on the scale of Confluent Platform releases.
///
/// Standalone releases map to the platform release that was cut from the same branch: 0.23 is 7.1, 0.29 is 7.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    /// On that scale.
    scale: (u16, u16),
    /// As the server tells it.
    told: (u16, u16, u16),
}

/// Standalone minor versions and the platform release of the same branch, newest first.
const STANDALONE: [(u16, u16, (u16, u16)); 9] = [
    (29, 0, (7, 5)),
    (28, 0, (7, 3)),
    (27, 2, (7, 3)),
    (24, 0, (7, 2)),
    (23, 0, (7, 1)),
    (21, 0, (7, 0)),
    (17, 0, (6, 2)),
    (14, 0, (6, 1)),
    (0, 0, (6, 0)),
];

impl ServerVersion {
    /// Reads `0.29.0`, `7.4.0`, `8.0.1-cp2`; `None` if it does not begin with two numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().trim_start_matches('v').split(['.', '-', '+']).map(|p| p.parse::<u16>().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        let patch = parts.next().flatten().unwrap_or(0);
        let scale = match major {
            0 => STANDALONE.iter().find(|(m, p, _)| (minor, patch) >= (*m, *p))?.2,
            _ => (major, minor),
        };
        Some(ServerVersion { scale, told: (major, minor, patch) })
    }

    fn at_least(self, major: u16, minor: u16) -> bool {
        self.scale >= (major, minor)
    }

    /// Whether a pull query can be pinned to a partition on `/query`.
    pub fn pins(self) -> bool {
        self.at_least(6, 1)
    }

    /// Whether `/query-stream` honours a pin and works over HTTP/1.1.
    pub fn pins_on_query_stream(self) -> bool {
        self.at_least(7, 1)
    }

    /// Whether `/query` is answered over HTTP/2.
    pub fn query_over_http2(self) -> bool {
        self.at_least(7, 2)
    }

    /// Whether the server refuses a key that is not in the pinned partition; older ones answer silently empty.
    pub fn checks_pins(self) -> bool {
        self.at_least(7, 3)
    }

    /// Whether a store that could not be read may look like a clean empty answer (`HARouting` since 7.5).
    pub fn may_lose_errors(self) -> bool {
        self.at_least(7, 5)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.told;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standalone_releases_map_to_the_platform_release_of_their_branch() {
        for (text, expected) in [
            ("0.29.0", (7, 5)),
            ("0.28.2", (7, 3)),
            ("0.27.1", (7, 2)),
            ("0.27.2", (7, 3)),
            ("0.23.1", (7, 1)),
            ("0.10.0", (6, 0)),
            ("7.4.0", (7, 4)),
            ("8.0.1-ccs", (8, 0)),
            ("v7.9", (7, 9)),
        ] {
            assert_eq!(ServerVersion::parse(text).map(|v| v.scale), Some(expected), "{text}");
        }
        assert_eq!(ServerVersion::parse("0.29.0-rc1").map(|v| v.to_string()).as_deref(), Some("0.29.0"));
        assert_eq!(ServerVersion::parse("unknown"), None);
        assert_eq!(ServerVersion::parse(""), None);
    }

    #[test]
    fn abilities_follow_the_version() {
        let of = |text| ServerVersion::parse(text).expect("a version");
        assert!(of("0.29.0").may_lose_errors() && of("8.0.1").may_lose_errors() && !of("7.4.0").may_lose_errors());
        assert!(of("7.4.0").checks_pins() && !of("7.2.0").checks_pins());
        assert!(of("7.1.0").pins_on_query_stream() && !of("7.1.0").query_over_http2());
        assert!(of("0.14.0").pins() && !of("0.13.0").pins());
    }
}
