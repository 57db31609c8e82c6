//! Who holds which partition, as the servers say it, and when a claim to be active is believed.

use super::{HostName, Moment, QueryPlacement, TableInfo};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// What a host does for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It processes the partition.
    Active,
    /// It keeps a copy from the changelog.
    Standby,
    /// It reports a position for the partition, but the newest placement does not name it.
    Unplaced,
}

impl Role {
    /// The word in explanations and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Active => "active",
            Role::Standby => "standby",
            Role::Unplaced => "unplaced",
        }
    }
}

/// Who holds one partition, in one server's view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims {
    pub active: Option<HostName>,
    pub standbys: SmallVec<[HostName; 2]>,
}

impl Claims {
    pub fn is_empty(&self) -> bool {
        self.active.is_none() && self.standbys.is_empty()
    }

    pub fn role(&self, host: &str) -> Option<Role> {
        if self.active.as_deref() == Some(host) {
            Some(Role::Active)
        } else {
            self.standbys.iter().any(|s| **s == *host).then_some(Role::Standby)
        }
    }
}

/// The placement as one server told it at one time.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// Who told it.
    pub asked: HostName,
    /// When it answered, at the latest.
    pub at: Moment,
    /// By query id, then partition.
    pub by_query: HashMap<Arc<str>, Vec<Claims>>,
}

impl Placement {
    pub fn claims(&self, query_id: &str, partition: usize) -> Option<&Claims> {
        self.by_query.get(query_id)?.get(partition).filter(|claims| !claims.is_empty())
    }

    /// Whether this view places anything at `host`.
    pub fn places(&self, host: &str) -> bool {
        self.by_query.values().flatten().any(|claims| claims.role(host).is_some())
    }

    /// Enters what a host's entry says of one table's query.
    pub fn enter(&mut self, host: &HostName, table: &TableInfo, placement: &QueryPlacement<'_>) {
        let partitions = table.partitions.get() as usize;
        let slots = self
            .by_query
            .entry(Arc::from(table.query_id.as_str()))
            .or_insert_with(|| vec![Claims::default(); partitions]);
        for held in placement.active_partitions.iter().filter(|held| table.reads(&held.topic)) {
            if let Some(claims) = slots.get_mut(held.partition as usize) {
                claims.active = Some(Arc::clone(host));
            }
        }
        for held in placement.stand_by_partitions.iter().filter(|held| table.reads(&held.topic)) {
            if let Some(claims) = slots.get_mut(held.partition as usize)
                && !claims.standbys.contains(host)
            {
                claims.standbys.push(Arc::clone(host));
            }
        }
    }
}

/// What several views together say of one partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Agreement<'a> {
    /// The newest claims.
    pub claims: Option<&'a Claims>,
    /// Whether the active of the newest claims is believed.
    pub active_agreed: bool,
}

/// Merges views, given newest first.
///
/// The rule for actives: at least two views (all, if fewer) name the host, and none newer than those names another.
pub(super) fn agree<'a>(views: &'a [Arc<Placement>], query_id: &str, partition: usize) -> Agreement<'a> {
    let mut all = views.iter().filter_map(|view| view.claims(query_id, partition));
    let Some(newest) = all.next() else { return Agreement::default() };
    let others: SmallVec<[&Claims; 8]> = all.collect();
    let seconded = others.is_empty() || others.iter().any(|claims| claims.active == newest.active);
    Agreement { claims: Some(newest), active_agreed: newest.active.is_some() && seconded }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(at: u64, active: Option<&str>, standbys: &[&str]) -> Arc<Placement> {
        let claims = Claims {
            active: active.map(HostName::from),
            standbys: standbys.iter().map(|s| HostName::from(*s)).collect(),
        };
        Arc::new(Placement {
            asked: "x:1".into(),
            at: Moment::from_millis(at),
            by_query: HashMap::from([(Arc::from("Q"), vec![claims])]),
        })
    }

    #[test]
    fn an_active_is_believed_when_two_views_name_it_and_no_newer_one_another() {
        let cases = [
            (vec![view(9, Some("a"), &["b"])], Some("a"), true),
            (vec![view(9, Some("a"), &[]), view(8, Some("a"), &[])], Some("a"), true),
            (vec![view(9, Some("b"), &[]), view(8, Some("a"), &[]), view(7, Some("a"), &[])], Some("b"), false),
            (vec![view(9, None, &[]), view(8, Some("a"), &[])], Some("a"), true),
            (vec![view(9, None, &["b"]), view(8, Some("a"), &[])], None, false),
        ];
        for (views, active, agreed) in cases {
            let agreement = agree(&views, "Q", 0);
            assert_eq!(agreement.claims.and_then(|c| c.active.as_deref()), active);
            assert_eq!(agreement.active_agreed, agreed, "{views:?}");
        }
    }
}
