//! Bounds, and what keys say of each other.

use super::problem::Problem;
use super::{BaseUrl, ByteSize, Config, Discovery, Effective, Place};
use std::net::SocketAddr;
use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Adds every problem of a configuration whose values have the right types.
pub(super) fn validate(effective: &Effective, problems: &mut Vec<Problem>) {
    let mut check = Check { effective, problems };
    let config = &effective.config;
    listen_and_server(&mut check, config);
    peers(&mut check, config);
    control(&mut check, config);
    requests(&mut check, config);
}

struct Check<'a> {
    effective: &'a Effective,
    problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    fn fail(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push(Problem { key: key.to_owned(), place: self.effective.place(key), message: message.into() });
    }

    /// Whichever of two keys was set by hand, the first if both were.
    fn set_by_hand<'k>(&self, one: &'k str, other: &'k str) -> &'k str {
        if self.effective.place(one) == Place::Default { other } else { one }
    }

    /// The first of two keys must not exceed the second.
    fn at_most<T: PartialOrd + Show>(&mut self, (low, lower): (&str, T), (high, upper): (&str, T)) {
        if lower > upper {
            let (lower, upper) = (lower.show(), upper.show());
            if self.set_by_hand(low, high) == low {
                self.fail(low, format!("{lower} exceeds {high}, {upper}; lower it or raise {high}"));
            } else {
                self.fail(high, format!("{upper} is below {low}, {lower}; raise it or lower {low}"));
            }
        }
    }

    fn within<T: PartialOrd + Show>(&mut self, key: &str, value: T, least: T, most: T) {
        // Negated so that a NaN is refused.
        if !(value >= least && value <= most) {
            let message = format!("{} is outside the bounds {} to {}", value.show(), least.show(), most.show());
            self.fail(key, message);
        }
    }
}

/// Values as an operator writes them.
trait Show {
    fn show(&self) -> String;
}

