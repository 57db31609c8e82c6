use super::*;
use crate::config::LoadOptions;
use crate::control::fetch::script::{Script, ok};
use crate::control::membership::Member;
use crate::partition::SqlType;
use crate::view::HostSpec;
use serde_json::Value;

const LISTINGS: [&str; 2] = [
    include_str!("../../../tests/fixtures/listing-0.29.0.json"),
    include_str!("../../../tests/fixtures/listing-7.4.0.json"),
];

fn listing(text: &str) -> Listing {
    Listing::read(serde_json::from_str(text).unwrap()).unwrap()
}

fn info(name: &str) -> TableInfo {
    let listing = listing(LISTINGS[0]);
    describe(listing.tables.iter().find(|table| table.name == name).unwrap(), &listing).unwrap()
}

#[test]
fn the_tables_of_real_servers_are_described() {
    for text in LISTINGS {
        let listing = listing(text);
        let find = |name: &str| describe(listing.tables.iter().find(|t| t.name == name).unwrap(), &listing);
        assert_eq!(find("SRC"), Err("not materialised"));
        for (name, query, store, topics, format, columns) in [
            ("T", "CTAS_T_1", "Aggregate-Aggregate-Materialize", &["s"][..], KeyFormat::Kafka, 1),
            (
                "TM2",
                "CTAS_TM2_45",
                "Aggregate-Aggregate-Materialize",
                &["Aggregate-GroupBy-repartition"],
                KeyFormat::Delimited,
                2,
            ),
            ("QSRC", "CTAS_QSRC_49", "KsqlTopic-Reduce", &["srct"], KeyFormat::Kafka, 1),
            ("SSRC", "CST_SSRC_51", "KsqlTopic-Reduce", &["srct"], KeyFormat::Kafka, 1),
            ("JT", "CTAS_JT_53", "Project-Last", &["TL", "QSRC"], KeyFormat::Kafka, 1),
            ("TST", "CTAS_TST_39", "Aggregate-Aggregate-Materialize", &["sst"], KeyFormat::Json, 1),
        ] {
            let info = find(name).unwrap();
            assert_eq!((info.query_id.as_str(), info.store.as_str()), (query, store));
            assert_eq!(info.source_topics, topics, "{name}");
            assert_eq!((info.key.format, info.key.columns.len()), (format, columns), "{name}");
            assert!(!info.windowed, "{name}");
        }
        assert!(find("TW").unwrap().windowed);
        let SqlType::Struct(fields) = &find("TST").unwrap().key.columns[0].sql_type else { panic!("no struct") };
        assert_eq!(fields.len(), 2);
        assert_eq!(listing.standby_reads(), Some(true));
        assert_eq!(listing.own_name().as_deref(), Some("127.0.0.1:28089"));
    }
}

#[test]
fn partitions_are_counted_over_the_inputs_of_the_store_also_internal_ones() {
    for (name, fixture) in [
        ("TL", include_str!("../../../tests/fixtures/ksqldb-0.29.0/describe-extended-TL-offsets.json")),
        ("TM", include_str!("../../../tests/fixtures/ksqldb-0.29.0/describe-extended-TM.json")),
        ("SSRC", include_str!("../../../tests/fixtures/ksqldb-0.29.0/describe-extended-SSRC.json")),
        ("JT", include_str!("../../../tests/fixtures/ksqldb-0.29.0/describe-extended-JT.json")),
    ] {
        let exchange: Value = serde_json::from_str(fixture).unwrap();
        let body = exchange["response"]["body"].as_str().unwrap();
        let by_topic = input_partitions(&serde_json::from_str::<Vec<Value>>(body).unwrap());
        assert_eq!(count_inputs(&info(name), &by_topic), Some(6), "{name}: {by_topic:?}");
    }
    assert_eq!(count_inputs(&info("JT"), &BTreeMap::from([("TL".into(), 6)])), None, "one input is unknown");
    let sink_only = BTreeMap::from([("TL".into(), 12)]);
    assert_eq!(count_inputs(&info("TL"), &sink_only), None, "the table's own topic does not count");
}

fn placement(active: &[u32], standby: &[u32], alive: bool) -> Placed {
    let held = |partitions: &[u32]| -> Vec<Value> {
        partitions.iter().map(|p| serde_json::json!({"topic": "s", "partition": p})).collect()
    };
    let of_query = serde_json::json!({"activePartitions": held(active), "standByPartitions": held(standby)});
    let body = serde_json::json!({"clusterStatus": {
        "a:1": {"hostAlive": true, "activeStandbyPerQuery": {"CTAS_TL_5": of_query}},
        "b:1": {"hostAlive": alive, "activeStandbyPerQuery": {}},
    }});
    Placed::read(&info("TL"), &ClusterStatus::parse(body.to_string().as_bytes()).unwrap())
}

