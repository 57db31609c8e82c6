use super::*;
use std::process::{Command, Stdio};

/// Runs `curl` with these arguments and the request body on its standard input; gives its standard output.
async fn curl(arguments: Vec<String>, body: Vec<u8>) -> String {
    let run = move || {
        let mut child = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "10",
                "--http2",
                "--write-out",
                "\nhttp/%{http_version}\n",
            ])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need curl");
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &body));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{}", output.status);
        String::from_utf8(output.stdout).unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn curl_post(address: SocketAddr, body: &[u8]) -> String {
    let arguments = ["--data-binary", "@-", &format!("http://{address}/query")].map(str::to_owned).to_vec();
    curl(arguments, body.to_vec()).await
}

#[tokio::test]
async fn curl_upgrades_a_get_and_goes_on_over_the_same_connection() {
    let running = serve(ServerSettings::default(), async |request: Request<Body>, connection: ConnectionInfo| {
        let peer = connection.peer();
        Response::new(Body::full(format!("{} {:?} {peer}", request.uri(), request.version())))
    });
    let url = format!("http://{}/a?b=c", running.address);
    let output = curl(vec![url.clone(), url.clone()], Vec::new()).await;
    let lines: Vec<_> = output.lines().collect();
    assert!(lines[0].starts_with(&format!("{url} HTTP/2.0 127.0.0.1:")), "{output}");
    assert_eq!(lines, [lines[0], "http/2", lines[0], "http/2"]);
}

#[tokio::test]
async fn curl_upgrades_a_post_with_its_body() {
    let running = serve(ServerSettings::default(), echo);
    assert_eq!(curl_post(running.address, b"{}").await, "POST /query HTTP/2.0 2 {}\nhttp/2\n");
}

#[tokio::test]
async fn a_body_larger_than_every_initial_window_is_upgraded_whole() {
    let running = serve(ServerSettings::default(), echo);
    let body: Vec<u8> = (0..900_000).map(|n| b'a' + (n % 23) as u8).collect();
    let expected = format!("POST /query HTTP/2.0 900000 {}\nhttp/2\n", String::from_utf8(body.clone()).unwrap());
    assert!(curl_post(running.address, &body).await == expected);
}

#[tokio::test]
async fn a_body_above_the_limit_is_served_whole_as_http_1() {
    let settings = ServerSettings { max_upgrade_body_bytes: 1000, ..ServerSettings::default() };
    let running = serve(settings, echo);
    let body = "x".repeat(200_000);
    let expected = format!("POST /query HTTP/1.1 200000 {body}\nhttp/1.1\n");
    assert!(curl_post(running.address, body.as_bytes()).await == expected);
}

#[tokio::test]
async fn an_upgraded_request_is_forwarded_to_either_version() {
    let server = serve(ServerSettings::default(), echo);
    for (version, name) in [(HttpVersion::Http1, "HTTP/1.1"), (HttpVersion::Http2, "HTTP/2.0")] {
        let proxy = serve(ServerSettings::default(), forward_to(server.address, version));
        assert_eq!(curl_post(proxy.address, b"{}").await, format!("POST /query {name} 2 {{}}\nhttp/2\n"));
    }
}

#[tokio::test]
async fn a_malformed_settings_header_is_served_as_http_1() {
    let running = serve(ServerSettings::default(), echo);
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let head = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: !\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "GET /a HTTP/1.1 0 ").await.starts_with("HTTP/1.1 200 "));
}
