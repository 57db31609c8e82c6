//! What a request may ask of freshness, and what comes of it.

use super::harness::{Fake, Reply, Stage, settings, within};
use super::{LOOKUP, good};
use ksqldb_sidecar::proxy::FIELDS;
use reqwest::Response;
use std::time::Duration;

async fn ask(stage: &Stage, headers: &[(&str, &str)], members: &str) -> (u16, reqwest::header::HeaderMap, String) {
    let mut request = stage.request("/query", format!("{{\"ksql\":\"{LOOKUP}\"{members}}}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response: Response = request.send().await.unwrap();
    (response.status().as_u16(), response.headers().clone(), response.text().await.unwrap())
}

#[tokio::test]
async fn its_members_never_reach_a_server() {
    let server = good();
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let own = r#""acceptable.offset.lag":1000,"read.level":"any","wait.for.freshness":"1s""#;
    for members in [
        format!(",{own}"),
        format!(r#","streamsProperties":{{"a":1,{own}}}"#),
        format!(r#","requestProperties":{{{own}}}"#),
    ] {
        let (status, _, body) = ask(&stage, &[], &members).await;
        assert_eq!(status, 200, "{body}");
        let seen = server.asked().last().unwrap().body.clone();
        assert!(FIELDS.iter().all(|field| !seen.contains(field.member)), "{seen}");
        assert_eq!(seen.contains("\"a\":1"), members.contains("\"a\":1"), "{seen}");
        assert!(seen.contains("pull.partition"), "{seen}");
    }
}

#[tokio::test]
async fn what_passes_through_without_its_members_has_the_length_of_what_is_left() {
    let server = good();
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    for (path, statement, more) in [
        ("/query", r#""ksql":"SELECT * FROM S EMIT CHANGES;""#, ""),
        ("/query-stream", r#""sql":"SELECT * FROM S EMIT CHANGES;""#, ""),
        ("/query", r#""ksql":"PRINT s LIMIT 1;""#, ""),
        ("/query", r#""ksql":"SELECT FROM WHERE;""#, ""),
        (
            "/query",
            r#""ksql":"SELECT * FROM T WHERE K='x';""#,
            r#","requestProperties":{"request.ksql.debug.request":true}"#,
        ),
    ] {
        let body = format!(r#"{{{statement},"read.level":"any"{more}}}"#);
        let response = within("an answer", stage.request(path, body).send()).await.unwrap();
        assert_eq!(response.status(), 200, "{path} {statement}");
        within("its end", response.bytes()).await.unwrap();
        assert_eq!(server.asked().last().unwrap().body, format!("{{{statement}{more}}}"));
    }
}

#[tokio::test]
async fn nonsense_is_a_400_that_names_it_and_asks_no_server() {
    let server = good();
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    for (name, value) in [
        ("x-ksqldb-sidecar-max-offset-lag", "-1"),
        ("x-ksqldb-sidecar-max-staleness", "soon"),
        ("x-ksqldb-sidecar-level", "best"),
        ("x-ksqldb-sidecar-wait", "x"),
        ("x-ksqldb-sidecar-token", "AAAA"),
    ] {
        let (status, headers, body) = ask(&stage, &[(name, value)], "").await;
        assert_eq!((status, headers["content-type"].as_bytes()), (400, &b"application/json"[..]), "{body}");
        assert!(body.contains("generic_error") && (body.contains(name) || body.contains("token")), "{body}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn the_level_active_is_kept_or_refused() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    let level = [("x-ksqldb-sidecar-level", "active")];
    assert_eq!(ask(&stage, &level, "").await.0, 200);
    stage.see_only(&[&standby]);
    let (status, _, body) = ask(&stage, &level, "").await;
    assert_eq!((status, standby.asked().len()), (503, 0), "{body}");
    assert!(body.contains("not_the_active") && body.contains("the active beyond doubt"), "{body}");
}

#[tokio::test]
async fn the_level_any_spreads_reads_over_the_replicas() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    // one that was slow once is given reads again after a while
    within("reads of both", async {
        while active.asked().len().min(standby.asked().len()) < 6 {
            assert_eq!(ask(&stage, &[], r#","read.level":"any""#).await.0, 200);
        }
    })
    .await;
}

#[tokio::test]
async fn a_bound_that_is_unmet_waits_for_the_report_that_meets_it() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    stage.see_only(&[&standby]);
    let asked = [("x-ksqldb-sidecar-max-offset-lag", "5"), ("x-ksqldb-sidecar-wait", "9s")];
    let (answer, ()) = tokio::join!(ask(&stage, &asked, ""), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.see(&[&active, &standby]);
    });
    assert_eq!(answer.0, 200, "{}", answer.2);
    let waited: u64 = answer.1["x-ksqldb-sidecar-waited"].to_str().unwrap().parse().unwrap();
    assert!(waited > 0, "{waited}");
    stage.see_only(&[&standby]);
    let (status, headers, body) = ask(&stage, &[asked[0], ("x-ksqldb-sidecar-wait", "30ms")], "").await;
    assert_eq!((status, headers.contains_key("retry-after")), (503, true), "{body}");
}

#[tokio::test]
async fn those_who_would_rather_have_an_old_answer_are_told_that_it_is_one() {
    let (active, standby) = (good(), good());
    let mut degrading = settings();
    degrading.freshness.on_unmet = "degrade".parse().unwrap();
    let stage = Stage::with(&[&active, &standby], Some("0.29.0"), "K STRING", degrading);
    let bound = [("x-ksqldb-sidecar-max-offset-lag", "5")];
    assert!(!ask(&stage, &bound, "").await.1.contains_key("x-ksqldb-sidecar-degraded"));
    stage.see_only(&[&standby]);
    let (status, headers, _) = ask(&stage, &bound, "").await;
    assert_eq!((status, headers["x-ksqldb-sidecar-degraded"].as_bytes()), (200, &b"bound-unmet"[..]));
    assert_eq!(stage.counted("bounds_unmet_total{policy=\"degraded\"}"), 1);
}

#[tokio::test]
async fn a_token_holds_a_session_to_what_it_has_read() {
    let (active, standby) = (good(), good());
    let stage = Stage::set(&[&active, &standby], Some("0.29.0"), "K STRING");
    let (status, headers, _) = ask(&stage, &[], "").await;
    let token = headers["x-ksqldb-sidecar-token"].to_str().unwrap().to_owned();
    assert_eq!(status, 200);
    assert!(token.len() < 120, "{token}");
    let (status, headers, body) = ask(&stage, &[("x-ksqldb-sidecar-token", &token)], "").await;
    assert_eq!((status, standby.asked().len()), (200, 0), "the host that was read may answer again: {body}");
    let token = headers["x-ksqldb-sidecar-token"].to_str().unwrap().to_owned();
    stage.see_only(&[&standby]);
    let (status, _, body) = ask(&stage, &[("x-ksqldb-sidecar-token", &token)], "").await;
    assert_eq!((status, standby.asked().len()), (503, 0), "nothing shows that the standby is not older: {body}");
    assert!(body.contains("behind_token"), "{body}");
    assert_eq!(ask(&stage, &[], "").await.0, 200, "without the token it answers");
    let mut forged = token.into_bytes();
    forged[9] = if forged[9] == b'A' { b'B' } else { b'A' };
    let (status, _, body) = ask(&stage, &[("x-ksqldb-sidecar-token", std::str::from_utf8(&forged).unwrap())], "").await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("is not a token of this cluster"), "{body}");
}

#[tokio::test]
async fn a_sticky_session_stays_with_its_host_and_leaves_a_lost_one() {
    let (active, standby) = (good(), good());
    let mut sticky = settings();
    sticky.freshness.session = "sticky".parse().unwrap();
    let stage = Stage::with(&[&active, &standby], Some("0.29.0"), "K STRING", sticky);
    stage.see_only(&[&standby]);
    let (_, headers, _) = ask(&stage, &[], "").await;
    let token = headers["x-ksqldb-sidecar-token"].to_str().unwrap().to_owned();
    stage.see(&[&active, &standby]);
    let carried = [("x-ksqldb-sidecar-token", token.as_str())];
    assert_eq!(ask(&stage, &carried, "").await.0, 200);
    assert_eq!((active.asked().len(), standby.asked().len()), (0, 2), "the session's host comes before the freshest");
    assert_eq!(ask(&stage, &carried, r#","read.level":"any""#).await.0, 200);
    assert_eq!((active.asked().len(), standby.asked().len()), (0, 3), "and before the least busy");
    stage.see_only(&[&active]);
    assert_eq!(ask(&stage, &carried, "").await.0, 200, "it is never refused");
    assert_eq!((active.asked().len(), standby.asked().len()), (1, 3));
}

#[tokio::test]
async fn what_the_servers_route_is_refused_a_bound_that_they_would_not_keep() {
    let server = Fake::start(|_| Reply::rows(&[r#"["x",1]"#]));
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let scan = |header: (&'static str, &'static str)| {
        let request = stage.request("/query", r#"{"ksql":"SELECT * FROM S;"}"#.to_owned()).header(header.0, header.1);
        async move { request.send().await.unwrap() }
    };
    for header in [
        ("x-ksqldb-sidecar-max-offset-lag", "5"),
        ("x-ksqldb-sidecar-max-staleness", "5s"),
        ("x-ksqldb-sidecar-level", "active"),
    ] {
        let refused = scan(header).await;
        assert_eq!(refused.status(), 400);
        let body = refused.text().await.unwrap();
        assert!(body.contains(header.0) && body.contains("a query of an unknown table"), "{body}");
    }
    assert_eq!(server.asked().len(), 0);
    for header in [("x-ksqldb-sidecar-wait", "1s"), ("x-ksqldb-sidecar-level", "any"), ("x-ksqldb-sidecar-token", "")] {
        assert_eq!(scan(header).await.status(), 200, "{header:?}");
    }
}

#[tokio::test]
async fn a_bound_is_never_ignored_whatever_it_stands_on() {
    let server = good();
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let pinned = r#","requestProperties":{"request.ksql.debug.request":true}"#;
    let large = format!(r#","streamsProperties":{{"a":"{}"}}"#, "x".repeat(settings().max_inspected_body));
    for (statement, members, what) in [
        ("SELECT * FROM S EMIT CHANGES;", "", "a push query"),
        ("PRINT s;", "", "not certainly a pull query"),
        (LOOKUP, pinned, "steers its routing itself"),
        (LOOKUP, large.as_str(), "listen.max_inspected_body"),
        (LOOKUP, r#","ksql":"S""#, "not understood"),
    ] {
        let body = format!(r#"{{"ksql":"{statement}"{members}}}"#);
        for (name, value) in [("x-ksqldb-sidecar-max-staleness", "5s"), ("x-ksqldb-sidecar-token", "written")] {
            let answer = within("an answer", stage.request("/query", body.clone()).header(name, value).send()).await;
            let answer = answer.unwrap();
            assert_eq!(answer.status(), 400, "{statement}");
            let text = answer.text().await.unwrap();
            assert!(text.contains(&format!("{name}: cannot be kept")) && text.contains(what), "{text}");
        }
        let nonsense = stage.request("/query", body).header("x-ksqldb-sidecar-level", "best").send().await.unwrap();
        assert_eq!(nonsense.status(), 400, "{statement}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn a_cookie_that_is_no_token_is_refused_once_and_binds_only_what_it_can() {
    let server = good();
    let mut cookies = settings();
    cookies.freshness.tokens = "cookie".parse().unwrap();
    let stage = Stage::with(&[&server], Some("0.29.0"), "K STRING", cookies);
    let cookie = [("cookie", "a=b; ksqldb-sidecar-token=AAAA")];
    let (status, headers, body) = ask(&stage, &cookie, "").await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("ksqldb-sidecar-token: the token is not a token of this cluster"), "{body}");
    assert_eq!(headers["set-cookie"].as_bytes(), b"ksqldb-sidecar-token=; Path=/; Max-Age=0");
    let scan = stage.request("/query", r#"{"ksql":"SELECT * FROM S;"}"#.to_owned()).header(cookie[0].0, cookie[0].1);
    assert_eq!(scan.send().await.unwrap().status(), 200, "it came with the request, and was not asked for");
    let by_header = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    assert_eq!(ask(&by_header, &cookie, "").await.0, 200, "where tokens are no cookies, no cookie is one");
}

#[tokio::test]
async fn its_members_do_not_reach_a_server_with_statements_either() {
    let server = Fake::start(|_| Reply::new(200, "[]"));
    let stage = Stage::set(&[&server], Some("0.29.0"), "K STRING");
    let body = r#"{"ksql":"LIST TABLES;","read.after":"x","streamsProperties":{"a":1,"read.level":"any"}}"#;
    assert_eq!(stage.request("/ksql", body.to_owned()).send().await.unwrap().status(), 200);
    assert_eq!(server.asked().last().unwrap().body, r#"{"ksql":"LIST TABLES;","streamsProperties":{"a":1}}"#);
}

#[tokio::test]
async fn bounds_of_the_configuration_are_those_of_the_table() {
    let (active, standby) = (good(), good());
    let mut bounded = settings();
    let lag = |text: &str| ksqldb_sidecar::config::TableBounds {
        max_offset_lag: Some(text.to_owned().try_into().unwrap()),
        max_staleness: None,
    };
    bounded.freshness.tables =
        [("*".to_owned(), lag("1")), ("T".to_owned(), lag("50")), ("X*".to_owned(), lag("2"))].into();
    let stage = Stage::with(&[&active, &standby], Some("0.29.0"), "K STRING", bounded);
    stage.see_only(&[&standby]);
    let empty: &[(&str, &str)] = &[];
    for (headers, status) in [(empty, 200), (&[("x-ksqldb-sidecar-max-offset-lag", "5")][..], 503)] {
        let answered = ask(&stage, headers, "").await;
        assert_eq!(answered.0, status, "the table's own name beats patterns, the request beats it: {}", answered.2);
    }
}
