//! Which servers may be asked for each partition, by the rules of the servers' own router.

use super::{Options, Planned, Refusal};
use crate::emulator::config::Version;
use crate::emulator::model::{Model, Report};

/// The partitions to read, each with its candidates in order.
pub type Located = Vec<(u32, Vec<usize>)>;

impl Model {
    pub(super) fn locate(&mut self, server: usize, planned: &Planned, options: &Options) -> Result<Located, Refusal> {
        let wanted = self.partitions_of(planned, options);
        let Some(placement) = self.hosts.get(server).and_then(|h| h.placement.clone()) else {
            return Err(unavailable(planned));
        };
        if wanted.is_empty() {
            return if self.config.version == Version::Old { Ok(Vec::new()) } else { Err(undetermined()) };
        }
        let mut located = Vec::with_capacity(wanted.len());
        let mut failures = Vec::new();
        for partition in wanted {
            let assignment =
                placement.get(planned.query).and_then(|q| q.get(partition as usize)).ok_or_else(undetermined)?;
            let mut candidates = vec![assignment.active];
            candidates.extend(assignment.standbys.iter().rev());
            let filtered = match options.skip_forwarding {
                true => self.filter(server, &[server], (planned.query, partition), options),
                false => self.filter(server, &candidates, (planned.query, partition), options),
            };
            match filtered {
                Ok(hosts) => located.push((partition, hosts)),
                Err(reason) => failures.push(reason),
            }
        }
        if failures.is_empty() {
            return Ok(located);
        }
        Err(Refusal::NoHost(format!("Unable to execute pull query. [{}]", failures.join(", "))))
    }

    /// One partition for a single key of one column, else all; a pin cuts them.
    fn partitions_of(&self, planned: &Planned, options: &Options) -> Vec<u32> {
        let all: Vec<u32> = match planned.keys.as_deref() {
            Some([(_, partition, _)]) if planned.single => vec![*partition],
            _ => (0..self.config.partitions).collect(),
        };
        let pinned = |p: &u32| options.partitions.as_ref().is_none_or(|pins| pins.contains(p));
        all.into_iter().filter(pinned).collect()
    }

    fn filter(
        &self,
        server: usize,
        candidates: &[usize],
        slot: (usize, u32),
        options: &Options,
    ) -> Result<Vec<usize>, String> {
        let mut hosts = Vec::with_capacity(candidates.len());
        let mut reasons = Vec::new();
        let reports = self.hosts.get(server).map(|h| h.reports.as_slice()).unwrap_or_default();
        let entry = |host: usize| {
            let report: Option<&Report> = reports.get(host).map(AsRef::as_ref);
            report.and_then(|r| r.lags.get(&slot)).filter(|_| self.alive(server, host))
        };
        let end = candidates.iter().filter_map(|h| entry(*h)).map(|(_, end)| *end).max().unwrap_or(0);
        for (i, host) in candidates.iter().enumerate() {
            let active_only = !options.skip_forwarding && !self.config.standby_reads && i > 0;
            let reason = match entry(*host) {
                _ if active_only => Some("Host is not the active host for this partition.".to_owned()),
                _ if !options.skip_forwarding && !self.alive(server, *host) => {
                    Some(format!("Host is not alive as of time {}", self.clock_ms(server)))
                }
                _ if !self.config.lag_reports => None,
                None => Some("Lag information is not present for host.".to_owned()),
                Some((current, _)) => options.max_lag.filter(|max| end.saturating_sub(*current) > *max).map(|max| {
                    format!(
                        "Host excluded because lag {} exceeds maximum allowed lag {max}.",
                        end.saturating_sub(*current)
                    )
                }),
            };
            match reason {
                None => hosts.push(*host),
                Some(reason) => {
                    let name = self.hosts.get(*host).map_or("", |h| h.name.as_str());
                    reasons.push(format!("{name} was not selected because {reason}"));
                }
            }
        }
        if hosts.is_empty() {
            return Err(format!(
                "Partition {} failed to find valid host. Hosts scanned: [{}]",
                slot.1,
                reasons.join(", ")
            ));
        }
        Ok(hosts)
    }
}

fn undetermined() -> Refusal {
    Refusal::Locate(
        "Cannot determine which host contains the required partitions to serve the pull query. \nThe underlying persistent query \
         may be restarting (e.g. as a result of ALTER SYSTEM) view the status of your by issuing <DESCRIBE foo>."
            .to_owned(),
    )
}

fn unavailable(planned: &Planned) -> Refusal {
    match planned.keys.as_ref().and_then(|k| k.first()) {
        Some((_, _, key)) => Refusal::Locate(format!(
            "Materialized data for key {key}-Optional.empty is not available yet. Please try again later."
        )),
        None => undetermined(),
    }
}