impl Show for Duration {
    fn show(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

macro_rules! show_as_displayed {
    ($($number:ty),+) => { $(impl Show for $number { fn show(&self) -> String { self.to_string() } })+ };
}

show_as_displayed!(u16, u32, usize, f64, ByteSize);

fn listen_and_server(check: &mut Check<'_>, Config { listen, server, shutdown, .. }: &Config) {
    check.within("listen.workers", listen.workers, 1, 64);
    check.within("listen.max_connections", listen.max_connections, 1, 1_000_000);
    check.within("listen.max_header_bytes", listen.max_header_bytes, kib(1), kib(1 << 10));
    check.within("listen.header_timeout", listen.header_timeout, ms(100), minutes(10));
    check.within("listen.max_inspected_body", listen.max_inspected_body, kib(1), kib(64 << 10));
    if overlap(listen.client, listen.admin) {
        let key = check.set_by_hand("listen.client", "listen.admin");
        check.fail(key, format!("client and admin are both port {}; give each its own", listen.admin.port()));
    }
    let is_local = matches!(server.url.host(), "localhost" | "127.0.0.1" | "[::1]");
    for (key, address) in [("listen.client", listen.client), ("listen.admin", listen.admin)] {
        if is_local && server.url.port() == address.port() {
            check.fail(key, format!("is the port of the local server, {}; the sidecar needs another", server.url));
        }
    }
    check.within("server.connect_timeout", server.connect_timeout, ms(10), minutes(1));
    if server.name.as_ref().is_some_and(|name| !is_host_and_port(name)) {
        check.fail("server.name", "is not host:port as in /clusterStatus, such as ksql-1:8088");
    }
    match (&server.username, &server.password_file, &server.bearer_file) {
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            check.fail("server.bearer_file", "excludes server.username and server.password_file; unset one of them");
        }
        (Some(_), None, _) => check.fail("server.username", "needs server.password_file; set it"),
        (None, Some(_), _) => check.fail("server.password_file", "needs server.username; set it"),
        _ => {
            if let Err(error) = server.credentials() {
                let key = if server.bearer_file.is_some() { "server.bearer_file" } else { "server.password_file" };
                check.fail(key, format!("cannot be used: {error}"));
            }
        }
    }
    check.within("shutdown.grace", shutdown.grace, Duration::ZERO, minutes(60));
}

fn peers(check: &mut Check<'_>, Config { peers, .. }: &Config) {
    check.within("peers.sidecar_port", peers.sidecar_port, 1, u16::MAX);
    check.within("peers.server_port", peers.server_port, 1, u16::MAX);
    check.within("peers.refresh_interval", peers.refresh_interval, ms(100), minutes(60));
    if (peers.discovery == Discovery::Dns) != peers.dns_name.is_some() {
        check.fail("peers.dns_name", "belongs to discovery \"dns\", which needs it; set both or neither");
    }
    let list_is_faulty = check.problems.iter().any(|problem| problem.key.starts_with("peers.static"));
    if peers.discovery == Discovery::Static && peers.static_peers.is_empty() && !list_is_faulty {
        check.fail("peers.static", "is empty, and discovery \"static\" needs every server; list them");
    }
    if peers.discovery != Discovery::Static && !peers.static_peers.is_empty() {
        check.fail("peers.static", "needs discovery \"static\"; set it or remove the list");
    }
    for (index, peer) in peers.static_peers.iter().enumerate() {
        if peers.static_peers.iter().take(index).any(|earlier| earlier.server == peer.server) {
            check.fail("peers.static", format!("names {} twice; remove one of them", peer.server));
        }
    }
    let names = peers.static_peers.iter().filter_map(|peer| Some(("peers.static", peer.name.as_ref()?)));
    for (key, name) in names.chain(peers.names.keys().map(|name| ("peers.names", name))) {
        if !is_host_and_port(name) {
            check.fail(key, format!("{name:?} is not host:port as in /clusterStatus, such as ksql-2:8088"));
        }
    }
}

fn control(check: &mut Check<'_>, Config { health, lag, catalogue, .. }: &Config) {
    check.within("health.interval", health.interval, ms(10), minutes(1));
    check.within("health.timeout", health.timeout, ms(10), minutes(1));
    check.within("health.window", health.window, ms(10), minutes(10));
    check.within("health.missed_threshold", health.missed_threshold, 1, 100);
    check.within("health.received_threshold", health.received_threshold, 1, 100);
    check.at_most(("health.timeout", health.timeout), ("health.window", health.window));
    if health.interval.saturating_mul(health.received_threshold) > health.window {
        let message = "received_threshold x interval does not fit into it, so nothing could come alive; raise it";
        check.fail("health.window", message);
    }
    check.within("lag.poll_interval", lag.poll_interval, ms(50), minutes(1));
    check.within("lag.timeout", lag.timeout, ms(10), minutes(1));
    check.within("lag.max_report_age", lag.max_report_age, ms(1000), minutes(10));
    check.within("lag.max_body", lag.max_body, kib(64), kib(1 << 20));
    check.at_most(("lag.poll_interval", lag.poll_interval), ("lag.max_report_age", lag.max_report_age));
    check.at_most(("lag.timeout", lag.timeout), ("lag.max_report_age", lag.max_report_age));
    check.within("catalogue.refresh_interval", catalogue.refresh_interval, ms(1000), minutes(60));
    check.within("catalogue.min_refresh_interval", catalogue.min_refresh_interval, ms(100), minutes(60));
    check.within("catalogue.timeout", catalogue.timeout, ms(100), minutes(5));
    let least = ("catalogue.min_refresh_interval", catalogue.min_refresh_interval);
    check.at_most(least, ("catalogue.refresh_interval", catalogue.refresh_interval));
}

fn requests(check: &mut Check<'_>, Config { requests, absence, freshness, upstream, log, .. }: &Config) {
    check.within("requests.deadline", requests.deadline, ms(100), minutes(10));
    check.within("requests.attempt_floor", requests.attempt_floor, ms(1), minutes(1));
    check.within("requests.attempt_ceiling", requests.attempt_ceiling, ms(10), minutes(10));
    check.within("requests.patience", requests.patience, Duration::ZERO, minutes(10));
    check.within("requests.retry_budget_ratio", requests.retry_budget_ratio, 0.0, 1.0);
    check.within("requests.retry_budget_min_per_second", requests.retry_budget_min_per_second, 0, 100_000);
    check.within("requests.max_concurrent_per_server", requests.max_concurrent_per_server, 1, 100_000);
    check.within("requests.hedge_ratio", requests.hedge_ratio, 0.0, 1.0);
    check.within("requests.hedge_floor", requests.hedge_floor, ms(1), minutes(1));
    check.within("requests.held_answer", requests.held_answer, kib(0), kib(16 << 10));
    check.within("requests.scatter_part", requests.scatter_part, kib(1), kib(256 << 10));
    check.within("requests.scatter_memory", requests.scatter_memory, kib(1), kib(16 << 20));
    let part = ("requests.scatter_part", requests.scatter_part);
    check.at_most(part, ("requests.scatter_memory", requests.scatter_memory));
    let ceiling = ("requests.attempt_ceiling", requests.attempt_ceiling);
    check.at_most(("requests.attempt_floor", requests.attempt_floor), ceiling);
    check.at_most(ceiling, ("requests.deadline", requests.deadline));
    check.within("freshness.max_wait", freshness.max_wait, Duration::ZERO, minutes(10));
    check.at_most(("freshness.wait", freshness.wait), ("freshness.max_wait", freshness.max_wait));
    check.within("freshness.audit", freshness.audit, 0.0, 1.0);
    check.within("freshness.max_waiting", freshness.max_waiting, 0, 100_000);
    check.within("absence.max_in_flight", absence.max_in_flight, 1, 10_000);
    check.within("absence.timeout", absence.timeout, ms(10), minutes(1));
    check.at_most(("absence.timeout", absence.timeout), ("requests.deadline", requests.deadline));
    check.within("upstream.max_idle_per_host", upstream.max_idle_per_host, 0, 10_000);
    check.within("upstream.idle_timeout", upstream.idle_timeout, ms(1000), minutes(60));
    check.within("log.decisions", log.decisions, 0, 10_000);
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&log.level) {
        check.fail("log.level", format!("is not a level or filter: {error}; use info or info,target=debug"));
    }
}

const fn kib(kibibytes: usize) -> ByteSize {
    ByteSize::new(kibibytes << 10)
}

/// Whether both cannot be bound: the same port on the same address, or on every address. Port 0 is any free one.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let same_address = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_address
}

fn is_host_and_port(name: &str) -> bool {
    let Some((host, port)) = name.rsplit_once(':') else { return false };
    port.parse::<u16>().is_ok_and(|port| port != 0) && BaseUrl::new(host, 1).is_ok()
}
