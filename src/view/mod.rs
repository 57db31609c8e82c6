//! What the sidecar believes about the cluster. Pure: time is an argument.
//!
//! [`Evidence`] folds what arrives (answers to `/clusterStatus`, probe results, the catalogue) and makes a
//! [`ClusterView`], an immutable snapshot. `control` owns the one `Evidence` and publishes; everyone else reads snapshots.

mod clocks;
mod drain;
mod epochs;
mod evidence;
mod history;
mod host;
mod latency;
mod liveness;
mod peer;
mod placement;
mod published;
mod report;
mod settings;
mod slot;
mod snapshot;
mod status;
mod table;
mod time;
mod version;

pub use clocks::{ClockExchange, PeerClocks};
pub use drain::DrainView;
pub use evidence::{Evidence, HostSpec, Observation, Settings};
pub use host::{HostIndex, HostName, HostState, HostView, PeerWord};
pub use latency::Latency;
pub use liveness::{Liveness, LivenessSettings, Probe};
pub use peer::{Ask, Belief, Heartbeat, MESSAGE_VERSION, PeerLag, PeerSidecar};
pub use placement::Role;
pub use published::{OwnObservation, Published};
pub use settings::{TYPE_PREFIX, forget_bound, keep_bound, read_bound};
pub use slot::{ReplicaView, SlotView};
pub use snapshot::{ClusterView, Processed, PullLimits, Told};
pub use status::{
    ClusterStatus, HostStatus, HostStoreLags, Members, Position, QueryPlacement, StoreLags, Text, TopicPartition,
};
pub use table::{Catalogue, TableInfo, is_topic};
pub use time::{Interval, Moment};
pub use version::ServerVersion;

#[cfg(test)]
pub(crate) use table::tests::table as test_table;
