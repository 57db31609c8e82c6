//! How lag reports come, seen from one server.

use super::facts::Reports;
use crate::view::ClusterStatus;
use std::collections::BTreeMap;

/// Reports of a host that must follow the first one before its standbys are judged: what it lacks then was logged at least
/// one whole interval before.
const ENOUGH: u32 = 2;

/// Reports of one host in which the others must have sent one too.
const FROZEN: u32 = 5;

/// The reports of each host so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    hosts: BTreeMap<String, Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    /// Whether it is alive and holds partitions, as the newest answer has it: only such hosts must report.
    reporting: bool,
    /// Time of its newest report by its own clock, epoch milliseconds; 0 for none.
    newest_ms: i64,
    /// Reports after the first one that was seen.
    later: u32,
    /// The least time between two, milliseconds: where one was missed between two looks, others were not.
    least_ms: Option<u64>,
}

impl Watch {
    /// Takes an answer to `/clusterStatus`.
    pub fn take(&mut self, status: &ClusterStatus<'_>) {
        for (name, told) in &status.hosts.0 {
            let host = self.hosts.entry(name.to_string()).or_default();
            host.reporting = told.host_alive && !told.active_standby_per_query.0.is_empty();
            let made_ms = told.host_store_lags.update_time_ms;
            if made_ms > host.newest_ms {
                if host.newest_ms > 0 {
                    let between = made_ms.abs_diff(host.newest_ms);
                    host.least_ms = Some(host.least_ms.map_or(between, |least| least.min(between)));
                    host.later += 1;
                }
                host.newest_ms = made_ms;
            }
        }
    }

    /// Whether more would tell nothing new.
    pub fn is_done(&self) -> bool {
        let mut reporting = self.hosts.values().filter(|host| host.reporting);
        let any = self.hosts.values().any(|host| host.newest_ms > 0);
        !any || reporting.all(|host| host.later >= ENOUGH) || self.hosts.values().any(|host| host.later >= FROZEN)
    }

    /// Whether a host has reported often enough for its standbys to be judged.
    pub fn judges(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|host| host.later >= ENOUGH)
    }

    /// What came in `watched_ms`.
    pub fn reports(&self, watched_ms: u64) -> Reports {
        let most = self.hosts.values().map(|host| host.later).max().unwrap_or_default();
        let is_silent = |host: &Watched| host.reporting && host.later == 0 && most > ENOUGH;
        let silent = self.hosts.iter().filter(|(_, host)| is_silent(host)).map(|(name, _)| name.clone());
        Reports {
            any: self.hosts.values().any(|host| host.newest_ms > 0),
            interval_ms: self.hosts.values().filter_map(|host| host.least_ms).max(),
            watched_ms,
            silent: silent.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer that has these reports of `a` and `b`, both alive and with a partition.
    fn status(a: i64, b: i64) -> String {
        let host = |ms: i64| {
            format!(
                r#"{{"hostAlive":true,"activeStandbyPerQuery":{{"Q":{{}}}},"hostStoreLags":{{"updateTimeMs":{ms}}}}}"#
            )
        };
        format!(r#"{{"clusterStatus":{{"a:1":{},"b:1":{}}}}}"#, host(a), host(b))
    }

    fn watched(answers: &[(i64, i64)]) -> Watch {
        let mut watch = Watch::default();
        for (a, b) in answers {
            watch.take(&ClusterStatus::parse(status(*a, *b).as_bytes()).unwrap());
        }
        watch
    }

    #[test]
    fn the_interval_is_the_usual_time_between_two_reports() {
        let watch = watched(&[(1000, 1500), (1000, 1500), (2000, 1500), (2000, 2510), (4000, 3510)]);
        assert!(watch.is_done() && watch.judges("a:1") && watch.judges("b:1"));
        let reports = watch.reports(9);
        assert_eq!((reports.any, reports.interval_ms, reports.watched_ms), (true, Some(1000), 9));
        assert_eq!(reports.silent, Vec::<String>::new());
    }

    #[test]
    fn a_host_whose_reports_stay_the_same_while_others_come_is_silent() {
        let watch = watched(&[(1000, 1500), (2000, 1500), (3000, 1500)]);
        assert!(!watch.is_done() && watch.reports(0).silent.is_empty(), "two intervals may be chance");
        let watch = watched(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]);
        assert!(watch.is_done());
        assert_eq!(watch.reports(0).silent, ["b:1"]);
    }

    #[test]
    fn without_any_report_there_is_nothing_to_wait_for() {
        let watch = watched(&[(0, 0)]);
        assert!(watch.is_done());
        assert_eq!(watch.reports(0), Reports::default());
        assert!(!watched(&[(1000, 0)]).is_done(), "the other may still send one");
    }
}
