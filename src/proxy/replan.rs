//! When a lookup's plan is worth making anew.

use super::Proxy;
use super::lookup::Lookup;
use crate::route::{Plan, Preference};
use smallvec::SmallVec;
use tokio::sync::watch;

impl Proxy {
    /// Completes when a new plan has none of the eligible hosts of `before`, or one that it had not.
    pub(super) async fn other_hosts(&self, lookup: &Lookup<'_, '_>, before: &Plan) {
        let mut changes = self.published.changes();
        let hosts = |plan: &Plan| -> SmallVec<[_; 4]> {
            let eligible = plan.candidates.iter().filter(|candidate| candidate.preference != Preference::LastResort);
            eligible.map(|candidate| candidate.host).collect()
        };
        let before = hosts(before);
        while changes.changed().await.is_ok() {
            let Ok((plan, _)) = self.plan(lookup, &self.published.load()) else { return };
            let now = hosts(&plan);
            if now.iter().any(|host| !before.contains(host))
                || (!before.is_empty() && !now.iter().any(|host| before.contains(host)))
            {
                return;
            }
        }
        std::future::pending().await // no more snapshots: the process is ending
    }

    /// Completes when a new snapshot orders the replicas otherwise than `before`.
    pub(super) async fn another_plan(
        &self,
        lookup: &Lookup<'_, '_>,
        before: &Plan,
        changes: &mut watch::Receiver<u64>,
    ) {
        while changes.changed().await.is_ok() {
            let Ok((plan, _)) = self.plan(lookup, &self.published.load()) else { return };
            let order = |plan: &Plan| -> SmallVec<[_; 4]> {
                plan.candidates.iter().map(|c| (c.host, c.preference, c.sees_absence)).collect()
            };
            if order(&plan) != order(before) {
                return;
            }
        }
        std::future::pending().await // no more snapshots: the process is ending
    }
}
