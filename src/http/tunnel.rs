//! Websockets: after the handshake, bytes pass both ways unread.

use super::body::Body;
use super::client::{HttpVersion, Upstream};
use super::handler::ConnectionInfo;
use super::headers;
use super::pool_h1::BUFFER_BYTES;
use super::send_error::SendError;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

/// Whether a request asks for a websocket.
pub fn is_asked_by(request: &Request<Body>) -> bool {
    request.version() == Version::HTTP_11 && headers::asks_upgrade(request.headers(), "websocket")
}

/// Forwards a websocket handshake on a connection of its own; if the server switches, joins client and server.
///
/// Gives the server's answer, 101 or not. The joined connections close one direction at a time, as the peers do; they end
/// when both have, when one fails, and when the drain begins.
///
/// # Errors
/// With the request as it came if there was no answer, so that another server can be tried: a handshake carries a query,
/// which changes nothing, and no body.
pub async fn forward(
    request: Request<Body>,
    upstream: &Upstream,
    connection: &ConnectionInfo,
) -> Result<Response<Body>, NotForwarded> {
    let io = match upstream.connector.connect(&upstream.uri, HttpVersion::Http1).await {
        Ok(io) => io,
        Err(error) => return Err(NotForwarded { error, request: Box::new(request) }),
    };
    let (came, _) = request.into_parts();
    let mut request = Request::from_parts(came.clone(), Body::empty());
    let again = |error| NotForwarded { error, request: Box::new(Request::from_parts(came.clone(), Body::empty())) };
    let client = hyper::upgrade::on(&mut request);
    let (mut head, body) = request.into_parts();
    headers::target_in_origin_form(&mut head, &upstream.target.authority);
    head.version = Version::HTTP_11;
    strip_but_upgrade(&mut head.headers);

    let handshake = http1::Builder::new().max_buf_size(BUFFER_BYTES).handshake(io).await;
    let (mut sender, driver) = handshake.map_err(|error| again(SendError::connect(error)))?;
    tokio::spawn(async move {
        // Its errors reach whoever waits for the response or reads the tunnel.
        let _ = driver.with_upgrades().await;
    });
    let sent = sender.try_send_request(Request::from_parts(head, body)).await;
    let mut response =
        sent.map_err(|error| again(SendError::after_write(error.into_error(), false, sender.is_closed())))?;

    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let server = hyper::upgrade::on(&mut response);
        connection.drain().spawn(join(client, server, connection.clone()));
        strip_but_upgrade(response.headers_mut());
        return Ok(response.map(|_| Body::empty()));
    }
    headers::strip_hop_by_hop(response.headers_mut());
    Ok(response.map(|incoming| Body::from(incoming).on_end(move |_| drop(sender))))
}

/// A handshake that got no answer.
#[derive(Debug)]
pub struct NotForwarded {
    /// What was met.
    pub error: SendError,
    /// The request as it came.
    pub request: Box<Request<Body>>,
}

fn strip_but_upgrade(headers: &mut HeaderMap) {
    let protocol = headers.remove(UPGRADE);
    headers::strip_hop_by_hop(headers);
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

async fn join(client: OnUpgrade, server: OnUpgrade, connection: ConnectionInfo) {
    let (mut client, mut server) = match tokio::try_join!(client, server) {
        Ok((client, server)) => (TokioIo::new(client), TokioIo::new(server)),
        Err(error) => {
            tracing::debug!(peer = %connection.peer(), %error, "websocket upgrade failed");
            return;
        }
    };
    let ended = tokio::select! {
        ended = tokio::io::copy_bidirectional(&mut client, &mut server) => ended.map(drop),
        () = connection.drain().draining() => tokio::try_join!(client.shutdown(), server.shutdown()).map(drop),
    };
    if let Err(error) = ended {
        tracing::debug!(peer = %connection.peer(), %error, "websocket tunnel failed");
    }
}
