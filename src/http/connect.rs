//! Dialling a server: address, TCP and TLS, within one time limit.

use super::client::HttpVersion;
use super::send_error::SendError;
use crate::telemetry::Counted;
use hyper::Uri;
use hyper::http::uri::{Authority, Scheme};
use hyper::service::Service;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use prometheus::IntGauge;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// A connection to a server, plain or TLS.
pub(super) type UpstreamIo = MaybeHttpsStream<TokioIo<TcpStream>>;

/// How upstream connections are made and kept.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Longest time for name resolution, TCP and TLS together. Default 1 s.
    pub connect_timeout: Duration,
    /// TCP keep-alive probes after this silence. Default 15 s, as a vanished host sends no FIN.
    pub tcp_keepalive: Duration,
    /// Idle HTTP/1.1 connections kept for each server and [`Pool`](super::Pool); more are closed. Default 64.
    pub max_idle: usize,
    /// Unused connections close after this, at most twice this for HTTP/2. Default 60 s.
    pub idle_timeout: Duration,
    /// Streams put on one HTTP/2 connection before another is opened. Default 100, the limit of ksqlDB's HTTP library
    /// (and the least that RFC 9113, 6.5.2, recommends): a stream above the server's limit waits, for ever behind push streams.
    pub max_streams: usize,
    /// Pings over HTTP/2 connections at this interval; unanswered for as long, the connection is closed. Default none.
    pub http2_ping: Option<Duration>,
    /// TLS to `https` servers, its ALPN protocols not used; without it, no certificate is trusted.
    pub tls: Option<Arc<ClientConfig>>,
    /// Where open connections are counted, of HTTP/1.1 and of HTTP/2. Default nowhere.
    pub connections: Option<[IntGauge; 2]>,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            connect_timeout: Duration::from_secs(1),
            tcp_keepalive: Duration::from_secs(15),
            max_idle: 64,
            idle_timeout: Duration::from_secs(60),
            max_streams: 100,
            http2_ping: None,
            tls: None,
            connections: None,
        }
    }
}

/// A server's address: `http://host:port` or `https://host:port`, without path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
}

/// A text that is no [`Target`].
#[derive(Debug, thiserror::Error)]
#[error("not an address of the form http://host:port or https://host:port")]
pub struct NotATarget;

impl std::str::FromStr for Target {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Target, NotATarget> {
        let parts = text.parse::<Uri>().map_err(|_| NotATarget)?.into_parts();
        let path = parts.path_and_query.as_ref().map_or("/", |path| path.as_str());
        match (parts.scheme, parts.authority) {
            (Some(scheme), Some(authority))
                if (scheme == Scheme::HTTP || scheme == Scheme::HTTPS)
                    && path == "/"
                    && !authority.as_str().contains('@') =>
            {
                Ok(Target { scheme, authority })
            }
            _ => Err(NotATarget),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

/// Dials; the two versions differ in what TLS offers by ALPN.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    http1: TowerToHyperService<HttpsConnector<HttpConnector>>,
    http2: TowerToHyperService<HttpsConnector<HttpConnector>>,
    timeout: Duration,
    connections: Option<[IntGauge; 2]>,
}

impl Connector {
    pub(super) fn new(settings: &ClientSettings) -> Result<Connector, rustls::Error> {
        let mut tls = settings.tls.as_deref().cloned().map_or_else(trust_nobody, Ok)?;
        // The connector sets its own, and refuses a configuration that has any.
        tls.alpn_protocols.clear();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(settings.tcp_keepalive));
        let https = || HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        Ok(Connector {
            http1: TowerToHyperService::new(https().enable_http1().wrap_connector(tcp.clone())),
            http2: TowerToHyperService::new(https().enable_http2().wrap_connector(tcp)),
            timeout: settings.connect_timeout,
            connections: settings.connections.clone(),
        })
    }

    pub(super) async fn connect(&self, target: &Uri, version: HttpVersion) -> Result<UpstreamIo, SendError> {
        let dial = match version {
            HttpVersion::Http1 => self.http1.call(target.clone()),
            HttpVersion::Http2 => self.http2.call(target.clone()),
        };
        match tokio::time::timeout(self.timeout, dial).await {
            Ok(connected) => connected.map_err(SendError::connect),
            Err(_) => Err(SendError::connect_timeout()),
        }
    }
}

impl Connector {
    /// Counts a connection until what is returned is dropped.
    pub(super) fn count(&self, version: HttpVersion) -> Option<Counted> {
        let [http1, http2] = self.connections.clone()?;
        Some(Counted::in_gauge(if version == HttpVersion::Http1 { http1 } else { http2 }))
    }
}

fn trust_nobody() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}
