//! How the control loops ask servers and peers: over a trait, so that tests script the answers.

use crate::config::Config;
use bytes::{Bytes, BytesMut};
use reqwest::header::AUTHORIZATION;
use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::time::Duration;

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The connection was refused, or reset while it was made: no process listens.
    #[error("connection refused")]
    Refused,
    /// No whole answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The body exceeds the limit.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// Anything else, e.g. a connection that broke later, or an answer that is not HTTP.
    #[error("{0}")]
    Failed(String),
}

/// Asks over HTTP.
pub trait Fetch: Send + Sync + 'static {
    /// `GET url`.
    fn get(&self, url: &str, timeout: Duration) -> impl Future<Output = Result<Fetched, FetchError>> + Send;

    /// `POST url` with a JSON body.
    fn post(
        &self,
        url: &str,
        body: String,
        timeout: Duration,
    ) -> impl Future<Output = Result<Fetched, FetchError>> + Send;
}

/// Asks over reqwest, with the sidecar's own credentials.
#[derive(Debug)]
pub struct HttpFetch {
    client: reqwest::Client,
    config: crate::config::Server,
    max_body: usize,
}

impl HttpFetch {
    /// No proxies from the environment, no redirects.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn new(config: &Config) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(config.server.connect_timeout)
            .tcp_nodelay(true)
            .build()?;
        Ok(HttpFetch { client, config: config.server.clone(), max_body: config.lag.max_body.bytes() })
    }

    async fn send(&self, request: reqwest::RequestBuilder, timeout: Duration) -> Result<Fetched, FetchError> {
        let credentials = self.config.credentials().map_err(|error| FetchError::Failed(error.to_string()))?;
        let request = match credentials {
            Some(credentials) => request.header(AUTHORIZATION, credentials.authorization()),
            None => request,
        };
        let mut response = request.timeout(timeout).send().await.map_err(|error| sort(&error))?;
        let status = response.status().as_u16();
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| sort(&error))? {
            if body.len() + chunk.len() > self.max_body {
                return Err(FetchError::TooLarge(self.max_body));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Fetched { status, body: body.freeze() })
    }
}

impl Fetch for HttpFetch {
    async fn get(&self, url: &str, timeout: Duration) -> Result<Fetched, FetchError> {
        self.send(self.client.get(url), timeout).await
    }

    async fn post(&self, url: &str, body: String, timeout: Duration) -> Result<Fetched, FetchError> {
        self.send(self.client.post(url).header(reqwest::header::CONTENT_TYPE, "application/json").body(body), timeout)
            .await
    }
}

fn sort(error: &reqwest::Error) -> FetchError {
    if error.is_timeout() {
        return FetchError::TimedOut;
    }
    let (mut cause, mut last): (Option<&(dyn StdError + 'static)>, String) = (Some(error), String::new());
    while let Some(current) = cause.filter(|_| error.is_connect()) {
        let kind = current.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)) {
            return FetchError::Refused;
        }
        last = format!("no connection: {current}");
        cause = current.source();
    }
    // the outermost one of a connection that was never made tells only the address
    FetchError::Failed(if last.is_empty() { error.to_string() } else { last })
}

#[cfg(test)]
pub(super) mod script {
    use super::*;
    use std::sync::Mutex;

    type Answers = dyn Fn(&str, &str) -> Result<Fetched, FetchError> + Send + Sync;

    /// Answers from a script: of URL and body; an answer that times out takes that long.
    pub(in crate::control) struct Script {
        answers: Box<Answers>,
        asked: Mutex<Vec<String>>,
    }

    impl Script {
        pub fn new(answers: impl Fn(&str, &str) -> Result<Fetched, FetchError> + Send + Sync + 'static) -> Self {
            Script { answers: Box::new(answers), asked: Mutex::default() }
        }

        /// The URLs asked so far.
        pub fn asked(&self) -> Vec<String> {
            self.asked.lock().unwrap().clone()
        }

        async fn answer(&self, url: &str, body: &str, timeout: Duration) -> Result<Fetched, FetchError> {
            self.asked.lock().unwrap().push(url.to_owned());
            let answer = (self.answers)(url, body);
            if matches!(answer, Err(FetchError::TimedOut)) {
                tokio::time::sleep(timeout).await;
            }
            answer
        }
    }

    /// An answer of status 200.
    pub(in crate::control) fn ok(body: impl Into<Bytes>) -> Result<Fetched, FetchError> {
        Ok(Fetched { status: 200, body: body.into() })
    }

    impl Fetch for Script {
        async fn get(&self, url: &str, timeout: Duration) -> Result<Fetched, FetchError> {
            self.answer(url, "", timeout).await
        }

        async fn post(&self, url: &str, body: String, timeout: Duration) -> Result<Fetched, FetchError> {
            self.answer(url, &body, timeout).await
        }
    }
}
