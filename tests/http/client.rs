use super::*;
use hyper::HeaderMap;
use ksqldb_sidecar::http::{ReadBody, read_up_to};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers with the port that the client connected from: the same port, the same connection.
async fn port(_: Request<Body>, connection: ConnectionInfo) -> Response<Body> {
    Response::new(Body::full(connection.peer().port().to_string()))
}

#[tokio::test]
async fn connections_are_reused_within_a_pool_and_not_when_a_new_one_is_asked_for() {
    let server = serve(ServerSettings::default(), port);
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let upstream = upstream(server.address);
        let ask = async |pool, reuse| text(upstream.send(pool, version, reuse, post("x")).await.unwrap()).await;
        let first = ask(Pool::Pull, Reuse::Allowed).await;
        assert_eq!(ask(Pool::Pull, Reuse::Allowed).await, first);
        assert_ne!(ask(Pool::Stream, Reuse::Allowed).await, first);
        let new = ask(Pool::Pull, Reuse::Never).await;
        assert_ne!(new, first);
        assert_eq!(ask(Pool::Pull, Reuse::Allowed).await, new);
    }
}

#[tokio::test]
async fn a_full_http2_connection_is_joined_by_another() {
    let server = serve(ServerSettings::default(), port);
    let upstream = upstream_with(ClientSettings { max_streams: 2, ..ClientSettings::default() }, server.address);
    let ask = || upstream.send(Pool::Stream, HttpVersion::Http2, Reuse::Allowed, post("x"));
    let held = [ask().await.unwrap(), ask().await.unwrap()];
    let third = text(ask().await.unwrap()).await;
    let [first, second] = held;
    let first = text(first).await;
    assert_eq!(text(second).await, first);
    assert_ne!(third, first);
    assert_eq!(text(ask().await.unwrap()).await, first);
}

#[tokio::test]
async fn unused_connections_are_closed() {
    let settings = ClientSettings { idle_timeout: Duration::from_millis(20), ..ClientSettings::default() };
    let (listener, address) = listen().await;
    let upstream = upstream_with(settings, address);
    let send = upstream.send(Pool::Pull, HttpVersion::Http1, Reuse::Allowed, post("hi"));
    let (answer, (mut server, _)) = tokio::join!(send, answer_once(&listener, "hi", OK));
    assert_eq!(text(answer.unwrap()).await, "ok");
    assert_eq!(within(server.read(&mut [0; 1])).await.unwrap(), 0);
}

#[tokio::test]
async fn errors_tell_what_may_have_been_sent() {
    let (listener, address) = listen().await;
    let up = upstream(address);
    let ask = || up.send(Pool::Pull, HttpVersion::Http1, Reuse::Allowed, post("hi"));
    let (answer, (mut server, _)) = tokio::join!(ask(), answer_once(&listener, "hi", OK));
    text(answer.unwrap()).await;
    let (answer, ()) = tokio::join!(ask(), async {
        read_until(&mut server, "hi").await;
        drop(server);
    });
    let error = answer.unwrap_err();
    assert!(error.is_closed_before_response() && !error.is_connect(), "{error:?}");

    let (answer, _) = tokio::join!(ask(), async { drop(answer_once(&listener, "hi", "").await) });
    let error = answer.unwrap_err();
    assert!(!error.is_closed_before_response() && !error.is_connect(), "{error:?}");
    assert_eq!(error.label(), "closed");

    let (answer, _) = tokio::join!(ask(), answer_once(&listener, "hi", "nonsense\r\n\r\n"));
    assert_eq!(answer.unwrap_err().label(), "protocol");

    drop(listener);
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let error = up.send(Pool::Pull, version, Reuse::Allowed, post("hi")).await.unwrap_err();
        assert!(error.is_connect() && !error.is_timeout(), "{error:?}");
    }
}

#[tokio::test]
async fn a_connection_not_made_in_time_is_a_timeout() {
    // The kernel accepts, but nobody answers the TLS handshake.
    let (_listener, address) = listen().await;
    let settings = ClientSettings { connect_timeout: Duration::from_millis(20), ..ClientSettings::default() };
    let up = HttpClient::new(settings).unwrap().upstream(&format!("https://{address}").parse().unwrap());
    let error = up.send(Pool::Pull, HttpVersion::Http1, Reuse::Allowed, post("hi")).await.unwrap_err();
    assert!(error.is_connect() && error.is_timeout(), "{error:?}");
}

#[tokio::test]
async fn a_failing_request_body_is_not_blamed_on_the_server() {
    let (listener, address) = listen().await;
    let up = upstream(address);
    let body = Body::stream(futures_util::stream::iter([Ok(Bytes::from("hi")), Err(std::io::Error::other("gone"))]));
    let request = Request::post("/query").body(body).unwrap();
    let send = up.send(Pool::Pull, HttpVersion::Http1, Reuse::Allowed, request);
    let (answer, _accepted) = tokio::join!(send, listener.accept());
    let error = answer.unwrap_err();
    assert!(error.is_request_body(), "{error:?}");
}

