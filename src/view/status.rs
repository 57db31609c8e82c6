//! The answer to `GET /clusterStatus`, borrowed from its bytes.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A JSON object kept as a list of its members, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Members<K, V>(pub Vec<(K, V)>);

impl<K, V> Default for Members<K, V> {
    fn default() -> Self {
        Members(Vec::new())
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Members<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<K, V>(PhantomData<(K, V)>);
        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for MembersVisitor<K, V> {
            type Value = Members<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(0).min(1024));
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

/// A string that borrows from the document unless it has escapes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What one server said about the cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ClusterStatus<'a> {
    /// The hosts by name.
    #[serde(borrow, rename = "clusterStatus")]
    pub hosts: Members<Text<'a>, HostStatus<'a>>,
}

/// What it said about one host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus<'a> {
    /// Whether the answering server takes it for alive.
    pub host_alive: bool,
    /// Of the answering server itself: when its process began to answer, new after each start.
    #[serde(default)]
    pub last_status_update_ms: i64,
    /// Placement by query id.
    #[serde(borrow, default)]
    pub active_standby_per_query: Members<Text<'a>, QueryPlacement<'a>>,
    /// The newest lag report received from that host.
    #[serde(borrow, default)]
    pub host_store_lags: HostStoreLags<'a>,
}

/// The input partitions of one query's tasks at one host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryPlacement<'a> {
    /// Those it processes.
    #[serde(borrow, default)]
    pub active_partitions: Vec<TopicPartition<'a>>,
    /// Those it keeps a standby for.
    #[serde(borrow, default)]
    pub stand_by_partitions: Vec<TopicPartition<'a>>,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TopicPartition<'a> {
    /// The topic, with the application id in front if it is internal.
    #[serde(borrow)]
    pub topic: Text<'a>,
    /// The partition.
    pub partition: u32,
}

/// A host's lag report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStoreLags<'a> {
    /// Lags by `<query>#<store>`.
    #[serde(borrow, default)]
    pub state_store_lags: Members<Text<'a>, StoreLags<'a>>,
    /// The reporting host's wall clock when it made the report, milliseconds; 0 if there is none.
    #[serde(default)]
    pub update_time_ms: i64,
}

/// The lags of one store.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreLags<'a> {
    /// By partition, a number as text.
    #[serde(borrow)]
    pub lag_by_partition: Members<Text<'a>, Position>,
}

/// Where a replica is in its changelog, and where the changelog ended, in records.
///
/// The host read its position first and the end second. `end - current` of two hosts must not be compared: each took its
/// own, differently old end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Position {
    /// The replica holds everything before this offset.
    #[serde(rename = "currentOffsetPosition")]
    pub current: i64,
    /// The changelog's end as this host saw it.
    #[serde(rename = "endOffsetPosition")]
    pub end: i64,
}

impl<'a> ClusterStatus<'a> {
    /// Reads the body of an answer.
    ///
    /// # Errors
    /// When it is not JSON of that shape; unknown members are ignored.
    pub fn parse(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}
