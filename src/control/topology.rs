//! The text of a Kafka Streams topology, as `EXPLAIN` and `SHOW QUERIES EXTENDED` print it.

/// The stores and source topics of one sub-topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SubTopology {
    pub stores: Vec<String>,
    /// Internal topics stand here without the application id in front.
    pub topics: Vec<String>,
}

/// Reads the sub-topologies in order; lines of other forms are passed over.
pub(super) fn read(text: &str) -> Vec<SubTopology> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Sub-topology:") {
            all.push(SubTopology::default());
        } else if let Some(current) = all.last_mut() {
            if line.starts_with("Source:") {
                current.topics.extend(list(line, "topics: ["));
            } else if line.starts_with("Processor:") {
                let new = list(line, "stores: [").filter(|store| !current.stores.contains(store)).collect::<Vec<_>>();
                current.stores.extend(new);
            }
        }
    }
    all
}

fn list<'a>(line: &'a str, opening: &str) -> impl Iterator<Item = String> + use<'a> {
    let inside = line.split_once(opening).and_then(|(_, rest)| rest.split_once(']')).map_or("", |(inside, _)| inside);
    inside.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The store that pull queries read, by the names that ksqlDB's planner gives (contract 8.6), and its sub-topology.
///
/// `None` where no name is one of those and there are several stores: then only the server knows.
pub(super) fn pulled_store(sub_topologies: &[SubTopology]) -> Option<(String, &SubTopology)> {
    const PULLED: [&str; 3] = ["Aggregate-Aggregate-Materialize", "Project-Last", "KsqlTopic-Reduce"];
    let stores = || sub_topologies.iter().flat_map(|sub| sub.stores.iter().map(move |store| (store.clone(), sub)));
    let by_name = PULLED.iter().find_map(|name| stores().find(|(store, _)| store == name));
    by_name.or_else(|| match (stores().next(), stores().nth(1)) {
        (only, None) => only,
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPARTITIONED: &str = "Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000001 (topics: [T1])
      --> KTABLE-SOURCE-0000000002
    Processor: KTABLE-SOURCE-0000000002 (stores: [KafkaTopic_Left-Reduce])
    Sink: KSTREAM-SINK-0000000018 (topic: Aggregate-GroupBy-repartition)

  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000019 (topics: [Aggregate-GroupBy-repartition])
    Processor: KTABLE-AGGREGATE-0000000020 (stores: [Aggregate-Aggregate-Materialize])
";

    #[test]
    fn the_pulled_store_and_its_own_source_topics_are_found() {
        let sub_topologies = read(REPARTITIONED);
        let (store, sub) = pulled_store(&sub_topologies).expect("a store");
        assert_eq!(store, "Aggregate-Aggregate-Materialize");
        assert_eq!(sub.topics, ["Aggregate-GroupBy-repartition"]);
    }

    #[test]
    fn several_unknown_stores_are_nobodys_to_choose_from() {
        let of = |stores: &str| read(&format!("Sub-topology: 0\nProcessor: P (stores: [{stores}])"));
        assert_eq!(pulled_store(&of("A, B")), None);
        assert_eq!(pulled_store(&of("")), None);
        assert_eq!(pulled_store(&of("A")).map(|(store, _)| store).as_deref(), Some("A"));
        assert_eq!(pulled_store(&of("X, Project-Last")).map(|(store, _)| store).as_deref(), Some("Project-Last"));
    }
}
