//! What the admin port shows to people, over real HTTP: the page, its events, decisions, and who may see them.

use crate::cluster::support::{Rig, client, query};
use ksqldb_sidecar::app::Sidecar;
use ksqldb_sidecar::cli::{ExplainArgs, TopArgs, explain, top};
use ksqldb_sidecar::emulator::{ClusterConfig, Fault};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::time::Duration;

/// A cluster whose first sidecar knows two current replicas of each partition.
async fn rig(more: &[(&str, &str)]) -> Rig {
    let rig = Rig::with(ClusterConfig { tables: vec!["TL".into()], ..ClusterConfig::default() }, more).await;
    rig.until(&rig.sidecars[0], "every replica is current", |view| {
        view.slots(&view.tables["TL"]).all(|slot| view.servable(&slot, None) == 2)
    })
    .await;
    rig
}

fn url(sidecar: &Sidecar, path: &str) -> String {
    format!("http://{}{path}", sidecar.admin_addr())
}

async fn decisions(sidecar: &Sidecar, filter: &str) -> Vec<Value> {
    let response = client().get(url(sidecar, &format!("/decisions?{filter}"))).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let answer: Value = response.json().await.unwrap();
    answer["decisions"].as_array().unwrap().clone()
}

/// Reads a key with these headers; the answer's.
async fn read(sidecar: &Sidecar, key: &str, headers: &[(&str, &str)]) -> HeaderMap {
    let body = json!({"ksql": format!("SELECT * FROM TL WHERE K='{key}';")}).to_string();
    let request = client().post(format!("http://{}/query", sidecar.client_addr())).body(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let headers = response.headers().clone();
    response.bytes().await.unwrap(); // a decision is made when its answer has ended
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_tell_where_queries_went_and_nothing_of_what_they_asked() {
    let rig = rig(&[("LOG__DECISIONS", "5")]).await;
    let sidecar = &rig.sidecars[0];
    let secret = [("Authorization", "Basic c2VjcmV0OnNlY3JldA=="), ("X-Request-Id", "order-17")];
    let answer = read(sidecar, "k1", &secret).await;
    let served_by = answer["x-ksqldb-sidecar-served-by"].to_str().unwrap();
    query(sidecar.client_addr(), "SELECT K FROM TL WHERE K IN ('k1', 'k2');").await;
    query(sidecar.client_addr(), "SELECT K FROM NOWHERE WHERE K='k1';").await;

    let found = decisions(sidecar, "id=order-17").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let lookup = &found[0];
    let told = ["class", "table", "servedBy", "outcome", "status"].map(|member| lookup[member].clone());
    assert_eq!(told, [json!("lookup"), json!("TL"), json!(served_by), json!("ok"), json!(200)], "{lookup}");
    assert_eq!(lookup["partition"], rig.partition_of("k1"));
    let replicas = lookup["replicas"].as_array().unwrap();
    let place = replicas.iter().position(|replica| replica["host"] == served_by);
    assert!(
        place == Some(0) || place.is_some() && lookup["attempts"] != 1,
        "the first choice is asked first: {lookup}"
    );
    assert_eq!(replicas[0]["reason"], lookup["reason"]);
    assert!(replicas.len() == 2 && replicas[1]["because"].as_str().unwrap().len() > 10, "{lookup}");

    let reasons = async |filter: &str| {
        let found = decisions(sidecar, filter).await;
        found.iter().map(|decision| decision["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(reasons("class=lookup-many").await, ["scatter"]);
    assert_eq!(reasons("class=lookup&limit=1").await, ["unknown_table"], "newest first");
    assert_eq!(reasons("table=TL&outcome=ok").await.len(), 1);
    assert_eq!(reasons(&format!("class=lookup&table=TL&host={served_by}")).await.len(), 1);
    assert!(reasons("outcome=exhausted").await.is_empty());
    let bad = client().get(url(sidecar, "/decisions?colour=red")).send().await.unwrap();
    assert_eq!(bad.status(), 400);

    let all = Value::from(decisions(sidecar, "").await).to_string();
    for hidden in ["k1", "c2VjcmV0", "SELECT"] {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    for number in 0..6 {
        read(sidecar, &format!("k{number}"), &[]).await;
    }
    let last = decisions(sidecar, "").await;
    assert_eq!(last.len(), 5, "as many as are configured");
    assert!(last.iter().all(|decision| decision["requestId"] != "order-17"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_and_decisions_are_for_this_machine_under_its_own_name() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let status = async |path: &str, headers: &[(&str, &str)]| {
        let request = match path {
            "/explain" | "/heartbeat" => client().post(url(sidecar, path)).body("SELECT * FROM TL WHERE K='k1';"),
            _ => client().get(url(sidecar, path)),
        };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap().status().as_u16()
    };
    for path in ["/explain", "/decisions"] {
        assert_eq!(status(path, &[]).await, 200, "{path}");
        assert_eq!(status(path, &[("Host", "localhost:8090")]).await, 200, "{path}");
        assert_eq!(status(path, &[("Host", "rebound.example:8090")]).await, 403, "{path}");
        assert_eq!(status(path, &[("Origin", "http://evil.example")]).await, 403, "{path}");
        assert_eq!(status(path, &[("Sec-Fetch-Site", "cross-site")]).await, 403, "{path}");
    }
    assert_eq!(status("/heartbeat", &[("Origin", "http://evil.example")]).await, 403);
    assert_eq!(status("/metrics", &[("Host", "ksql-1:8090")]).await, 200, "Prometheus uses any name");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_one_id_from_client_to_decision() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let answer = read(sidecar, "k1", &[("X-Request-Id", "mine!")]).await;
    assert_eq!(answer["x-request-id"], "mine!");
    let made = read(sidecar, "k1", &[("X-Request-Id", "not sane")]).await["x-request-id"].to_str().unwrap().to_owned();
    assert!(made.len() == 32 && made != read(sidecar, "k1", &[]).await["x-request-id"].to_str().unwrap(), "{made}");
    assert_eq!(decisions(sidecar, &format!("id={made}")).await.len(), 1);
    let info = client().get(format!("http://{}/info", sidecar.client_addr())).send().await.unwrap();
    assert_eq!(info.headers()["x-request-id"].len(), 32, "whatever passes through has one");
    let refused = client()
        .post(format!("http://{}/query", sidecar.client_addr()))
        .body(json!({"ksql": "SELECT * FROM TL WHERE K IN ('k1', 'k2');", "acceptable.offset.lag": "few"}).to_string());
    let refused = refused.header("X-Request-Id", "refused-1").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["x-request-id"].to_str().unwrap()), (400, "refused-1"));
    assert_eq!(decisions(sidecar, "id=refused-1&outcome=bad_demand").await.len(), 1);
    rig.stop().await;
}

/// The stream of events of one sidecar.
struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    async fn open(sidecar: &Sidecar) -> Events {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let response = client.get(url(sidecar, "/events")).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        Events { response, text: String::new() }
    }

    /// The next event of that name; `None` at the end of the stream.
    async fn next(&mut self, name: &str) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if event.lines().any(|line| line.strip_prefix("event: ") == Some(name)) {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
                    return Some(serde_json::from_str(data).unwrap());
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await.unwrap().unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Reads overviews until one holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let overview = self.next("overview").await.unwrap_or_else(|| panic!("the stream ended before: {what}"));
                if holds(&overview) {
                    return overview;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("{what}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_nothing_from_elsewhere_and_nothing_inline() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let (mut paths, mut read) = (vec!["/".to_owned()], 0);
    while let Some(path) = paths.get(read).cloned() {
        let response = client().get(url(sidecar, &path)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let headers = response.headers();
        assert!(
            headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'; script-src 'self';")
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let kind = headers["content-type"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        let kinds = [("/", "text/html"), (".js", "text/javascript"), (".css", "text/css"), (".svg", "image/svg+xml")];
        let (_, expected) = kinds.iter().find(|(end, _)| path.ends_with(end)).unwrap();
        assert!(kind.starts_with(expected), "{path}: {kind}");
        let outside = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http://") && !outside.contains("https://"), "{path} names another place");
        for forbidden in
            ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "<script>", " onclick="]
        {
            assert!(!text.contains(forbidden), "{path} has {forbidden}");
        }
        let named = text.split('"').filter_map(|part| part.strip_prefix('.').or(Some(part)));
        let named = named
            .filter(|part| part.starts_with('/') && kinds.iter().any(|(end, _)| part.len() > 1 && part.ends_with(end)));
        for part in named {
            let full = if path.starts_with("/page/") && !part.starts_with("/page") {
                format!("/page{part}")
            } else {
                part.to_owned()
            };
            if !paths.contains(&full) {
                paths.push(full);
            }
        }
        read += 1;
    }
    assert_eq!(paths.len(), 8, "every file is reached from the page: {paths:?}");
    for (path, status) in [("/page/nothing.js", 404), ("/favicon.ico", 404)] {
        assert_eq!(client().get(url(sidecar, path)).send().await.unwrap().status(), status, "{path}");
    }
    assert_eq!(client().post(url(sidecar, "/")).send().await.unwrap().status(), 405);
    let rebound = client().get(url(sidecar, "/")).header("Host", "rebound.example").send().await.unwrap();
    assert_eq!(rebound.status(), 403);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_show_a_killed_server_a_silent_sidecar_and_each_decision_once() {
    let mut rig = rig(&[]).await;
    let mut events = Events::open(&rig.sidecars[0]).await;
    let current = |overview: &Value| {
        let tables = overview["tables"].as_array().unwrap();
        let partitions = tables.iter().flat_map(|table| table["partitions"].as_array().unwrap());
        partitions.map(|partition| partition["ready"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let answering = |overview: &Value| {
        let servers = overview["servers"].as_array().unwrap();
        servers.iter().map(|server| server["sidecar"]["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is_well =
        |overview: &Value| current(overview) == [2; 6] && answering(overview) == ["this", "answers", "answers"];
    let well = events.until("every partition has two current replicas", is_well).await;
    let servers = well["servers"].as_array().unwrap();
    assert!(servers.iter().all(|server| server["state"] == "live" && server["sinceMs"].is_u64()), "{well}");
    assert_eq!(servers.iter().filter(|server| server["local"] == true).count(), 1);

    read(&rig.sidecars[0], "k1", &[("X-Request-Id", "seen")]).await;
    let mut seen = 0;
    let mut requests = 0;
    for _ in 0..3 {
        let traffic = events.next("traffic").await.unwrap();
        let decisions = traffic["decisions"].as_array().unwrap();
        seen += decisions.iter().filter(|decision| decision["requestId"] == "seen").count();
        let seconds = traffic["seconds"].as_array().unwrap();
        requests = requests.max(seconds.iter().map(|second| second["requests"].as_u64().unwrap()).sum::<u64>());
    }
    assert_eq!((seen, requests), (1, 1));

    let victim = rig.cluster.servers()[2].name.clone();
    rig.cluster.inject(Fault::Crash(2));
    let state = |overview: &Value| {
        let servers = overview["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == *victim).map(|server| server["state"].clone())
    };
    let dead = events.until("the killed server is dead", |overview| state(overview) == Some("dead".into())).await;
    assert!(current(&dead).iter().filter(|ready| **ready < 2).count() >= 2, "losing another would hurt: {dead}");
    rig.sidecars.pop().unwrap().shutdown().await;
    events.until("its sidecar is silent", |overview| answering(overview).contains(&"silent".to_owned())).await;

    let response = client().get(url(&rig.sidecars[0], "/overview")).send().await.unwrap();
    let overview: Value = response.json().await.unwrap();
    assert_eq!(state(&overview), Some("dead".into()), "the same for programs");
    assert!(overview["traffic"]["seconds"].as_array().is_some_and(|seconds| !seconds.is_empty()));
    rig.stop().await;
    while events.next("overview").await.is_some() {} // the stream ends, and is not cut
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_streams_and_no_more() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut events = Events::open(sidecar).await;
        events.next("overview").await.unwrap();
        open.push(events);
    }
    let ask = async || client().get(url(sidecar, "/events")).send().await.unwrap();
    let refused = ask().await;
    assert_eq!(refused.status(), 503);
    let error: Value = refused.json().await.unwrap();
    assert_eq!((&error["@type"], &error["error_code"]), (&json!("generic_error"), &json!(50300)));
    open.pop();
    let freed = async {
        while ask().await.status() != 200 {
            tokio::task::yield_now().await; // until the sidecar has noticed that the client left
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.expect("a closed stream makes room");
    rig.stop().await;
}

/// What a command writes that has a runtime of its own; or its error.
async fn written<F>(command: F) -> Result<String, String>
where
    F: FnOnce(&mut Vec<u8>) -> Result<(), Box<dyn std::error::Error>> + Send + 'static,
{
    let run = move || {
        let mut output = Vec::new();
        command(&mut output).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(output).unwrap())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_shows_the_same() {
    let rig = rig(&[]).await;
    let sidecar = &rig.sidecars[0];
    let served = read(sidecar, "k1", &[]).await["x-ksqldb-sidecar-served-by"].to_str().unwrap().to_owned();
    let admin: ksqldb_sidecar::config::BaseUrl = url(sidecar, "").parse().unwrap();
    let args = TopArgs { admin: admin.clone(), once: true };
    let shown = written(move |output| top(&args, output)).await.unwrap();
    assert!(shown.contains("3 of 3 servers live"), "{shown}");
    let line =
        |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {shown}"));
    let cells: Vec<&str> = line("TL").split_whitespace().skip(1).collect();
    assert!(cells.len() == 6 && cells.iter().all(|cell| cell.starts_with(['A', 'B', 'C'])), "{shown}");
    assert!(line("LAST 60 s").contains(", 0 failed"), "{shown}");
    let lookup = format!("TL/{}  ", rig.partition_of("k1"));
    assert!(
        shown.lines().any(|line| line.contains(&lookup) && line.contains(&served) && line.ends_with("ok")),
        "{shown}"
    );

    let explained = async |statement: &str| {
        let args = ExplainArgs { admin: admin.clone(), statement: None };
        let statement = statement.to_owned();
        written(move |output| explain(&args, &mut statement.as_bytes(), output)).await
    };
    let told = explained(r#"{"ksql": "SELECT * FROM TL WHERE K='k1';", "acceptable.offset.lag": 1000}"#).await.unwrap();
    assert!(told.contains(&format!("partition {} of 6", rig.partition_of("k1"))), "{told}");
    assert!(told.contains("at most 1000 records behind, from acceptable.offset.lag"), "{told}");
    assert_eq!(told.lines().filter(|line| line.starts_with(['1', '2'])).count(), 2, "{told}");
    assert!(explained("SELECT * FROM NOWHERE WHERE K='k1';").await.unwrap().contains("unknown_table"));
    assert_eq!(explained("{}").await.unwrap_err().split(',').next(), Some("expects a statement"));
    rig.stop().await;
    assert!(explained("SELECT 1;").await.unwrap_err().starts_with("no sidecar answers at http://127."));
}
