//! `Upgrade: h2c`, also with a request body (RFC 7540, 3.2), which hyper does not do.
//!
//! The request that asks becomes stream 1 of the HTTP/2 connection. hyper's HTTP/2 server is made to believe so: after the
//! client's preface and SETTINGS it is given a HEADERS frame for stream 1 that the client never sent, and when its request
//! arrives at the handler, the real one takes its place. The frame is always the same three bytes of HPACK, so the shared
//! compression state and the flow-control windows stay as the client knows them.

use super::body::Body;
use super::connection::{PREFACE, Serving};
use super::handler::Handler;
use super::headers::{self, HTTP2_SETTINGS};
use super::read::{ReadBody, read_up_to};
use super::rewind::Rewind;
use bytes::{BufMut, Bytes, BytesMut};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderValue, UPGRADE};
use hyper::http::uri::{Authority, Scheme};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncReadExt;

const FRAME_HEAD_BYTES: usize = 9;
const SETTINGS_FRAME: u8 = 4;
const SETTING_BYTES: usize = 6;
/// Largest frame before any setting allows more (RFC 9113, 6.5.2).
const MAX_FRAME_BYTES: usize = 16 * 1024;

/// HEADERS, END_STREAM and END_HEADERS, stream 1; `:method: GET`, `:scheme: http`, `:path: /` from HPACK's static table.
const STREAM_1: [u8; 12] = [0, 0, 3, 1, 0x05, 0, 0, 0, 1, 0x82, 0x86, 0x84];

/// Whether a request asks to go on in HTTP/2, and may.
pub(super) fn is_asked_by(request: &Request<Body>) -> bool {
    let headers = request.headers();
    request.version() == Version::HTTP_11
        && headers::asks_upgrade(headers, "h2c")
        && headers::has_token(headers, CONNECTION, HTTP2_SETTINGS.as_str())
}

/// Answers 101 and goes on in HTTP/2, in a task of its own; gives the request back if it must be served as HTTP/1.1.
pub(super) async fn upgrade<H: Handler>(
    request: Request<Body>,
    serving: &Arc<Serving<H>>,
) -> Result<Response<Body>, Box<Request<Body>>> {
    let (Some(settings), Some(authority)) = (client_settings(request.headers()), authority(request.headers())) else {
        return Err(Box::new(request));
    };
    let (head, body) = request.into_parts();
    let (bytes, trailers) = match read_up_to(body, serving.settings.max_upgrade_body_bytes).await {
        Ok(ReadBody::Whole { bytes, trailers }) => (bytes, trailers),
        Ok(large) => return Err(Box::new(Request::from_parts(head, large.into_body()))),
        Err(error) => return Err(Box::new(Request::from_parts(head, Body::failed(error)))),
    };
    let mut request = Request::from_parts(head, Body::full(bytes).with_trailers(trailers));
    let upgraded = hyper::upgrade::on(&mut request);
    let (mut head, body) = request.into_parts();
    // The form in which HTTP/2 would have brought it.
    headers::prepare_request(&mut head, Version::HTTP_2, &Scheme::HTTP, &authority);
    let request = Request::from_parts(head, body);
    serving.info.drain().spawn(serve(upgraded, settings, request, Arc::clone(serving)));

    let mut switching = Response::new(Body::empty());
    *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    switching.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    switching.headers_mut().insert(UPGRADE, HeaderValue::from_static("h2c"));
    Ok(switching)
}

async fn serve<H: Handler>(upgraded: OnUpgrade, settings: Bytes, first: Request<Body>, serving: Arc<Serving<H>>) {
    let opening = async {
        let mut io = TokioIo::new(upgraded.await.map_err(io::Error::other)?);
        let bytes = opening_bytes(&mut io, &settings).await?;
        io::Result::Ok(Rewind::new(bytes, io.into_inner()))
    };
    match tokio::time::timeout(serving.settings.head_timeout, opening).await {
        Ok(Ok(io)) => {
            let first = Mutex::new(Some(first));
            serving
                .http2(io, move |request| {
                    first.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(request)
                })
                .await;
        }
        Ok(Err(error)) => tracing::debug!(peer = %serving.info.peer(), %error, "h2c upgrade failed"),
        Err(_) => tracing::debug!(peer = %serving.info.peer(), "h2c upgrade not completed in time"),
    }
}

/// What the HTTP/2 server is to read first: the client's preface, its SETTINGS, and stream 1.
///
/// The settings of the `HTTP2-Settings` header come first in the client's own frame: they are in force without being
/// acknowledged, which a frame of their own would be.
async fn opening_bytes(io: &mut TokioIo<Upgraded>, settings: &[u8]) -> io::Result<Bytes> {
    let mut preface = [0; PREFACE.len()];
    io.read_exact(&mut preface).await?;
    if preface != *PREFACE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no http/2 preface"));
    }
    let [high, mid, low, kind, flags, stream @ ..] = {
        let mut head = [0; FRAME_HEAD_BYTES];
        io.read_exact(&mut head).await?;
        head
    };
    let length = u32::from_be_bytes([0, high, mid, low]) as usize;
    let total = length + settings.len();
    if kind != SETTINGS_FRAME || flags != 0 || stream != [0; 4] || total > MAX_FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "first frame is no usable SETTINGS"));
    }
    let mut own = vec![0; length];
    io.read_exact(&mut own).await?;

    let mut opening = BytesMut::with_capacity(PREFACE.len() + FRAME_HEAD_BYTES + total + STREAM_1.len());
    opening.put_slice(PREFACE);
    opening.put_uint(total as u64, 3);
    opening.put_slice(&[SETTINGS_FRAME, 0, 0, 0, 0, 0]);
    opening.put_slice(settings);
    opening.put_slice(&own);
    opening.put_slice(&STREAM_1);
    Ok(opening.freeze())
}

/// The payload of the only `HTTP2-Settings` field; `None` if it is missing, repeated or malformed.
fn client_settings(headers: &HeaderMap) -> Option<Bytes> {
    let mut fields = headers.get_all(HTTP2_SETTINGS).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return None };
    decode_base64url(field.as_bytes()).filter(|payload| payload.len() % SETTING_BYTES == 0).map(Bytes::from)
}

fn authority(headers: &HeaderMap) -> Option<Authority> {
    Authority::try_from(headers.get(HOST)?.as_bytes()).ok()
}

/// Decodes base64url, padded or not (RFC 4648, 5).
fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for &digit in text.split(|&byte| byte == b'=').next()? {
        let value = match digit {
            byte @ b'A'..=b'Z' => byte - b'A',
            byte @ b'a'..=b'z' => byte - b'a' + 26,
            byte @ b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_decoded_with_and_without_padding() {
        assert_eq!(decode_base64url(b"AAMAAABkAAQCAAAAAAIAAAAA").unwrap().len(), 18);
        assert_eq!(decode_base64url(b"-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode_base64url(b"-_8=").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode_base64url(b"").unwrap(), b"");
        assert_eq!(decode_base64url(b"a+b/"), None);
    }

    #[test]
    fn settings_must_come_once_and_in_whole_entries() {
        let settings = |fields: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(HTTP2_SETTINGS, HeaderValue::from_static(field));
            }
            client_settings(&headers).map(|payload| payload.len())
        };
        assert_eq!(settings(&["AAMAAABk"]), Some(6));
        assert_eq!(settings(&[""]), Some(0));
        for bad in [&[][..], &["AAMA"], &["AAMAAABk", "AAMAAABk"], &["*"]] {
            assert_eq!(settings(bad), None, "{bad:?}");
        }
    }
}
