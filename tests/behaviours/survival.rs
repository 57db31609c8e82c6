//! What requests do about slow and full servers.

use super::harness::{Fake, Reply, Stage, settings, within};
use super::{LOOKUP, good};
use ksqldb_sidecar::proxy::Settings;
use ksqldb_sidecar::view::PullLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Only a hedge can be the reason for a second attempt.
fn hedging(hedge_ratio: f64) -> Settings {
    let patient = Duration::from_secs(5);
    Settings { hedge_ratio, attempt_floor: patient, attempt_ceiling: patient, deadline: patient, ..settings() }
}

/// Answers at once, or not for ten seconds.
fn slow_when(slow: &Arc<AtomicBool>) -> Fake {
    let slow = Arc::clone(slow);
    Fake::start(move |_| {
        let reply = Reply::rows(&[r#"["x",1]"#]);
        if slow.load(Ordering::Relaxed) { reply.after(Duration::from_secs(10)) } else { reply }
    })
}

/// Has the proxy learn how long lookups take, and then the first server slow.
async fn warmed_up(stage: &Stage, slow: &AtomicBool) {
    for _ in 0..60 {
        assert_eq!(stage.query(LOOKUP).await.0, 200);
    }
    slow.store(true, Ordering::Relaxed);
}

#[tokio::test]
async fn a_slow_active_gets_a_hedge_at_a_standby_that_ties_with_it() {
    let slow = Arc::new(AtomicBool::new(false));
    let (first, second) = (slow_when(&slow), good());
    let stage = Stage::with(&[&first, &second], Some("0.29.0"), "K STRING", hedging(1.0));
    stage.tie(&[&first, &second]);
    warmed_up(&stage, &slow).await;
    assert_eq!(within("the answer", stage.query(LOOKUP)).await.0, 200);
    assert_eq!(second.asked().len(), 1);
    assert_eq!(stage.counted("hedges_total{result=\"won\"}"), 1);
}

#[tokio::test]
async fn a_standby_that_is_behind_is_no_hedge() {
    let slow = Arc::new(AtomicBool::new(false));
    let (first, second) = (slow_when(&slow), good());
    let stage = Stage::with(&[&first, &second], Some("0.29.0"), "K STRING", hedging(1.0));
    warmed_up(&stage, &slow).await;
    assert_eq!(within("the answer", stage.query(LOOKUP)).await.0, 503, "the deadline comes before the slow answer");
    assert_eq!(stage.counted("hedges_total{result=\"sent\"}"), 0);
}

#[tokio::test]
async fn hedges_are_a_small_share_of_the_lookups() {
    let slow = Arc::new(AtomicBool::new(false));
    let (first, second) = (slow_when(&slow), good());
    let one_in_fifty =
        Settings { deadline: Duration::from_secs(1), attempt_ceiling: Duration::from_secs(5), ..hedging(0.02) };
    let stage = Stage::with(&[&first, &second], Some("0.29.0"), "K STRING", one_in_fifty);
    stage.tie(&[&first, &second]);
    warmed_up(&stage, &slow).await;
    let statuses = futures_util::future::join_all((0..5).map(|_| stage.query(LOOKUP))).await;
    let answered = statuses.iter().filter(|(status, _)| *status == 200).count() as u64;
    // whoever was first to be hedged; 65 lookups allow one
    assert_eq!(stage.counted("hedges_total{result=\"sent\"}"), 1);
    assert_eq!(answered, 1);
    assert!(stage.counted("hedges_total{result=\"refused\"}") >= 1);
}

#[tokio::test]
async fn a_full_server_sends_lookups_to_the_next_replica_without_a_retry() {
    let (full, other) = (Fake::start(|_| Reply::never()), good());
    let patient = Duration::from_secs(5);
    let narrow = Settings { concurrent_per_server: 1, attempt_floor: patient, attempt_ceiling: patient, ..settings() };
    let stage = Stage::with(&[&full, &other], Some("0.29.0"), "K STRING", narrow);
    let (_, second) = tokio::join!(tokio::time::timeout(Duration::from_secs(2), stage.query(LOOKUP)), async {
        super::harness::until("the first is under way", || full.asked().len() == 1).await;
        within("the answer", stage.query(LOOKUP)).await
    });
    assert_eq!(second.0, 200, "{}", second.1);
    assert_eq!((full.asked().len(), other.asked().len()), (1, 1));
    assert_eq!(stage.counted("retries_refused_total"), 0);
}

#[tokio::test]
async fn what_no_server_has_room_for_waits_and_the_excess_is_refused_in_ksqldbs_shape() {
    let slow = Fake::start(|_| Reply::rows(&[r#"["x",1]"#]).after(Duration::from_millis(100)));
    let stage = Stage::with(&[&slow], Some("0.29.0"), "K STRING", Settings { concurrent_per_server: 1, ..settings() });
    let answers = futures_util::future::join_all((0..12).map(|_| stage.query(LOOKUP))).await;
    let count = |status| answers.iter().filter(|(is, _)| *is == status).count();
    assert_eq!(count(200) + count(429), 12, "{answers:?}");
    assert!(count(200) >= 5, "one is served and four wait: {answers:?}");
    let (_, refused) = answers.iter().find(|(status, _)| *status == 429).expect("more than fit");
    assert!(
        refused.contains("\"error_code\":42900") && refused.contains("requests.max_concurrent_per_server"),
        "{refused}"
    );
}

#[tokio::test]
async fn the_servers_own_limits_are_kept_in_its_words() {
    let server = good();
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    stage.limit(PullLimits { queries_per_second: Some(1), concurrent: None });
    let answers = [stage.query(LOOKUP).await, stage.query(LOOKUP).await, stage.query(LOOKUP).await];
    let refused = answers.iter().find(|(status, _)| *status == 429).map(|(_, body)| body.as_str()).unwrap_or_default();
    assert!(refused.contains("Host is at rate limit for pull queries. Currently set to 1 qps."), "{answers:?}");
    stage.limit(PullLimits { queries_per_second: None, concurrent: Some(0) });
    assert_eq!(stage.query(LOOKUP).await.0, 429);
    stage.limit(PullLimits::default());
    assert_eq!(stage.query(LOOKUP).await.0, 200);
}

#[tokio::test]
async fn a_client_may_ask_for_an_answer_sooner_than_the_configuration_does() {
    let frozen = Fake::start(|_| Reply::never());
    let stage = Stage::with(
        &[&frozen],
        Some("0.29.0"),
        "K STRING",
        Settings { deadline: Duration::from_secs(60), ..settings() },
    );
    for statement in [LOOKUP, "SELECT * FROM T WHERE K IN ('x', 'y') AND V > 0;"] {
        let begun = Instant::now();
        let body = serde_json::json!({"ksql": statement, "request.deadline": "300ms"}).to_string();
        let asked = stage.request("/query", body).send();
        let response = within("the answer", asked).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "{statement}");
        assert_eq!(response.status(), 503, "{statement}");
    }
}

#[tokio::test]
async fn a_server_that_asks_to_be_left_alone_is_asked_last_meanwhile() {
    let limit = r#"{"@type":"generic_error","error_code":42900,"message":"Host is at rate limit for pull queries. Currently set to 1 qps."}"#;
    let busy = Fake::streaming(move |_: http::Request<ksqldb_sidecar::http::Body>, _| async move {
        let answer = http::Response::builder().status(429).header("Retry-After", "20");
        answer.body(ksqldb_sidecar::http::Body::full(limit)).unwrap()
    });
    let other = good();
    let stage = Stage::set(&[&busy, &other], Some("0.29.0"), "K STRING");
    for reads in 1..=3 {
        let response = stage.request("/query", serde_json::json!({"ksql": LOOKUP}).to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let attempts = if reads == 1 { "2" } else { "1" };
        assert_eq!(response.headers()["x-ksqldb-sidecar-attempts"], attempts, "read {reads}");
    }
}

#[tokio::test]
async fn a_request_whose_only_eligible_replica_dies_is_refused_then_and_not_at_its_deadline() {
    let (frozen, behind) = (Fake::start(|_| Reply::never()), good());
    let long = Settings { deadline: Duration::from_secs(600), patience: Duration::from_secs(60), ..settings() };
    let stage = Stage::with(&[&frozen, &behind], Some("0.29.0"), "K STRING", long);
    let body = serde_json::json!({"ksql": LOOKUP, "acceptable.offset.lag": 0}).to_string();
    let (response, ()) = tokio::join!(stage.request("/query", body).send(), async {
        super::harness::until("the first is under way", || frozen.asked().len() == 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await; // longer than its limit
        stage.see_only(&[&behind]);
    });
    let response = response.unwrap();
    assert_eq!(response.status(), 503);
    let text = response.text().await.unwrap();
    assert!(text.contains("over_bound") && text.contains("dead"), "{text}");
    assert_eq!(behind.asked().len(), 0);
}

#[tokio::test]
async fn a_cluster_that_is_down_is_asked_less_often_than_the_clients_ask() {
    let down = [Fake::refusing(), Fake::refusing(), Fake::refusing()];
    let down: Vec<&Fake> = down.iter().collect();
    let few = Settings { retry_budget_ratio: 0.2, retry_budget_per_second: 1.0, ..settings() };
    let stage = Stage::with(&down, Some("0.29.0"), "K STRING", few);
    stage.see_only(&[]);
    let answers = futures_util::future::join_all((0..40).map(|_| stage.query(LOOKUP))).await;
    assert!(answers.iter().all(|(status, _)| *status == 503), "{answers:?}");
    let attempts = stage.counted("attempts_total{reason=\"connect\",result=\"failed\"}");
    assert!((1..=48).contains(&attempts), "{attempts} attempts for 40 requests");
}
