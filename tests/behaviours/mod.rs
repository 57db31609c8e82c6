//! What people who run ksqlDB behind proxies met, as input -> expected; the numbers are those of the project's list.

mod bytes;
mod freshness;
pub mod harness;
mod proofs;
mod races;
mod streams;
mod survival;

use self::harness::{Fake, Reply, Stage, settings};
use ksqldb_sidecar::proxy::Settings;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LOOKUP: &str = "SELECT K, V FROM T WHERE K='x';";

fn good() -> Fake {
    Fake::start(|_| Reply::rows(&[r#"["x",1]"#]))
}

/// Answers the lookup as `lookup` says, and questions of proof as `proof` says.
fn prover(lookup: Reply, proof: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Fake {
    Fake::start(move |asked| {
        let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
        match body["ksql"].as_str() {
            Some(LOOKUP) if body["streamsProperties"].get("ksql.endpoint.migrate.query").is_none() => lookup.clone(),
            Some(sql) => proof(sql),
            None => panic!("no statement in {}", asked.body),
        }
    })
}

#[tokio::test]
async fn b02_transient_answers_go_to_the_next_replica_and_else_through_unchanged() {
    let transient = [
        Reply::error(400, 40001, "KafkaStreams is not running. State is PENDING_SHUTDOWN."),
        Reply::error(
            400,
            40001,
            "Error starting pull query: Unable to execute pull query. [Partition 5 failed to find valid host.]",
        ),
        Reply::error(503, 50302, "KSQL is not yet ready to serve requests."),
        Reply::error(500, 50000, "Worker executor closed"),
        Reply::new(
            200,
            "[{\"header\":{\"queryId\":\"q\"}},\n{\"errorMessage\":{\"error_code\":50000,\"message\":\"x: Exhausted standby hosts to try.\"}}]",
        ),
        Reply::new(200, ""),
        Reply::new(200, "[{\"header\":{\"queryId\":\"q\"}},\n{\"row\":{\"columns\":[\"x\",1]}}"),
    ];
    for reply in transient {
        let (bad, other) = (
            Fake::start({
                let reply = reply.clone();
                move |_| reply.clone()
            }),
            good(),
        );
        let stage = Stage::set(&[&bad, &other], Some("0.29.0"), "K STRING");
        let (status, body) = stage.query(LOOKUP).await;
        assert_eq!((status, body.contains("[\"x\",1]")), (200, true), "{reply:?} gave {body}");
        assert_eq!(other.asked().len(), 1);
    }
    let message = "Error starting pull query: Materialized data for key ['x']-Optional.empty is not available yet. Please try again later.";
    let all = Fake::start(move |_| Reply::error(400, 40001, message));
    let (status, body) = Stage::set(&[&all], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body), (400, Reply::error(400, 40001, message).body), "the server's own last answer");
}

#[tokio::test]
async fn b01_b03_b34_final_errors_go_through_as_they_came() {
    let echo = "SELECT * FROM T WHERE K='Exhausted standby hosts to try.';";
    for (reply, sql) in [
        (Reply::error(400, 40001, "line 1:8: Exhausted standby hosts to try."), LOOKUP),
        (Reply::error(400, 40001, "'Exhausted standby hosts to try.' can not be converted"), echo),
        (Reply::error(401, 40100, "Unauthorized"), LOOKUP),
        (Reply::error(403, 40300, "KafkaStreams is not running"), LOOKUP),
        (Reply::new(406, ""), LOOKUP),
        (Reply::error(421, 42100, "misdirected"), LOOKUP),
    ] {
        let (first, second) = (
            Fake::start({
                let reply = reply.clone();
                move |_| reply.clone()
            }),
            good(),
        );
        let stage = Stage::set(&[&first, &second], Some("0.29.0"), "K STRING");
        let body = serde_json::json!({"ksql": sql}).to_string();
        let response = stage.post("/query", body).await;
        assert_eq!(response.headers().get("content-type"), None, "an error without a type stays one");
        assert_eq!((response.status().as_u16(), response.text().await.unwrap()), (reply.status, reply.body));
        assert_eq!(second.asked().len(), 0, "{sql}");
    }
}

#[tokio::test]
async fn b04_limits_go_to_another_replica_once_and_else_through() {
    let limited =
        || Fake::start(|_| Reply::error(429, 42900, "Host is at rate limit for pull queries. Currently set to 1 qps."));
    let (first, second) = (limited(), good());
    assert_eq!(Stage::set(&[&first, &second], Some("0.29.0"), "K STRING").query(LOOKUP).await.0, 200);
    let (first, second) = (limited(), limited());
    assert_eq!(Stage::set(&[&first, &second], Some("0.29.0"), "K STRING").query(LOOKUP).await.0, 429);
    assert_eq!((first.asked().len(), second.asked().len()), (1, 1), "never the same server twice");
}

#[tokio::test]
async fn b05_b38_a_frozen_server_costs_one_limit_and_a_slow_one_is_raced_not_dropped() {
    let (frozen, other) = (Fake::start(|_| Reply::never()), good());
    let stage = Stage::set(&[&frozen, &other], Some("0.29.0"), "K STRING");
    let begun = Instant::now();
    assert_eq!(stage.query(LOOKUP).await.0, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let slow = Fake::start(|_| Reply::rows(&[r#"["x",7]"#]).after(Duration::from_millis(500)));
    let slower = Fake::start(|_| Reply::rows(&[r#"["x",8]"#]).after(Duration::from_secs(4)));
    let (status, body) = Stage::set(&[&slow, &slower], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body.contains("[\"x\",7]"), slower.asked().len()), (200, true, 1), "{body}");
}

#[tokio::test]
async fn b07_an_empty_answer_is_believed_only_with_proof() {
    let empty = || Reply::rows(&[]);
    let other_key: fn(&str) -> Reply = |_| Reply::rows(&[r#"["y"]"#]);
    let unreadable: fn(&str) -> Reply =
        |_| Reply::new(200, "[{\"header\":{}},\n{\"errorMessage\":{\"message\":\"x\"}}]");

    let proven = prover(empty(), other_key);
    let (status, body) = Stage::set(&[&proven], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body), (200, empty().body));
    assert_eq!(proven.statements()[1], "SELECT `K` FROM `T` WHERE `K` >= 'x' LIMIT 1;");

    let (unproven, truth) = (prover(empty(), unreadable), good());
    let (status, body) = Stage::set(&[&unproven, &truth], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body.contains("[\"x\",1]")), (200, true), "a store that cannot be read is no proof: {body}");

    let never = prover(empty(), unreadable);
    let (status, body) = Stage::set(&[&never], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!(status, 503, "never the empty answer: {body}");

    let present = AtomicUsize::new(0);
    let late = Fake::start(move |asked| match present.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::rows(&[]),
        _ if asked.body.contains(">=") => Reply::rows(&[r#"["x"]"#]),
        _ => Reply::rows(&[r#"["x",1]"#]),
    });
    let (_, body) = Stage::set(&[&late], Some("8.0.1"), "K STRING").query(LOOKUP).await;
    assert!(body.contains("[\"x\",1]"), "asked again when the proof finds the key: {body}");
}

#[tokio::test]
async fn b07_without_a_range_the_proof_is_two_answers_with_every_canary() {
    let lookup = "SELECT ID FROM T WHERE ID=5;";
    let run = |answers: Vec<Reply>| async move {
        let turn = AtomicUsize::new(0);
        let server = Fake::start(move |asked| {
            if asked.body.contains("LIMIT 1") {
                return Reply::rows(&["[7]"]);
            }
            if asked.body.contains(" IN (") {
                let turn = turn.fetch_add(1, Ordering::SeqCst);
                return answers.get(turn).cloned().unwrap_or_else(|| Reply::rows(&["[7]"]));
            }
            if asked.body.contains("migrate") { Reply::error(400, 40000, "not permitted") } else { Reply::rows(&[]) }
        });
        let stage = Stage::set(&[&server], Some("0.29.0"), "ID INT");
        let (status, _) = stage.query(lookup).await;
        (status, server.statements().iter().filter(|sql| sql.contains(" IN (")).count())
    };
    let canary = || Reply::rows(&["[7]"]);
    assert_eq!(run(vec![canary(), canary()]).await, (200, 2));
    let (status, asked) = run(vec![canary(), Reply::rows(&[]), canary(), canary()]).await;
    assert_eq!((status, asked >= 4), (200, true), "a second answer without the canary proves nothing");
}

#[tokio::test]
async fn b07_versions_that_show_failures_need_no_proof_and_those_that_do_not_check_pins_are_asked_natively() {
    let plain = Fake::start(|_| Reply::rows(&[]));
    assert_eq!(Stage::set(&[&plain], Some("7.4.0"), "K STRING").query(LOOKUP).await.0, 200);
    assert_eq!(plain.asked().len(), 1);
    let old = Fake::start(|asked| {
        if asked.body.contains("skip.forwarding") { Reply::rows(&[]) } else { Reply::rows(&[r#"["x",1]"#]) }
    });
    let (_, body) = Stage::set(&[&old], Some("7.1.0"), "K STRING").query(LOOKUP).await;
    assert!(body.contains("[\"x\",1]"), "an empty pinned answer is repeated natively: {body}");
    let trusted = Fake::start(|_| Reply::rows(&[]));
    let trust = ksqldb_sidecar::proxy::Settings { prove_absence: false, ..settings() };
    let stage = Stage::with(&[&trusted], Some("0.29.0"), "K STRING", trust);
    assert_eq!(stage.query(LOOKUP).await.0, 200);
    assert!(stage.metrics.encode().unwrap().contains("ksqldb_sidecar_unproven_answers_total 1"));
}

#[tokio::test]
async fn b09_b29_what_changes_something_is_sent_once() {
    let failing = || Fake::start(|_| Reply::error(503, 50302, "KSQL is not yet ready to serve requests."));
    let (first, second) = (failing(), failing());
    let stage = Stage::set(&[&first, &second], Some("0.29.0"), "K STRING");
    for (path, body) in [
        ("/query-stream", r#"{"sql":"SELECT * FROM S EMIT CHANGES;"}"#),
        ("/ksql", r#"{"ksql":"INSERT INTO S (K) VALUES ('a');"}"#),
        (
            "/query",
            r#"{"ksql":"SELECT K FROM T WHERE K='x';","requestProperties":{"request.ksql.debug.request":true}}"#,
        ),
    ] {
        assert_eq!(stage.post(path, body.to_owned()).await.status(), 503, "{path}");
        assert_eq!(first.asked().last().unwrap().body, body, "untouched");
    }
    assert_eq!((first.asked().len(), second.asked().len()), (3, 0));
    for path in ["/heartbeat", "/lag"] {
        assert_eq!(stage.post(path, "{}".into()).await.status(), 400, "{path} is for servers");
    }
    assert_eq!(first.asked().len(), 3);
}

#[tokio::test]
async fn b10_b20_a_bound_is_kept_or_refused_with_every_host_and_its_reason() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    let body = |lag: &str| {
        format!(r#"{{"sql":"{LOOKUP}","properties":{{"a":1,"ksql.query.pull.max.allowed.offset.lag":{lag}}}}}"#)
    };
    for lag in ["10", "\"10\""] {
        assert_eq!(stage.post("/query-stream", body(lag)).await.status(), 200);
        let seen = active.asked().last().unwrap().body.clone();
        assert!(
            !seen.contains("max.allowed") && seen.contains("\"a\":1"),
            "no server takes it on /query-stream: {seen}"
        );
    }
    stage.see_only(&[&standby]);
    let refused = stage.post("/query-stream", body("5")).await;
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    let text = refused.text().await.unwrap();
    for part in
        ["no replica is within 5 records", &format!("{} (standby): over_bound, lag 10 records", standby.address)]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(stage.post("/query-stream", body("10")).await.status(), 200);
    stage.see(&[&active, &standby]);
    let nonsense = stage.post("/query-stream", body("\"x\"")).await;
    assert_eq!(nonsense.status(), 200, "nonsense is the server's to refuse");
    assert!(active.asked().last().unwrap().body.contains("max.allowed"));
}

#[tokio::test]
async fn b40_every_read_from_the_standby_of_a_lost_active_is_counted() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    assert_eq!(stage.query(LOOKUP).await.0, 200);
    assert_eq!(stage.counted("reads_after_failover_total"), 0);
    stage.see_only(&[&standby]);
    for reads in 1..=3 {
        assert_eq!(stage.query(LOOKUP).await.0, 200);
        assert_eq!(stage.counted("reads_after_failover_total"), reads);
    }
    assert_eq!(standby.asked().len(), 3);
}

#[tokio::test]
async fn with_every_server_down_a_read_fails_after_few_attempts_with_a_short_reason() {
    let fakes = [Fake::refusing(), Fake::refusing(), Fake::refusing()];
    let fakes: Vec<&Fake> = fakes.iter().collect();
    let patient = Settings { patience: Duration::from_secs(2), ..settings() };
    let stage = Stage::with(&fakes, Some("0.29.0"), "K STRING", patient);
    let (status, body) = stage.query(LOOKUP).await;
    assert_eq!(status, 503, "{body}");
    for fake in &fakes {
        assert_eq!(body.matches(&fake.address.to_string()).count(), 1, "{body}");
    }
    let attempts = stage.counted("attempts_total{reason=\"connect\",result=\"failed\"}");
    assert!((3..=30).contains(&attempts), "{attempts}");
}

#[tokio::test]
async fn b08_a_dead_server_is_passed_over_for_every_kind_of_request() {
    let dead = Fake::refusing();
    let alive = Fake::start(|_| Reply::rows(&[r#"["x",1]"#]));
    let stage = Stage::set(&[&dead, &alive], Some("0.29.0"), "K STRING");
    for (path, body) in [
        ("/query", format!(r#"{{"ksql":"{LOOKUP}"}}"#)),
        ("/query-stream", r#"{"sql":"SELECT * FROM S EMIT CHANGES;"}"#.to_owned()),
        ("/ksql", r#"{"ksql":"LIST TABLES;"}"#.to_owned()),
        ("/query", r#"{"ksql":"SELECT * FROM S;"}"#.to_owned()),
        ("/inserts-stream", "{\"target\":\"S\"}\n".to_owned()),
    ] {
        assert_eq!(stage.post(path, body).await.status(), 200, "{path}");
    }
    assert_eq!(alive.asked().len(), 5);
}

#[tokio::test]
async fn b06_a_large_answer_that_ends_badly_is_broken_off() {
    let row = format!("[\"x\",\"{}\"]", "v".repeat(1000));
    let rows: Vec<&str> = (0..200).map(|_| row.as_str()).collect();
    let whole = Reply::rows(&rows).body;
    let cut = whole.trim_end_matches(']').to_owned();
    let error = format!("{cut},\n{{\"errorMessage\":{{\"message\":\"x\"}}}}]");
    for (body, complete) in [(whole.clone(), true), (cut, false), (error, false)] {
        let server = Fake::start(move |_| Reply::new(200, body.clone()));
        let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
        let response = stage.post("/query", format!(r#"{{"ksql":"{LOOKUP}"}}"#)).await;
        let read = response.bytes().await;
        assert_eq!(read.is_ok(), complete);
        if let Ok(bytes) = read {
            assert_eq!(bytes, whole.as_bytes());
        }
    }
}

#[tokio::test]
async fn b33_not_queryable_is_final_only_if_a_second_server_agrees() {
    let says = || {
        Fake::start(|_| Reply::error(400, 40001, "The `T` table isn't queryable. To derive a queryable table, you can"))
    };
    let (closing, other) = (says(), good());
    assert_eq!(Stage::set(&[&closing, &other], Some("0.29.0"), "K STRING").query(LOOKUP).await.0, 200);
    let (one, two, three) = (says(), says(), says());
    let (status, body) = Stage::set(&[&one, &two, &three], Some("0.29.0"), "K STRING").query(LOOKUP).await;
    assert_eq!((status, body.contains("isn't queryable")), (400, true));
    assert_eq!(one.asked().len() + two.asked().len() + three.asked().len(), 2);
}

#[tokio::test]
async fn answers_tell_who_served_them() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    let response = stage.post("/query", format!(r#"{{"ksql":"{LOOKUP}"}}"#)).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-ksqldb-sidecar-served-by"), active.address.to_string());
    assert_eq!((header("x-ksqldb-sidecar-lag"), header("x-ksqldb-sidecar-attempts")), ("0".into(), "1".into()));
    let asked = active.asked().remove(0);
    assert!(asked.body.contains(r#""request.ksql.query.pull.partition":"0""#), "{}", asked.body);
    assert!(asked.headers.get("content-length").is_some());
    assert_eq!(asked.path, "/query");
}
