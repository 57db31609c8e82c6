//! Attempts side by side, and what the retry budget allows.

use super::harness::{Fake, Reply, Stage, settings, within};
use super::{LOOKUP, good};
use ksqldb_sidecar::proxy::Settings;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

fn broke() -> Settings {
    Settings { retry_budget_ratio: 0.0, retry_budget_per_second: 0.0, deadline: Duration::from_secs(2), ..settings() }
}

fn closing() -> Fake {
    Fake::start(|_| Reply::error(400, 40001, "KafkaStreams is not running. State is PENDING_SHUTDOWN."))
}

#[tokio::test]
async fn a_spent_budget_refuses_the_retry_counts_it_and_leaves_the_servers_own_answer() {
    let (first, second) = (closing(), good());
    let stage = Stage::with(&[&first, &second], Some("0.29.0"), "K STRING", broke());
    let (status, body) = within("the answer", stage.query(LOOKUP)).await;
    assert_eq!((status, body.contains("PENDING_SHUTDOWN")), (400, true), "{body}");
    assert_eq!(second.asked().len(), 0);
    assert!(stage.counted("retries_refused_total") > 0);
}

#[tokio::test]
async fn a_spent_budget_ends_a_scan_too() {
    let (first, second) = (closing(), good());
    let stage = Stage::with(&[&first, &second], Some("0.29.0"), "K STRING", broke());
    let (status, body) = within("the answer", stage.query("SELECT * FROM S;")).await;
    assert_eq!((status, body.contains("PENDING_SHUTDOWN")), (400, true), "{body}");
}

#[tokio::test]
async fn b08_a_refused_connection_costs_nothing_of_the_budget() {
    for statement in [LOOKUP, "SELECT * FROM S;"] {
        let (dead, alive) = (Fake::refusing(), good());
        let stage = Stage::with(&[&dead, &alive], Some("0.29.0"), "K STRING", broke());
        let (status, body) = within("the answer", stage.query(statement)).await;
        assert_eq!(status, 200, "nothing was sent, so it is no retry: {body}");
        assert_eq!(stage.counted("retries_refused_total"), 0);
    }
}

#[tokio::test]
async fn b05_b38_a_frozen_local_server_costs_a_scan_one_limit() {
    let (frozen, other) = (Fake::start(|_| Reply::never()), good());
    let stage = Stage::set(&[&frozen, &other], Some("0.29.0"), "K STRING");
    let begun = Instant::now();
    assert_eq!(within("the answer", stage.query("SELECT * FROM S;")).await.0, 200);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn b39_servers_that_are_all_slow_answer_as_they_would_without_the_sidecar() {
    let slow = || Fake::start(|_| Reply::rows(&[r#"["x",1]"#]).after(Duration::from_millis(1500)));
    let (first, second) = (slow(), slow());
    let stage = Stage::set(&[&first, &second], Some("0.29.0"), "K STRING");
    let (status, body) = within("the answer", stage.query(LOOKUP)).await;
    assert_eq!((status, body.contains("[\"x\",1]")), (200, true));
    assert_eq!(first.asked().len() + second.asked().len(), 3, "two replicas and the plain request, none twice");
}

#[tokio::test]
async fn b10_nothing_by_the_deadline_is_503_and_names_every_host_once_as_it_was_met() {
    let (frozen, dead) = (Fake::start(|_| Reply::never()), Fake::refusing());
    let short = Settings { deadline: Duration::from_secs(1), ..settings() };
    let stage = Stage::with(&[&frozen, &dead], Some("0.29.0"), "K STRING", short);
    let (status, body) = within("the answer", stage.query(LOOKUP)).await;
    assert_eq!(status, 503);
    let error: serde_json::Value = serde_json::from_str(&body).unwrap();
    let message = error["message"].as_str().unwrap();
    for named in ["table T", "partition 0", &format!("{}: overdue", frozen.address)] {
        assert!(message.contains(named), "{named} is missing: {message}");
    }
    assert!(message.contains(&dead.address.to_string()), "{message}");
    assert!(!message.contains(&format!("{}: overdue", dead.address)), "it answered at once: {message}");
}

#[tokio::test]
async fn b10_b20_an_unmet_bound_is_refused_with_every_host_and_its_reason() {
    let (dead, standby) = (Fake::refusing(), good());
    let stage = Stage::with(&[&dead, &standby], Some("0.29.0"), "K STRING", settings());
    let bound = |lag: u64| {
        format!(r#"{{"ksql":"{LOOKUP}","streamsProperties":{{"ksql.query.pull.max.allowed.offset.lag":"{lag}"}}}}"#)
    };
    assert_eq!(stage.post("/query", bound(10)).await.status(), 200, "the standby lacks ten records");
    let response = stage.post("/query", bound(9)).await;
    assert_eq!((response.status().as_u16(), standby.asked().len()), (503, 1), "never older than the bound");
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(response.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn b20_a_bound_that_only_the_configuration_sets_is_kept_too() {
    let (active, standby) = (closing(), good());
    let mut bounded = settings();
    bounded.freshness.max_offset_lag = "9".to_owned().try_into().unwrap();
    let stage = Stage::with(&[&active, &standby], Some("0.29.0"), "K STRING", bounded);
    let (status, body) = within("the answer", stage.query(LOOKUP)).await;
    assert_eq!((status, standby.asked().len()), (400, 0), "the standby lacks ten records: {body}");
}

#[tokio::test]
async fn an_attempt_that_keeps_its_limit_is_not_overdue_while_a_retry_waits_for_the_budget() {
    let breaks_after = |millis| {
        Fake::raw(move |mut stream: TcpStream, _| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
        })
    };
    let (slow, quick, third) = (breaks_after(1300).await, breaks_after(400).await, good());
    let one_retry = Settings {
        attempt_floor: Duration::from_secs(1),
        attempt_ceiling: Duration::from_secs(1),
        retry_budget_ratio: 1.0,
        ..broke()
    };
    let stage = Stage::with(&[&slow, &quick, &third], Some("0.29.0"), "K STRING", one_retry);
    let (status, body) = within("the answer", stage.query(LOOKUP)).await;
    assert_eq!((status, third.asked().len()), (503, 0), "{body}");
    assert!(body.contains(&format!("{}: overdue", slow.address)), "{body}");
    assert!(!body.contains(&format!("{}: overdue", quick.address)), "{body}");
}
