use super::*;
use ksqldb_sidecar::http::Drained;
use std::sync::Mutex;
use tokio::sync::oneshot;

/// A server whose only answer waits for the test's word.
fn held_answer() -> (Running, oneshot::Receiver<()>, oneshot::Sender<()>) {
    let (started, handling) = oneshot::channel();
    let (release, released) = oneshot::channel::<()>();
    let once = Mutex::new(Some((started, released)));
    let running = serve(ServerSettings::default(), move |_: Request<Body>, _: ConnectionInfo| {
        let once = once.lock().unwrap().take();
        async move {
            let Some((started, released)) = once else { return Response::new(Body::full("second")) };
            started.send(()).unwrap();
            released.await.unwrap();
            Response::new(Body::full("finished"))
        }
    });
    (running, handling, release)
}

#[tokio::test]
async fn a_request_under_way_is_answered_and_then_its_connection_closes() {
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let (running, handling, release) = held_answer();
        let upstream = upstream(running.address);
        let answer = tokio::spawn(async move {
            text(upstream.send(Pool::Pull, version, Reuse::Allowed, post("hi")).await.unwrap()).await
        });
        within(handling).await.unwrap();
        let signal = running.drain.signal();
        let drained = tokio::spawn(running.drain.drain(PATIENCE));
        within(signal.draining()).await;
        release.send(()).unwrap();
        assert_eq!(within(answer).await.unwrap(), "finished");
        assert_eq!(within(drained).await.unwrap(), Drained { cut: 0 });
        assert!(TcpStream::connect(running.address).await.is_err());
    }
}

#[tokio::test]
async fn idle_and_silent_connections_close_at_once() {
    let running = serve(ServerSettings::default(), echo);
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    read_until(&mut idle, "GET /a HTTP/1.1 0 ").await;
    assert_eq!(within(running.drain.drain(PATIENCE)).await, Drained { cut: 0 });
    for mut client in [silent.split().0, idle.split().0] {
        assert_eq!(within(client.read(&mut [0; 1])).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_tunnel_is_ended_by_the_drain() {
    let (listener, address) = listen().await;
    let proxy = tunnel::tunnel_to(address);
    let (mut client, mut server, ..) = tunnel::open(proxy.address, &listener).await;
    assert_eq!(within(proxy.drain.drain(PATIENCE)).await, Drained { cut: 0 });
    assert_eq!(within(client.read(&mut [0; 1])).await.unwrap(), 0);
    assert_eq!(within(server.read(&mut [0; 1])).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_still_open_at_the_limit_is_cut_and_counted() {
    let (running, handling, _never) = held_answer();
    let mut client = TcpStream::connect(running.address).await.unwrap();
    client.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    within(handling).await.unwrap();
    assert_eq!(within(running.drain.drain(Duration::from_millis(50))).await, Drained { cut: 1 });
    assert_eq!(within(client.read(&mut [0; 1])).await.unwrap(), 0);
}
