use super::*;
use ksqldb_sidecar::http::tunnel;

const HANDSHAKE: &[u8] =
    b"GET /ws/query?x=1 HTTP/1.1\r\nHost: db:8088\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: a\r\n\r\nearly";

/// A proxy of websockets to `server`.
pub(super) fn tunnel_to(server: SocketAddr) -> Running {
    let upstream = upstream(server);
    serve(ServerSettings::default(), move |request: Request<Body>, connection: ConnectionInfo| {
        let upstream = Arc::clone(&upstream);
        async move {
            assert!(tunnel::is_asked_by(&request));
            tunnel::forward(request, &upstream, &connection).await.unwrap()
        }
    })
}

/// Opens a tunnel through `proxy` to `listener`; gives both ends.
pub(super) async fn open(proxy: SocketAddr, listener: &TcpListener) -> (TcpStream, TcpStream, String, String) {
    let mut client = TcpStream::connect(proxy).await.unwrap();
    client.write_all(HANDSHAKE).await.unwrap();
    let (server, request) = answer_once(listener, "\r\n\r\n", SWITCHING).await;
    let answer = read_until(&mut client, "early").await;
    (client, server, request, answer)
}

#[tokio::test]
async fn a_websocket_passes_both_ways_and_closes_one_way_at_a_time() {
    let (listener, address) = listen().await;
    let proxy = tunnel_to(address);
    let (mut client, mut server, request, answer) = open(proxy.address, &listener).await;
    let request = request.to_lowercase();
    assert!(request.starts_with("get /ws/query?x=1 http/1.1\r\n"), "{request}");
    for field in ["host: db:8088\r\n", "connection: upgrade\r\n", "upgrade: websocket\r\n", "sec-websocket-key: k\r\n"]
    {
        assert!(request.contains(field), "{request}");
    }
    let answer = answer.to_lowercase();
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("sec-websocket-accept: a\r\n"), "{answer}");

    client.write_all(b"ping").await.unwrap();
    client.shutdown().await.unwrap();
    let mut received = String::new();
    within(server.read_to_string(&mut received)).await.unwrap();
    assert_eq!(received, "ping");
    server.write_all(b"pong").await.unwrap();
    drop(server);
    let mut received = String::new();
    within(client.read_to_string(&mut received)).await.unwrap();
    assert_eq!(received, "pong");
}

#[tokio::test]
async fn a_server_that_does_not_switch_is_heard_out() {
    let (listener, address) = listen().await;
    let proxy = tunnel_to(address);
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    client.write_all(HANDSHAKE).await.unwrap();
    let refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 8\r\n\r\nstarting";
    let (_server, _) = answer_once(&listener, "\r\n\r\n", refusal).await;
    let answer = read_until(&mut client, "starting").await.to_lowercase();
    assert!(answer.starts_with("http/1.1 503 ") && answer.contains("retry-after: 10\r\n"), "{answer}");
}

#[tokio::test]
async fn a_tunnel_counts_against_the_limit_of_connections_until_it_ends() {
    let (listener, address) = listen().await;
    let upstream = upstream(address);
    let settings = ServerSettings { max_connections: 1, ..ServerSettings::default() };
    let proxy = serve(settings, move |request: Request<Body>, connection: ConnectionInfo| {
        let upstream = Arc::clone(&upstream);
        async move { tunnel::forward(request, &upstream, &connection).await.unwrap() }
    });
    let (client, server, ..) = open(proxy.address, &listener).await;
    let mut waiting = TcpStream::connect(proxy.address).await.unwrap();
    waiting.write_all(HANDSHAKE).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(early.is_err());
    drop((client, server));
    answer_once(&listener, "\r\n\r\n", SWITCHING).await;
    read_until(&mut waiting, "early").await;
}
