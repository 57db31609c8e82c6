//! Tables: what `/ksql` told about them.

use crate::partition::{KeySchema, Partitions};
use std::sync::Arc;

/// A materialised table whose lookups can be routed.
///
/// A table of which any of this is not certain has no `TableInfo`; queries on it are passed through.
#[derive(Clone, Debug, PartialEq)]
pub struct TableInfo {
    /// The metastore's spelling.
    pub name: String,
    /// Its key.
    pub key: KeySchema,
    /// The query that materialises it, e.g. `CTAS_T_1`.
    pub query_id: String,
    /// The store that pull queries read, e.g. `Aggregate-Aggregate-Materialize`.
    pub store: String,
    /// The topics that feed the store's sub-topology; internal ones as the suffix that follows the application id.
    pub source_topics: Vec<String>,
    /// How many partitions the store has: the most that any of its source topics has.
    pub partitions: Partitions,
    /// Whether its rows have a window.
    pub windowed: bool,
    /// The bound on offset lag that was given when it was made, in changelog records.
    pub max_offset_lag: Option<u64>,
}

impl TableInfo {
    /// Whether `topic`, as `/clusterStatus` spells it, feeds this table's store.
    pub fn reads(&self, topic: &str) -> bool {
        self.source_topics.iter().any(|source| is_topic(source, topic))
    }

    /// Whether a `stateStoreLags` key names this table's store, in either of the forms that servers use.
    pub fn owns_store_key(&self, key: &str) -> bool {
        key.split_once('#').is_some_and(|(query, store)| {
            store == self.store
                && (query == self.query_id
                    || query.strip_suffix(self.query_id.as_str()).is_some_and(|prefix| prefix.ends_with('_')))
        })
    }
}

/// Whether `topic`, as servers spell it, is `source`, as a topology does: internal topics have the application id in front.
pub fn is_topic(source: &str, topic: &str) -> bool {
    topic == source || topic.strip_suffix(source).is_some_and(|rest| rest.ends_with('-'))
}

/// All tables known at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// The routable tables.
    pub tables: Vec<Arc<TableInfo>>,
    /// The topic of each stream.
    pub topics: Vec<(String, String)>,
    /// Names of sources that exist but are passed through, each with the reason.
    pub passed_through: Vec<(String, &'static str)>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::partition::{KeyColumn, KeyFormat, SqlType};

    pub(crate) fn table(name: &str, query_id: &str, partitions: u32) -> TableInfo {
        TableInfo {
            name: name.into(),
            key: KeySchema {
                format: KeyFormat::Kafka,
                columns: vec![KeyColumn { name: "K".into(), sql_type: SqlType::String }],
            },
            query_id: query_id.into(),
            store: "Aggregate-Aggregate-Materialize".into(),
            source_topics: vec!["s".into()],
            partitions: Partitions::new(partitions).expect("at least one"),
            windowed: false,
            max_offset_lag: None,
        }
    }

    #[test]
    fn both_forms_of_store_key_are_understood() {
        let table = table("TL", "CTAS_TL_5", 6);
        assert!(table.owns_store_key("CTAS_TL_5#Aggregate-Aggregate-Materialize"));
        assert!(table.owns_store_key("_confluent-ksql-default_query_CTAS_TL_5#Aggregate-Aggregate-Materialize"));
        assert!(!table.owns_store_key("XCTAS_TL_5#Aggregate-Aggregate-Materialize"));
        assert!(!table.owns_store_key("CTAS_TL_5#KafkaTopic_Left-Reduce"));
        assert!(!table.owns_store_key("CTAS_TL_5"));
    }

    #[test]
    fn internal_topics_match_by_suffix() {
        let mut table = table("TL", "CTAS_TL_5", 6);
        table.source_topics = vec!["Aggregate-GroupBy-repartition".into()];
        assert!(table.reads("_confluent-ksql-default_query_CTAS_TL_5-Aggregate-GroupBy-repartition"));
        assert!(!table.reads("users"));
        assert!(!table.reads("xAggregate-GroupBy-repartition"));
    }
}
