//! Empty answers: which proof is asked for, what it shows, and what it costs.

use super::harness::{Fake, Reply, Stage, settings, table};
use super::{LOOKUP, good};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NUMBER: &str = "SELECT ID FROM T WHERE ID=5;";
const UNREADABLE: &str = "[{\"header\":{}},\n{\"errorMessage\":{\"message\":\"x\"}}]";

/// A store of whole numbers that answers every question about them, as a server would that can be read.
fn numbers(held: Arc<Mutex<Vec<i64>>>) -> Fake {
    Fake::start(move |asked| {
        let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
        let sql = body["ksql"].as_str().unwrap().to_owned();
        let named: Vec<i64> = sql.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        let held = held.lock().unwrap();
        let rows: Vec<i64> = match sql.contains(" LIMIT ") {
            true => held.iter().copied().take(1).collect(),
            false => held.iter().copied().filter(|n| named.contains(n)).collect(),
        };
        let rows: Vec<String> = rows.iter().map(|n| format!("[{n}]")).collect();
        Reply::rows(&rows.iter().map(String::as_str).collect::<Vec<_>>()).after(Duration::from_millis(20))
    })
}

#[tokio::test]
async fn b07_many_absent_keys_of_one_partition_share_their_questions() {
    let server = numbers(Arc::new(Mutex::new(vec![7000])));
    let stage = Arc::new(Stage::with(&[&server], Some("0.29.0"), "ID INT", settings()));
    let lookups = (0..20).map(|id| {
        let stage = Arc::clone(&stage);
        tokio::spawn(async move { stage.query(&format!("SELECT ID FROM T WHERE ID={id};")).await })
    });
    for lookup in lookups.collect::<Vec<_>>() {
        assert_eq!(lookup.await.unwrap(), (200, Reply::rows(&[]).body));
    }
    let (questions, lookups): (Vec<String>, Vec<String>) =
        server.statements().into_iter().partition(|sql| sql.contains(" IN (") || sql.contains(" LIMIT "));
    assert_eq!(lookups.len(), 20, "no lookup is asked twice: {lookups:?}");
    assert!(questions.len() <= 20, "alone, each of the 20 keys would need two questions: {questions:?}");
}

#[tokio::test]
async fn b07_deleted_canaries_are_replaced() {
    let held = Arc::new(Mutex::new(vec![7]));
    let server = numbers(Arc::clone(&held));
    let stage = Stage::with(&[&server], Some("0.29.0"), "ID INT", settings());
    assert_eq!(stage.query("SELECT ID FROM T WHERE ID=7;").await.0, 200);
    assert_eq!(stage.query(NUMBER).await.0, 200);
    *held.lock().unwrap() = vec![9];
    let (status, body) = stage.query(NUMBER).await;
    assert_eq!((status, body), (200, Reply::rows(&[]).body), "every canary known was deleted, another key exists");
}

#[tokio::test]
async fn b07_a_key_that_is_there_the_second_time_is_asked_again() {
    let turn = Mutex::new(0);
    let server = Fake::start(move |asked| {
        let mut turn = turn.lock().unwrap();
        match (asked.body.contains(" IN ("), asked.body.contains(" LIMIT ")) {
            (true, _) => {
                *turn += 1;
                if *turn == 2 { Reply::rows(&["[5]", "[7]"]) } else { Reply::rows(&["[7]"]) }
            }
            (_, true) => Reply::rows(&["[7]"]),
            _ if *turn == 0 => Reply::rows(&[]),
            _ => Reply::rows(&["[5]"]),
        }
    });
    let (status, body) = Stage::set(&[&server], Some("0.29.0"), "ID INT").query(NUMBER).await;
    assert_eq!((status, body.contains("[5]")), (200, true), "{body}");
}

