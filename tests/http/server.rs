use super::*;
use std::sync::Mutex;

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_on_one_connection() {
    let running = serve(ServerSettings::default(), echo);
    let mut client = TcpStream::connect(running.address).await.unwrap();
    client
        .write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        .await
        .unwrap();
    let answers = read_until(&mut client, " 2 hi").await;
    assert!(answers.find("GET /a HTTP/1.1 0 ").unwrap() < answers.find("POST /b HTTP/1.1 2 hi").unwrap());

    client.write_all(b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    read_until(&mut client, "GET /c HTTP/1.1 0 ").await;
}

#[tokio::test]
async fn http2_by_prior_knowledge_is_served_on_the_same_port() {
    let running = serve(ServerSettings::default(), echo);
    let upstream = upstream(running.address);
    for (version, name) in [(HttpVersion::Http2, "HTTP/2.0"), (HttpVersion::Http1, "HTTP/1.1")] {
        let answer = upstream.send(Pool::Pull, version, Reuse::Allowed, post("hi")).await.unwrap();
        assert_eq!(text(answer).await, format!("POST /query {name} 2 hi"));
    }
}

#[tokio::test]
async fn a_head_above_the_limit_is_answered_with_431() {
    let running = serve(ServerSettings { max_head_bytes: 16 * 1024, ..ServerSettings::default() }, echo);
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "x".repeat(17 * 1024));
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn above_the_connection_limit_a_connection_waits_for_another_to_close() {
    let running = serve(ServerSettings { max_connections: 1, ..ServerSettings::default() }, echo);
    let request = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = TcpStream::connect(running.address).await.unwrap();
    first.write_all(request).await.unwrap();
    read_until(&mut first, "GET /a").await;

    let mut second = TcpStream::connect(running.address).await.unwrap();
    second.write_all(request).await.unwrap();
    first.write_all(request).await.unwrap();
    read_until(&mut first, "GET /a").await;
    assert_eq!(second.try_read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);

    drop(first);
    read_until(&mut second, "GET /a").await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_handler_that_was_answering_it() {
    let (alive, dropped) = tokio::sync::oneshot::channel::<()>();
    let (started, handling) = tokio::sync::oneshot::channel();
    let once = Mutex::new(Some((alive, started)));
    let running = serve(ServerSettings::default(), move |_: Request<Body>, _: ConnectionInfo| {
        let once = once.lock().unwrap().take();
        async move {
            let (_alive, started) = once.unwrap();
            started.send(()).unwrap();
            std::future::pending().await
        }
    });
    let mut client = TcpStream::connect(running.address).await.unwrap();
    client.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    within(handling).await.unwrap();
    drop(client);
    assert!(tokio::time::timeout(Duration::from_secs(1), dropped).await.unwrap().is_err());
}

#[tokio::test]
async fn a_client_that_leaves_closes_the_upstream_connection_within_a_second() {
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let (body, dropped) = endless();
        let body = Mutex::new(Some(body));
        let server = serve(ServerSettings::default(), move |_: Request<Body>, _: ConnectionInfo| {
            let body = body.lock().unwrap().take().unwrap();
            async move { Response::new(body) }
        });
        let proxy = serve(ServerSettings::default(), forward_to(server.address, version));
        let mut client = TcpStream::connect(proxy.address).await.unwrap();
        client.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        read_until(&mut client, "\r\n\r\n").await;
        drop(client);
        assert!(tokio::time::timeout(Duration::from_secs(1), dropped).await.unwrap().is_err());
    }
}
