//! `[server]`.

use super::{BaseUrl, Credentials};
use serde::{Deserialize, Deserializer};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The local server, and who the sidecar is to servers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its base address.
    pub url: BaseUrl,
    /// Its name in `/clusterStatus`; `None` to ask it.
    #[serde(deserialize_with = "non_empty")]
    pub name: Option<String>,
    /// File with the id of its process; `None` to find it by its listening socket.
    #[serde(deserialize_with = "non_empty")]
    pub pid_file: Option<PathBuf>,
    /// Longest wait for a connection to any server or peer.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// User of the sidecar's own requests.
    #[serde(deserialize_with = "non_empty")]
    pub username: Option<String>,
    /// File with the password of `username`.
    #[serde(deserialize_with = "non_empty")]
    pub password_file: Option<PathBuf>,
    /// File with a bearer token for the sidecar's own requests.
    #[serde(deserialize_with = "non_empty")]
    pub bearer_file: Option<PathBuf>,
}

impl Server {
    /// Reads the credentials of the sidecar's own requests from their files; `None` if none are configured.
    ///
    /// # Errors
    /// When a file cannot be read or holds what no header can carry.
    pub fn credentials(&self) -> io::Result<Option<Credentials>> {
        match (&self.bearer_file, &self.username, &self.password_file) {
            (Some(token), ..) => Credentials::bearer(token).map(Some),
            (None, Some(user), Some(password)) => Credentials::basic(user, password).map(Some),
            _ => Ok(None),
        }
    }
}

/// Reads a string of which the empty one means "not set".
pub(super) fn non_empty<'de, D: Deserializer<'de>, T: From<String>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok((!text.is_empty()).then(|| T::from(text)))
}