#[tokio::test]
async fn b07_without_any_other_key_the_old_row_writer_tells() {
    for (answer, expected) in [
        (Reply::rows(&[]), (200, Reply::rows(&[]).body)),
        (Reply::new(200, UNREADABLE), (200, Reply::rows(&["[6]"]).body)),
    ] {
        let first = Fake::start(move |asked| match asked.body.contains(r#""ksql.endpoint.migrate.query":false"#) {
            true => answer.clone(),
            false => Reply::rows(&[]),
        });
        let second = Fake::start(|_| Reply::rows(&["[6]"]));
        assert_eq!(Stage::set(&[&first, &second], Some("0.29.0"), "ID INT").query(NUMBER).await, expected);
        let asked = first.asked().pop().unwrap();
        assert_eq!(first.statements().pop().unwrap(), NUMBER, "the original");
        assert!(asked.body.contains(r#""request.ksql.query.pull.skip.forwarding":true"#), "pinned: {}", asked.body);
    }
}

#[tokio::test]
async fn b07_a_server_of_unknown_version_is_made_to_prove() {
    let server = numbers(Arc::new(Mutex::new(vec![7])));
    assert_eq!(Stage::set(&[&server], None, "ID INT").query(NUMBER).await.0, 200);
    assert_eq!(server.statements().iter().filter(|sql| sql.contains(" IN (")).count(), 2);
}

#[tokio::test]
async fn b07_questions_carry_the_clients_credentials_and_its_answer_comes_as_it_came() {
    let server = Fake::start(|asked| match asked.body.contains(">=") {
        true => Reply::rows(&[r#"["y"]"#]),
        false => Reply::new(200, "{\"queryId\":\"q\",\"columnNames\":[\"K\"]}\n"),
    });
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let answer = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("http://{}/query-stream?a=b", stage.client))
        .header("authorization", "Basic eDp5")
        .header("accept", "application/vnd.ksqlapi.delimited.v1")
        .body(format!(r#"{{"sql":"{LOOKUP}"}}"#))
        .send();
    let answer = answer.await.unwrap().text().await.unwrap();
    assert_eq!(answer, "{\"queryId\":\"q\",\"columnNames\":[\"K\"]}\n");
    let asked = server.asked();
    assert_eq!(asked.iter().map(|asked| asked.path.as_str()).collect::<Vec<_>>(), ["/query-stream", "/query"]);
    for (asked, accept) in asked.iter().zip(["application/vnd.ksqlapi.delimited.v1", "application/vnd.ksql.v1+json"]) {
        assert_eq!(asked.headers["authorization"], "Basic eDp5");
        assert_eq!(asked.headers["accept"], accept, "{}", asked.path);
    }
}

#[tokio::test]
async fn b07_no_window_within_the_bounds_is_proven_from_all_windows() {
    let windowed = || ksqldb_sidecar::view::TableInfo { windowed: true, ..table("K STRING") };
    for (bound, expected) in [(3000, 200), (2000, 503)] {
        let lookup = format!("SELECT K FROM T WHERE K='x' AND WINDOWSTART >= {bound};");
        let server = Fake::start({
            let lookup = lookup.clone();
            move |asked| match asked.body.contains(&lookup) {
                true => Reply::rows(&[]),
                false if asked.body.contains(" LIMIT ") => Reply::rows(&[r#"["x"]"#]),
                false => Reply::rows(&[r#"["x",1000,2000]"#, r#"["x",2000,3000]"#]),
            }
        });
        let stage = Stage::on(windowed(), &[&server], Some("0.29.0"), settings());
        let (status, body) = stage.query(&lookup).await;
        assert_eq!(status, expected, "{body}");
        let question = "SELECT `K`, WINDOWSTART, WINDOWEND FROM `T` WHERE `K` = 'x';";
        assert_eq!(server.statements()[2], question, "{:?}", server.statements());
        let absent = stage.counted("absence_proofs_total{method=\"windows\",result=\"absent\"}");
        assert_eq!(absent, u64::from(expected == 200));
    }
}

#[tokio::test]
async fn b07_what_no_replica_proves_is_refused_by_name() {
    let mute = || Fake::start(|asked| if asked.body.contains(">=") { Reply::never() } else { Reply::rows(&[]) });
    let (first, second) = (mute(), mute());
    let hasty = ksqldb_sidecar::proxy::Settings { proof_timeout: Duration::from_millis(100), ..settings() };
    let stage = Stage::with(&[&first, &second], Some("0.29.0"), "K STRING", hasty);
    let response = stage.post("/query", format!(r#"{{"ksql":"{LOOKUP}"}}"#)).await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("retry-after"));
    let error: serde_json::Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!((error["@type"].as_str(), error["error_code"].as_u64()), (Some("generic_error"), Some(50300)));
    let message = error["message"].as_str().unwrap();
    for named in ["table T", "partition 0", &first.address.to_string(), &second.address.to_string(), "unproven"] {
        assert!(message.contains(named), "{named} is missing: {message}");
    }
}

#[tokio::test]
async fn b07_an_answer_that_turns_good_while_no_replica_could_be_read_is_given() {
    let readable = Arc::new(AtomicBool::new(false));
    let server = Fake::start({
        let readable = Arc::clone(&readable);
        move |asked| match (
            asked.body.contains(">=") || asked.body.contains("migrate"),
            readable.load(Ordering::SeqCst),
        ) {
            (true, false) => {
                readable.store(true, Ordering::SeqCst);
                Reply::new(200, UNREADABLE)
            }
            (_, false) => Reply::rows(&[]),
            (_, true) => Reply::rows(&[r#"["x",1]"#]),
        }
    });
    let (status, body) = Stage::set(&[&server], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body.contains("[\"x\",1]")), (200, true), "another round is made within the patience: {body}");
    assert_eq!(Stage::set(&[&good()], Some("0.29.0"), "K STRING").query(LOOKUP).await.0, 200);
}

#[tokio::test]
async fn b07_a_replica_that_is_behind_does_not_say_that_a_key_is_absent() {
    let (dead, behind) = (Fake::refusing(), numbers(Arc::new(Mutex::new(vec![7]))));
    let stage = Stage::set(&[&dead, &behind], Some("0.29.0"), "ID INT");
    assert_eq!(stage.query("SELECT ID FROM T WHERE ID=7;").await.0, 200, "a stale row is a row");
    let (status, body) = stage.query(NUMBER).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains(&format!("{}: behind", behind.address)), "{body}");
    let bounded =
        r#"{"ksql":"SELECT ID FROM T WHERE ID=5;","streamsProperties":{"ksql.query.pull.max.allowed.offset.lag":50}}"#;
    let accepted = stage.post("/query", bounded.to_owned()).await;
    assert_eq!(accepted.status(), 200, "within the bound that the request itself sets");
}
