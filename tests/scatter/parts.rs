//! What each part is asked for and what becomes of one that fails, by scripted servers.

use crate::behaviours::harness::{Asked, Fake, Reply, Stage, settings, table, until, within};
use ksqldb_sidecar::partition::Partitions;
use ksqldb_sidecar::proxy::Settings;
use ksqldb_sidecar::view::TableInfo;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SCAN: &str = "SELECT K FROM T;";

/// A table of four partitions: of two hosts the first is active for 0 and 2, the second for 1 and 3.
fn four() -> TableInfo {
    TableInfo { partitions: Partitions::new(4).unwrap(), ..table("K STRING") }
}

fn stage(fakes: &[&Fake], version: &str) -> Stage {
    Stage::on(four(), fakes, Some(version), settings())
}

fn with(fakes: &[&Fake], version: &str, change: impl FnOnce(&mut Settings)) -> Stage {
    let mut settings = settings();
    change(&mut settings);
    Stage::on(four(), fakes, Some(version), settings)
}

/// Which partition the keys are in.
fn partition(key: &str) -> u32 {
    let text = format!("'{key}'");
    let literal = ksqldb_sidecar::sql::parse_literal(&text).unwrap();
    four().key.partition(&[&literal], four().partitions).unwrap()
}

/// The keys `k0` to `k15` of these partitions.
fn keys(partitions: &[u32]) -> Vec<String> {
    let of = |partition_wanted: &u32| {
        (0..16).map(|n| format!("k{n}")).filter(move |key| partition(key) == *partition_wanted).collect::<Vec<_>>()
    };
    partitions.iter().flat_map(of).collect()
}

fn json(asked: &Asked) -> Value {
    serde_json::from_str(&asked.body).unwrap()
}

fn statement(asked: &Asked) -> String {
    let body = json(asked);
    body["ksql"].as_str().or(body["sql"].as_str()).unwrap().to_owned()
}

/// The partitions that a request is pinned to.
fn pins(asked: &Asked) -> Vec<u32> {
    match &json(asked)["requestProperties"]["request.ksql.query.pull.partition"] {
        Value::String(list) => list.split(',').map(|n| n.parse().unwrap()).collect(),
        Value::Array(list) => list.iter().map(|n| n.as_str().unwrap().parse().unwrap()).collect(),
        other => panic!("{other} is no pin"),
    }
}

fn is_pinned(asked: &Asked) -> bool {
    json(asked)["requestProperties"].get("request.ksql.query.pull.partition").is_some()
}

