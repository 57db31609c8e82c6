//! The name of one request, the same in the client's log, the sidecar's and the server's.

use crate::http::Body;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Response};

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a client, bytes.
const LONGEST: usize = 128;

/// The value of `X-Request-Id`: the client's if it is sane, else a random one.
#[derive(Clone, Debug)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// Takes the client's id, or puts one in its place, so that servers get the same.
    pub fn settle(headers: &mut HeaderMap) -> Self {
        let mut given = headers.get_all(HEADER).into_iter();
        if let (Some(only), None) = (given.next(), given.next())
            && is_sane(only)
        {
            return RequestId(only.clone());
        }
        let made = random();
        headers.insert(HEADER, made.clone());
        RequestId(made)
    }

    /// Puts it on the answer.
    pub fn mark(&self, response: &mut Response<Body>) {
        response.headers_mut().insert(HEADER, self.0.clone());
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default() // it is visible ASCII
    }
}

/// Whether an id can stand in any log: 1 to 128 visible ASCII characters.
fn is_sane(id: &HeaderValue) -> bool {
    (1..=LONGEST).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

/// 128 random bits in hexadecimal.
fn random() -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut bits = rand::random::<u128>();
    let mut text = [0; 32];
    for digit in &mut text {
        *digit = DIGITS[(bits & 15) as usize]; // four bits are below 16
        bits >>= 4;
    }
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("none")) // digits are a value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(given: &[&[u8]]) -> (String, HeaderMap) {
        let mut headers = HeaderMap::new();
        for id in given {
            headers.append(HEADER, HeaderValue::from_bytes(id).unwrap());
        }
        let id = RequestId::settle(&mut headers);
        (id.as_str().to_owned(), headers)
    }

    #[test]
    fn a_sane_id_is_kept_and_anything_else_is_replaced() {
        let longest = [b'x'; LONGEST];
        for sane in [&b"abc-1"[..], b"!~{\"}", &longest] {
            let (id, headers) = settled(&[sane]);
            assert_eq!((id.as_bytes(), headers[HEADER].as_bytes()), (sane, sane));
        }
        let too_long = [b'x'; LONGEST + 1];
        for bad in [&[&b""[..]][..], &[b"a b"], &[b"\xc3\xa4"], &[b"a\tb"], &[&too_long], &[b"one", b"two"], &[]] {
            let (id, headers) = settled(bad);
            assert!(id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{bad:?}: {id}");
            assert_eq!(headers.get_all(HEADER).into_iter().collect::<Vec<_>>(), [&id], "{bad:?}");
        }
        assert_ne!(settled(&[]).0, settled(&[]).0);
    }
}
