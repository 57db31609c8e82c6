//! The one error type of the request path: every way in which the sidecar itself refuses a request.

use std::time::Duration;

/// Why the sidecar answers in the server's place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// No replica keeps the request's bound; the message names each and why.
    #[error("{message}")]
    BoundUnmet {
        /// Names table, partition, and each host with the reason why it was not chosen.
        message: String,
        /// When it may be worth asking again.
        retry_after: Duration,
    },
    /// Attempts failed or hung until the deadline, and no server gave an answer that could be passed on.
    #[error("{message}")]
    Exhausted {
        /// Names table, partition, and each host with what happened there.
        message: String,
    },
    /// A server said that the key does not exist, but that could not be proven before the deadline.
    #[error("{message}")]
    Unproven {
        /// Names table and partition.
        message: String,
    },
    /// Every server that could answer is given as much as it can do, or the local server's own limit is reached.
    #[error("{message}")]
    Overloaded {
        /// Says which limit.
        message: String,
    },
    /// No server could be connected to.
    #[error("no ksqlDB server can be reached; tried {tried}")]
    Unreachable {
        /// The servers, with what each connection met.
        tried: String,
    },
    /// The request was written to a server whose connection then broke; it may have been carried out.
    #[error("the connection to {host} broke before it answered; the request may have been carried out")]
    Broken {
        /// The server.
        host: String,
    },
    /// `/heartbeat` and `/lag` are for servers only.
    #[error("Can't call internal endpoint on public listener")]
    InternalEndpoint,
    /// What the request says about freshness is none that can be kept, whatever the cluster does.
    #[error("{0}")]
    BadDemand(String),
    /// The request's token is none that this cluster gave for its changelogs of now.
    #[error("{message}")]
    BadToken {
        /// Names the place of the token, and the remedy.
        message: String,
        /// Whether it is a cookie, which the client would keep sending.
        cookie: bool,
    },
    /// The client's body ended early or broke its framing.
    #[error("the request body could not be read: {0}")]
    RequestBody(String),
}

impl ProxyError {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            ProxyError::BoundUnmet { .. }
            | ProxyError::Exhausted { .. }
            | ProxyError::Unproven { .. }
            | ProxyError::Unreachable { .. } => 503,
            ProxyError::Broken { .. } => 502,
            ProxyError::Overloaded { .. } => 429,
            ProxyError::InternalEndpoint
            | ProxyError::RequestBody(_)
            | ProxyError::BadDemand(_)
            | ProxyError::BadToken { .. } => 400,
        }
    }

    /// The code in ksqlDB's error body: the status times 100, as the server counts; for internal endpoints the server's own.
    pub fn code(&self) -> u32 {
        match self {
            ProxyError::InternalEndpoint => 50000,
            other => u32::from(other.status()) * 100,
        }
    }

    /// The label in metrics and access records.
    pub fn label(&self) -> &'static str {
        match self {
            ProxyError::BoundUnmet { .. } => "bound_unmet",
            ProxyError::Exhausted { .. } => "exhausted",
            ProxyError::Unproven { .. } => "unproven",
            ProxyError::Unreachable { .. } => "unreachable",
            ProxyError::Broken { .. } => "broken",
            ProxyError::Overloaded { .. } => "overloaded",
            ProxyError::InternalEndpoint => "internal_endpoint",
            ProxyError::RequestBody(_) => "request_body",
            ProxyError::BadDemand(_) => "bad_demand",
            ProxyError::BadToken { .. } => "bad_token",
        }
    }

    /// When the client may try again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ProxyError::BoundUnmet { retry_after, .. } => Some(*retry_after),
            ProxyError::Exhausted { .. }
            | ProxyError::Unproven { .. }
            | ProxyError::Unreachable { .. }
            | ProxyError::Overloaded { .. } => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// The body in ksqlDB's shape; plain text makes its clients hang.
    pub fn body(&self) -> String {
        serde_json::json!({"@type": "generic_error", "error_code": self.code(), "message": self.to_string()})
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_may_meet_is_explained_to_them() {
        let message = String::new;
        let errors = [
            ProxyError::BoundUnmet { message: message(), retry_after: Duration::ZERO },
            ProxyError::Exhausted { message: message() },
            ProxyError::Unproven { message: message() },
            ProxyError::Overloaded { message: message() },
            ProxyError::Unreachable { tried: message() },
            ProxyError::Broken { host: message() },
            ProxyError::InternalEndpoint,
            ProxyError::BadDemand(message()),
            ProxyError::BadToken { message: message(), cookie: false },
            ProxyError::RequestBody(message()),
        ];
        let (guide, alerts) =
            (include_str!("../config/README.md"), include_str!("../charts/ksqldb-sidecar/alerts.yaml"));
        for error in errors {
            let row = guide.lines().find(|line| line.contains(&format!("`{}`", error.label())));
            let row = row.unwrap_or_else(|| panic!("{} is not in config/README.md", error.label()));
            assert!(row.contains(&error.status().to_string()), "{row}");
        }
        for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
            assert!(guide.contains(&format!("| `{alert}` |")), "{alert} is not in config/README.md");
        }
    }
}