fn rows(keys: &[String]) -> Reply {
    let rows: Vec<String> = keys.iter().map(|key| format!("[\"{key}\"]")).collect();
    Reply::rows(&rows.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A sound server: gives the keys of the pinned partitions that a question asks for.
fn sound(asked: &Asked) -> Reply {
    let (sql, mut found) = (statement(asked), keys(&pins(asked)));
    if let Some((_, list)) = sql.split_once(" IN (") {
        found.retain(|key| list.contains(&format!("'{key}'")));
    }
    if let Some((_, limit)) = sql.split_once(" LIMIT ") {
        found.truncate(limit.trim_end_matches(';').parse().unwrap());
    }
    rows(&found)
}

fn keys_in(body: &str) -> Vec<String> {
    let elements: Vec<Value> = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let key = |element: &Value| element["row"]["columns"][0].as_str().unwrap().to_owned();
    let mut keys: Vec<String> = elements.iter().skip(1).map(key).collect();
    keys.sort();
    keys
}

fn all() -> Vec<String> {
    let mut all = keys(&[0, 1, 2, 3]);
    all.sort();
    all
}

#[tokio::test]
async fn each_host_is_asked_once_for_all_that_it_is_best_for() {
    let (first, second) = (Fake::start(sound), Fake::start(sound));
    let stage = stage(&[&first, &second], "7.4.0");
    let response = stage.post("/query", format!(r#"{{"ksql":"{SCAN}"}}"#)).await;
    let headers = response.headers().clone();
    assert_eq!(keys_in(&response.text().await.unwrap()), all());
    for (fake, expected) in [(&first, [0, 2]), (&second, [1, 3])] {
        let asked = fake.asked();
        assert_eq!(asked.iter().map(pins).collect::<Vec<_>>(), [expected]);
    }
    let served = headers["x-ksqldb-sidecar-served-by"].to_str().unwrap();
    assert_eq!(served, format!("{},{}", first.address, second.address));
    assert_eq!(headers["x-ksqldb-sidecar-lag"], "0");
    assert_eq!(headers["x-ksqldb-sidecar-attempts"], "2");
    assert!(headers.contains_key("x-ksqldb-sidecar-age") && headers.contains_key("x-ksqldb-sidecar-token"));
    let (one, other) = (keys(&[0])[0].clone(), keys(&[2])[0].clone());
    let body = format!(r#"{{"sql":"SELECT K FROM T WHERE K IN ('{one}', '{other}');"}}"#);
    assert_eq!(stage.post("/query-stream", body).await.status(), 200);
    let asked = first.asked().pop().unwrap();
    assert!(asked.body.contains(r#""request.ksql.query.pull.partition":["0","2"]"#), "{}", asked.body);
    assert_eq!(second.asked().len(), 1, "no key is there");
}

#[tokio::test]
async fn a_part_that_fails_is_asked_again_elsewhere_and_gives_no_row_twice() {
    let cut = |reply: Reply| Reply { body: reply.body.trim_end_matches(']').to_owned(), ..reply };
    for version in ["7.4.0", "0.29.0"] {
        for bad in [
            Reply::error(400, 40001, "Unable to execute pull query. [Partition 1 failed to find valid host.]"),
            cut(rows(&keys(&[1]))),
            Reply::new(
                200,
                rows(&keys(&[1])).body.trim_end_matches(']').to_owned()
                    + ",\n{\"errorMessage\":{\"error_code\":50000,\"message\":\"x\"}}]",
            ),
        ] {
            let second = Fake::start({
                let bad = bad.clone();
                move |_| bad.clone()
            });
            let first = Fake::start(sound);
            let (status, body) = within("the answer", stage(&[&first, &second], version).query(SCAN)).await;
            assert_eq!((status, keys_in(&body)), (200, all()), "{version} {bad:?}");
        }
    }
}

#[tokio::test]
async fn a_frozen_host_is_not_waited_for() {
    let (first, frozen) = (Fake::start(sound), Fake::start(|_| Reply::never()));
    let (status, body) = within("the answer", stage(&[&first, &frozen], "0.29.0").query(SCAN)).await;
    assert_eq!((status, keys_in(&body)), (200, all()));
}

#[tokio::test]
async fn rows_enough_for_a_limit_end_the_answer() {
    let (first, frozen) = (Fake::start(sound), Fake::start(|_| Reply::never()));
    let stage = stage(&[&first, &frozen], "0.29.0");
    let (status, body) = within("the answer", stage.query("SELECT K FROM T LIMIT 3;")).await;
    assert_eq!((status, keys_in(&body).len()), (200, 3), "{body}");
    assert_eq!(first.asked().len(), 1, "neither proof nor a second attempt is needed: {:?}", first.statements());
    assert_eq!(frozen.asked().len(), 1, "its only request is given up");
}

#[tokio::test]
async fn a_store_that_was_not_read_is_not_an_empty_one() {
    let unreadable = |asked: &Asked| match asked.body.contains("migrate") {
        true => Reply::new(200, "[{\"header\":{}},\n{\"errorMessage\":{\"message\":\"x\"}}]"),
        false => rows(&[]),
    };
    // reads partition 1, and cannot read 3
    let half = |asked: &Asked| match (pins(asked).contains(&3), asked.body.contains("migrate")) {
        (true, true) => Reply::new(200, "[{\"header\":{}},\n{\"errorMessage\":{\"message\":\"x\"}}]"),
        _ => sound(&Asked { body: asked.body.replace(",3\"", "\"").replace("\"3\"", "\"9\""), ..asked.clone() }),
    };
    for script in [unreadable as fn(&Asked) -> Reply, half] {
        let (first, second) = (Fake::start(sound), Fake::start(script));
        let stage = stage(&[&first, &second], "0.29.0");
        let (status, body) = within("the answer", stage.query(SCAN)).await;
        assert_eq!((status, keys_in(&body)), (200, all()), "{:?}", second.statements());
        let (status, _) = within("the answer", with(&[&second], "0.29.0", |_| {}).query(SCAN)).await;
        assert_eq!(status, 503, "nobody else could be asked");
    }
}

#[tokio::test]
async fn a_store_that_closed_under_the_query_is_found_out() {
    let closed = Arc::new(AtomicBool::new(false));
    let second = Fake::start({
        let closed = Arc::clone(&closed);
        move |asked| match (closed.swap(true, Ordering::SeqCst), asked.body.contains("migrate")) {
            (false, _) => rows(&[keys(&[1])[0].clone(), keys(&[3])[0].clone()]),
            (true, true) => Reply::new(200, "[{\"header\":{}},\n{\"errorMessage\":{\"message\":\"x\"}}]"),
            (true, false) => rows(&[]),
        }
    });
    let first = Fake::start(sound);
    let (status, body) = within("the answer", stage(&[&first, &second], "0.29.0").query(SCAN)).await;
    assert_eq!((status, keys_in(&body)), (200, all()), "{:?}", second.statements());
}

#[tokio::test]
async fn empty_partitions_are_believed_by_proof() {
    let nothing = "SELECT K FROM T WHERE V > 100;";
    let selective = |asked: &Asked| if statement(asked).contains("V > 100") { rows(&[]) } else { sound(asked) };
    let (first, second) = (Fake::start(selective), Fake::start(selective));
    let stage_of_four = stage(&[&first, &second], "0.29.0");
    assert_eq!(within("the answer", stage_of_four.query(nothing)).await, (200, rows(&[]).body));
    let again = first.asked().iter().filter(|asked| statement(asked) == nothing).map(pins).collect::<Vec<_>>();
    assert_eq!((again[0].clone(), again.len()), (vec![0, 2], 3), "and each of them alone: {again:?}");
    let bare = Fake::start(|_| rows(&[]));
    let stage_of_none = stage(&[&bare], "0.29.0");
    assert_eq!(within("the answer", stage_of_none.query(SCAN)).await, (200, rows(&[]).body));
    assert_eq!(stage_of_none.counted("absence_proofs_total{method=\"old_writer\",result=\"absent\"}"), 1);
}

#[tokio::test]
async fn rows_that_do_not_tell_their_partition_are_asked_for_one_by_one() {
    let value = |asked: &Asked| {
        let reply = sound(asked);
        if statement(asked).contains("SELECT V") {
            Reply { body: reply.body.replace("[\"k", "[\"v"), ..reply }
        } else {
            reply
        }
    };
    let (first, second) = (Fake::start(value), Fake::start(value));
    let (status, body) = within("the answer", stage(&[&first, &second], "0.29.0").query("SELECT V FROM T;")).await;
    assert_eq!((status, keys_in(&body).len()), (200, all().len()), "{body}");
    let mut asked: Vec<Vec<u32>> =
        first.asked().iter().filter(|asked| statement(asked) == "SELECT V FROM T;").map(pins).collect();
    asked.sort();
    assert_eq!(asked, [[0], [2]]);
}

#[tokio::test]
async fn what_is_too_large_is_left_to_a_server_unless_a_bound_forbids_it() {
    let native = Reply::rows(&[r#"["native"]"#]);
    let large = move |asked: &Asked| if is_pinned(asked) { sound(asked) } else { native.clone() };
    let (first, second) = (Fake::start(large.clone()), Fake::start(large));
    let stage = with(&[&first, &second], "7.4.0", |settings| settings.scatter_part = 100);
    let (status, body) = within("the answer", stage.query(SCAN)).await;
    assert_eq!((status, keys_in(&body)), (200, vec!["native".to_owned()]));
    assert_eq!(stage.counted("passed_through_total{reason=\"answer_too_large\"}"), 1);
    let bounded = stage.request("/query", format!(r#"{{"ksql":"{SCAN}","acceptable.offset.lag":5}}"#));
    let refused = bounded.send().await.unwrap();
    assert_eq!(refused.status(), 400);
    let body = refused.text().await.unwrap();
    assert!(body.contains("table T") && body.contains("requests.scatter_part"), "{body}");
}

#[tokio::test]
async fn answers_that_are_read_slowly_do_not_take_more_than_their_memory() {
    let native = Reply::rows(&[r#"["native"]"#]);
    let script = move |asked: &Asked| if is_pinned(asked) { Reply::never() } else { native.clone() };
    let server = Fake::start(script);
    let stage = Arc::new(with(&[&server], "7.4.0", |settings| settings.scatter_memory = settings.scatter_part));
    let held = tokio::spawn({
        let stage = Arc::clone(&stage);
        async move { stage.query(SCAN).await }
    });
    let (status, body) = within("the answer", async {
        loop {
            let answer = stage.query(SCAN).await;
            if stage.counted("passed_through_total{reason=\"memory_taken\"}") > 0 {
                return answer;
            }
        }
    })
    .await;
    assert_eq!((status, keys_in(&body)), (200, vec!["native".to_owned()]));
    held.abort();
}

#[tokio::test]
async fn other_formats_and_old_servers_are_left_to_the_servers() {
    let server = Fake::start(|_| Reply::rows(&[]));
    let stage = stage(&[&server], "7.4.0");
    let request = stage.request("/query", format!(r#"{{"ksql":"{SCAN}"}}"#));
    assert_eq!(request.header("accept", "application/vnd.ksql.v1+protobuf").send().await.unwrap().status(), 200);
    assert_eq!(stage.counted("passed_through_total{reason=\"format_not_merged\"}"), 1);
    let old = Stage::on(four(), &[&server], Some("7.1.0"), settings());
    assert_eq!(old.query(SCAN).await.0, 200);
    assert_eq!(old.counted("passed_through_total{reason=\"version_unsuited\"}"), 1);
    let off = with(&[&server], "7.4.0", |settings| settings.scatter = false);
    assert_eq!(off.query(SCAN).await.0, 200);
    assert_eq!(off.counted("passed_through_total{reason=\"not_a_lookup\"}"), 1);
    assert!(server.asked().iter().all(|asked| !is_pinned(asked)));
}

#[tokio::test]
async fn parts_with_different_columns_are_never_mixed() {
    let other = |asked: &Asked| {
        let reply = sound(asked);
        Reply { body: reply.body.replace("\"schema\":\"s\"", "\"schema\":\"t\""), ..reply }
    };
    let (first, second) = (Fake::start(sound), Fake::start(other));
    let (status, body) = within("the answer", stage(&[&first, &second], "7.4.0").query(SCAN)).await;
    assert!(status == 503 && body.contains("different columns"), "{status} {body}");
}

#[tokio::test]
async fn a_bound_that_some_partitions_miss_is_refused_with_their_names() {
    let (first, second) = (Fake::start(sound), Fake::start(sound));
    let stage = stage(&[&first, &second], "7.4.0");
    let active = || stage.request("/query", format!(r#"{{"ksql":"{SCAN}","read.level":"active"}}"#)).send();
    assert_eq!(active().await.unwrap().status(), 200);
    stage.see_only(&[&first]);
    let refused = active().await.unwrap();
    assert_eq!(refused.status(), 503);
    let body = refused.text().await.unwrap();
    assert!(body.contains("table T, partitions 1, 3: no replica is the active beyond doubt"), "{body}");
    assert!(body.contains(&format!("partition 3: {} (standby): not_the_active", first.address)), "{body}");
}

#[tokio::test]
async fn a_part_whose_host_dies_under_it_is_asked_for_elsewhere() {
    let (first, second) = (Fake::start(sound), Fake::start(|_| Reply::never()));
    let stage = Arc::new(with(&[&first, &second], "7.4.0", |settings| {
        settings.attempt_floor = std::time::Duration::from_secs(5); // no hedge
        settings.attempt_ceiling = std::time::Duration::from_secs(5);
        settings.deadline = std::time::Duration::from_secs(15);
    }));
    let answer = tokio::spawn({
        let stage = Arc::clone(&stage);
        async move { stage.query(SCAN).await }
    });
    until("the first part is there", || first.asked().len() == 1).await;
    stage.see_only(&[&first]);
    let (status, body) = within("the answer", answer).await.unwrap();
    assert_eq!((status, keys_in(&body)), (200, all()));
    assert_eq!(stage.counted("attempts_total{reason=\"moved\",result=\"failed\"}"), 1);
}

#[tokio::test]
async fn an_error_that_every_server_gives_goes_through_as_it_came() {
    let says = || Fake::start(|_| Reply::error(400, 40001, "line 1:8: SELECT column 'X' cannot be resolved."));
    let (status, body) = stage(&[&says(), &says()], "7.4.0").query("SELECT X FROM T;").await;
    assert!(status == 400 && body.contains("cannot be resolved"), "{status} {body}");
}
