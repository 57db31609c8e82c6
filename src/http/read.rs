//! Reading a body into memory, up to a limit and without loss.

use super::body::{Body, BodyError};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::HeaderMap;

/// What [`read_up_to`] found.
#[derive(Debug)]
pub enum ReadBody {
    /// The whole body, with its trailers if there were any.
    Whole {
        /// Every byte of it.
        bytes: Bytes,
        /// The fields after the last chunk; rare.
        trailers: Option<Box<HeaderMap>>,
    },
    /// More than the limit, or declared to be; nothing is lost: `prefix` then `rest` are the body.
    TooLarge {
        /// What was read: at most the limit and one chunk; empty if the declared size told.
        prefix: Bytes,
        /// What was not.
        rest: Body,
    },
}

impl ReadBody {
    /// The same body again, unread.
    pub fn into_body(self) -> Body {
        match self {
            ReadBody::Whole { bytes, trailers } => Body::full(bytes).with_trailers(trailers),
            ReadBody::TooLarge { prefix, rest } => rest.prepend(prefix),
        }
    }
}

/// Reads a body into memory if it has no more than `limit` bytes.
///
/// A body of one chunk is not copied. A body declared larger is not touched, so a client waiting for `100 Continue` gets it
/// only when the rest is read.
pub async fn read_up_to(mut body: Body, limit: usize) -> Result<ReadBody, BodyError> {
    let declared = body.size_hint();
    if declared.lower() > limit as u64 {
        return Ok(ReadBody::TooLarge { prefix: Bytes::new(), rest: body });
    }
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(chunk) if first.is_empty() => first = chunk,
            Ok(chunk) => {
                if joined.is_empty() {
                    joined.reserve((declared.lower() as usize).max(first.len() + chunk.len()));
                    joined.extend_from_slice(&first);
                }
                joined.extend_from_slice(&chunk);
            }
            Err(frame) => trailers = frame.into_trailers().ok().map(Box::new),
        }
        if first.len().max(joined.len()) > limit {
            let prefix = if joined.is_empty() { first } else { joined.freeze() };
            return Ok(ReadBody::TooLarge { prefix, rest: body });
        }
    }
    Ok(ReadBody::Whole { bytes: if joined.is_empty() { first } else { joined.freeze() }, trailers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(chunks: &[&'static str]) -> Body {
        let chunks: Vec<_> =
            chunks.iter().map(|chunk| Ok::<_, BodyError>(Bytes::from_static(chunk.as_bytes()))).collect();
        Body::stream(futures_util::stream::iter(chunks))
    }

    async fn bytes(body: Body) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_body_up_to_the_limit_is_read_whole_and_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"12345");
        let ReadBody::Whole { bytes, .. } = read_up_to(Body::full(chunk.clone()), 5).await.unwrap() else { panic!() };
        assert_eq!(bytes.as_ptr(), chunk.as_ptr());
        let ReadBody::Whole { bytes, .. } = read_up_to(chunks(&["12", "", "3", "45"]), 5).await.unwrap() else {
            panic!()
        };
        assert_eq!(bytes, "12345");
        let ReadBody::Whole { bytes, .. } = read_up_to(Body::empty(), 0).await.unwrap() else { panic!() };
        assert!(bytes.is_empty());
    }

    #[tokio::test]
    async fn a_body_above_the_limit_loses_nothing() {
        for parts in [&["123456", "78"][..], &["123", "45", "6", "78"], &["12345", "678"]] {
            let read = read_up_to(chunks(parts), 5).await.unwrap();
            let ReadBody::TooLarge { prefix, .. } = &read else { panic!() };
            assert!(prefix.len() > 5);
            assert_eq!(bytes(read.into_body()).await, "12345678");
        }
    }

    #[tokio::test]
    async fn a_body_declared_too_large_is_not_touched() {
        let read = read_up_to(Body::full("123456"), 5).await.unwrap();
        let ReadBody::TooLarge { prefix, rest } = read else { panic!() };
        assert!(prefix.is_empty());
        assert_eq!(bytes(rest).await, "123456");
    }

    #[tokio::test]
    async fn trailers_survive_reading_and_replaying() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().unwrap());
        let body = chunks(&["1"]).with_trailers(Some(Box::new(trailers.clone())));
        let read = read_up_to(body, 5).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(read.trailers(), Some(&trailers));
    }
}