#[test]
fn a_number_of_partitions_is_believed_only_without_contradiction() {
    for (described, placed, expected) in [
        (Some(6), placement(&[0, 1, 2, 3, 4, 5], &[], true), Ok(6)),
        (Some(6), placement(&[0, 1, 2, 3], &[4, 5], true), Ok(6)),
        (Some(6), placement(&[0, 1, 2, 3], &[], false), Ok(6)),
        (Some(6), Placed::default(), Ok(6)),
        (Some(6), placement(&[0, 1, 2, 3], &[], true), Err(DISPUTED)),
        (Some(6), placement(&[0, 1, 2, 3, 4, 5, 6], &[], true), Err(DISPUTED)),
        (None, placement(&[0, 1, 2, 3, 4, 5], &[], true), Ok(6)),
        (None, placement(&[0, 1, 2, 3], &[], false), Err(UNCOUNTED)),
        (None, placement(&[0, 1, 2, 3], &[5], true), Err(UNCOUNTED)),
        (None, Placed::default(), Err(UNCOUNTED)),
    ] {
        assert_eq!(placed.agreed_with(described), expected, "{described:?} {placed:?}");
    }
}

/// A loop over servers `a` and `b`, which is all that is known of them.
fn two_servers(fetch: Script) -> (CatalogueLoop<Script>, mpsc::Receiver<Event>) {
    let member = |name: &str| Member {
        spec: HostSpec { name: name.into(), url: format!("http://{name}").into(), local: name == "a" },
        sidecar: None,
    };
    let (_, members) = watch::channel(Members(vec![member("a"), member("b")]));
    let (events, received) = mpsc::channel(64);
    let config = Config::load(LoadOptions::default()).unwrap();
    let metrics = Metrics::new().unwrap();
    let looping =
        CatalogueLoop::new(&config, Arc::new(fetch), events, Arc::default(), members, Arc::default(), &metrics);
    (looping, received)
}

fn describe_answer(body: &str) -> String {
    let name = body.split('`').nth(1).unwrap_or_default();
    let topic = if name == "SSRC" || name == "QSRC" { "srct" } else { "s" };
    let offsets: Vec<Value> = (0..6).map(|partition| serde_json::json!({"partition": partition})).collect();
    let summaries = serde_json::json!([{"topicSummaries": [{"kafkaTopic": topic, "offsets": offsets}]}]);
    serde_json::json!([{"sourceDescription": {"queryOffsetSummaries": summaries}}]).to_string()
}

#[tokio::test]
async fn a_closing_server_takes_no_table_away() {
    let closing = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let script = Script::new({
        let closing = Arc::clone(&closing);
        move |url, body| {
            if body.contains("DESCRIBE") {
                return ok(describe_answer(body));
            }
            let is_closing = url.starts_with("http://a/") && closing.load(std::sync::atomic::Ordering::Relaxed);
            let mut entities: Vec<Value> = serde_json::from_str(LISTINGS[0]).unwrap();
            if is_closing {
                entities[3]["queryDescriptions"] = Value::Array(Vec::new());
            }
            ok(serde_json::to_vec(&entities).unwrap())
        }
    });
    let (mut looping, _events) = two_servers(script);
    looping.refresh().await.unwrap();
    let routable = looping.last.tables.len();
    assert!(routable > 3, "{:?}", looping.last.passed_through);
    closing.store(true, std::sync::atomic::Ordering::Relaxed);
    looping.refresh().await.unwrap();
    assert_eq!(looping.last.tables.len(), routable);
}

#[tokio::test]
async fn a_table_that_every_server_has_lost_is_lost() {
    let dropped = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let script = Script::new({
        let dropped = Arc::clone(&dropped);
        move |_, body| {
            if body.contains("DESCRIBE") {
                return ok(describe_answer(body));
            }
            let mut entities: Vec<Value> = serde_json::from_str(LISTINGS[0]).unwrap();
            if dropped.load(std::sync::atomic::Ordering::Relaxed) {
                let queries = entities[3]["queryDescriptions"].as_array_mut().unwrap();
                queries.retain(|query| query["id"] != "CTAS_TL_5");
            }
            ok(serde_json::to_vec(&entities).unwrap())
        }
    });
    let (mut looping, _events) = two_servers(script);
    looping.refresh().await.unwrap();
    assert!(looping.last.tables.iter().any(|table| table.name == "TL"));
    dropped.store(true, std::sync::atomic::Ordering::Relaxed);
    looping.refresh().await.unwrap();
    assert!(looping.last.passed_through.contains(&("TL".into(), "not materialised")));
}