#[tokio::test]
async fn hop_by_hop_fields_stop_here_in_both_directions() {
    let (listener, address) = listen().await;
    let proxy = serve(ServerSettings::default(), forward_to(address, HttpVersion::Http1));
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    let request = "POST /query HTTP/1.1\r\nHost: db.example\r\nConnection: close, X-Named\r\nX-Named: 1\r\nX-Kept: 2\r\n\
        Keep-Alive: 5\r\nProxy-Connection: close\r\nTE: trailers, deflate\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let answer = "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 2\r\n\
        Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let (_server, sent) = answer_once(&listener, "0\r\n\r\n", answer).await;
    let received = read_until(&mut client, "0\r\n\r\n").await;

    let sent = sent.to_lowercase();
    assert!(sent.contains("host: db.example\r\n") && sent.contains("x-kept: 2\r\n"), "{sent}");
    assert!(sent.contains("te: trailers\r\n") && sent.contains("transfer-encoding: chunked\r\n"), "{sent}");
    for gone in ["x-named", "keep-alive", "proxy-connection", "close", "deflate", "content-length"] {
        assert!(!sent.contains(gone), "{gone} in {sent}");
    }
    let received = received.to_lowercase();
    assert!(received.contains("x-kept: 2\r\n") && !received.contains("content-length"), "{received}");
    assert!(!received.contains("x-hop") && !received.contains("timeout=5"), "{received}");
}

#[tokio::test]
async fn the_server_gets_the_host_that_the_client_named_whatever_the_versions() {
    let server = serve(ServerSettings::default(), async |request: Request<Body>, _: ConnectionInfo| {
        let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
        let authority = request.uri().authority().map(ToString::to_string);
        Response::new(Body::full(format!("{host:?} {authority:?}")))
    });
    let seen = [
        (HttpVersion::Http1, r#"Some("db.example:8088") None"#),
        (HttpVersion::Http2, r#"None Some("db.example:8088")"#),
    ];
    for (to_server, seen) in seen {
        let proxy = serve(ServerSettings::default(), forward_to(server.address, to_server));
        for to_proxy in [HttpVersion::Http1, HttpVersion::Http2] {
            let request = Request::get("http://db.example:8088/info").body(Body::empty()).unwrap();
            let answer = upstream(proxy.address).send(Pool::Pull, to_proxy, Reuse::Allowed, request).await;
            assert_eq!(text(answer.unwrap()).await, seen);
        }
    }
}

#[tokio::test]
async fn a_body_larger_than_the_limit_is_forwarded_whole_with_its_trailers() {
    let server = serve(ServerSettings::default(), async |request: Request<Body>, _: ConnectionInfo| {
        Response::new(request.into_body())
    });
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let up = upstream(server.address);
        let proxy = serve(ServerSettings::default(), move |request: Request<Body>, _: ConnectionInfo| {
            let up = Arc::clone(&up);
            async move {
                let (head, body) = request.into_parts();
                let read = read_up_to(body, 1000).await.unwrap();
                assert!(matches!(read, ReadBody::TooLarge { .. }));
                let request = Request::from_parts(head, read.into_body());
                up.send(Pool::Stream, version, Reuse::Allowed, request).await.unwrap()
            }
        });
        let chunks = (0..2000_u32).map(|n| Ok::<_, std::io::Error>(Bytes::from(format!("{n:08},").repeat(100))));
        let expected: String = (0..2000_u32).map(|n| format!("{n:08},").repeat(100)).collect();
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
        let body = Body::stream(futures_util::stream::iter(chunks)).with_trailers(Some(Box::new(trailers.clone())));
        let request = Request::post("/query").header("te", "trailers").header("trailer", "x-sum").body(body).unwrap();
        let answer = upstream(proxy.address).send(Pool::Stream, version, Reuse::Allowed, request).await.unwrap();
        let answer = within(answer.into_body().collect()).await.unwrap();
        assert_eq!(answer.trailers().cloned(), (version == HttpVersion::Http2).then_some(trailers));
        assert!(answer.to_bytes() == expected.as_bytes());
    }
}

#[tokio::test]
async fn a_connection_on_which_many_streams_were_abandoned_is_retired() {
    let running = serve(ServerSettings::default(), async |request: Request<Body>, connection: ConnectionInfo| {
        match request.uri().path() {
            "/never" => std::future::pending().await,
            _ => Response::new(Body::full(connection.peer().port().to_string())),
        }
    });
    let upstream = upstream(running.address);
    let ask = |path: &'static str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        upstream.send(Pool::Pull, HttpVersion::Http2, Reuse::Allowed, request)
    };
    let first = text(within(ask("/port")).await.unwrap()).await;
    for _ in 0..99 {
        assert!(tokio::time::timeout(Duration::from_millis(1), ask("/never")).await.is_err());
    }
    assert_eq!(text(within(ask("/port")).await.unwrap()).await, first, "few may be abandoned");
    assert!(tokio::time::timeout(Duration::from_millis(1), ask("/never")).await.is_err());
    assert_ne!(text(within(ask("/port")).await.unwrap()).await, first);
}
