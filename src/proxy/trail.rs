//! What happened to one request: for retry decisions, error messages and the access record.

use super::attempt::{Answer, Failure};
use super::race::{Doubt, Settled, Step};
use super::story::Story;
use crate::route::Retry;
use crate::telemetry::Metrics;
use crate::view::HostName;
use std::fmt::Write;
use std::sync::Arc;

/// What may make the next round of attempts a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A store that is closed for a moment opens.
    Store,
    /// An empty answer was not believed: a report shows that its replica holds everything.
    Report,
    /// A server comes back.
    Server,
}

/// The attempts of one request so far.
#[derive(Debug)]
pub(super) struct Trail {
    attempts: u32,
    /// Servers and what each attempt there met, in order.
    met: Vec<(HostName, &'static str)>,
    /// Servers that called the table not queryable.
    not_queryable: Vec<HostName>,
    /// Servers that could confirm it.
    servers: usize,
    last: Option<(Retry, Answer, HostName)>,
    doubt: Option<Doubt>,
    /// Whether this round met nothing but servers with as much to do as they can, and whether any.
    only_limits: Option<bool>,
    /// Whether some attempt of this round met what passes by itself.
    passes: bool,
    /// What was decided.
    pub story: Story,
    metrics: Arc<Metrics>,
}

impl Trail {
    /// Nothing has happened yet; `servers` are known in all.
    pub fn new(servers: usize, story: Story, metrics: Arc<Metrics>) -> Self {
        let (met, not_queryable) = (Vec::new(), Vec::new());
        Trail {
            attempts: 0,
            met,
            not_queryable,
            servers,
            last: None,
            doubt: None,
            only_limits: None,
            passes: false,
            story,
            metrics,
        }
    }

    /// Attempts begun.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub fn begin(&mut self) {
        self.attempts += 1;
    }

    pub fn overdue(&mut self, host: &HostName) {
        self.met.push((Arc::clone(host), "overdue"));
    }

    /// Notes how an attempt ended; returns the answer if it is the client's.
    ///
    /// "Not queryable" is what a closing server says of every table: it becomes final when a second server says it too,
    /// or when there is no other server.
    pub fn settle(&mut self, step: &Step, settled: Settled) -> Option<Answer> {
        let (result, reason) = match &settled {
            Settled::Good(_) => ("answered", "none"),
            Settled::Final(_) => ("final", "none"),
            Settled::Retry(retry, _) => ("retry", retry.as_str()),
            Settled::Failed(failure) => ("failed", failure.label),
            Settled::Unproven(doubt) => ("retry", doubt.as_str()),
        };
        self.metrics.attempts.with([result, reason]).inc();
        let at_limit = matches!(&settled, Settled::Failed(failure) if *failure == Failure::AT_LIMIT);
        self.only_limits = Some(self.only_limits.unwrap_or(true) && at_limit);
        if at_limit {
            self.attempts = self.attempts.saturating_sub(1); // none was made
            return None;
        }
        match settled {
            Settled::Good(answer) | Settled::Final(answer) => return Some(answer),
            Settled::Retry(retry, answer) => {
                self.passes |= retry.passes();
                if retry == Retry::NotQueryable && !self.not_queryable.contains(&step.host.name) {
                    self.not_queryable.push(Arc::clone(&step.host.name));
                    if self.not_queryable.len() >= self.servers.min(2) {
                        return Some(answer);
                    }
                }
                self.last = Some((retry, answer, Arc::clone(&step.host.name)));
            }
            Settled::Unproven(doubt) => self.doubt = Some(doubt),
            Settled::Failed(_) => {}
        }
        self.met.push((Arc::clone(&step.host.name), reason));
        None
    }

    /// Whether what was met passes by itself, so that another round may do better.
    pub fn may_pass(&self) -> bool {
        self.doubt.is_some() || self.last.as_ref().is_none_or(|(retry, _, _)| retry.passes())
    }

    /// Whether an empty answer was not believed because its replica is not known to hold everything: reports will tell, at
    /// their own pace.
    pub fn is_behind(&self) -> bool {
        self.doubt == Some(Doubt::Behind)
    }

    /// Whether a server gave an empty answer that was not proven.
    pub fn met_unproven(&self) -> bool {
        self.doubt.is_some()
    }

    /// Ends a round of attempts; tells whether nothing but full servers kept it from an answer.
    pub fn met_only_limits(&mut self) -> bool {
        self.only_limits.take() == Some(true)
    }

    /// Ends a round of attempts; tells what the next one waits for.
    pub fn end_round(&mut self) -> Next {
        match (std::mem::take(&mut self.passes), self.doubt) {
            (true, _) => Next::Store,
            (false, Some(Doubt::Behind)) => Next::Report,
            (false, _) => Next::Server,
        }
    }

    /// The last error that a server gave, and which server; for the client if nothing better comes.
    pub fn take_last(&mut self) -> Option<(Answer, HostName)> {
        self.last.take().map(|(_, answer, host)| (answer, host))
    }

    /// What was decided, and the servers with what each attempt there met.
    pub fn told(self) -> (Story, Vec<(HostName, &'static str)>) {
        (self.story, self.met)
    }

    /// Each server and what was met there, each once, for people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let mut told: Vec<&(HostName, &'static str)> = Vec::new();
        for one in &self.met {
            if told.contains(&one) {
                continue;
            }
            told.push(one);
            let times = self.met.iter().filter(|other| *other == one).count();
            let separator = if text.is_empty() { "" } else { ", " };
            let often = if times > 1 { format!(" ({times} times)") } else { String::new() };
            let _ = write!(text, "{separator}{}: {}{often}", one.0, one.1); // writing to a String cannot fail
        }
        if text.is_empty() { "no server".to_owned() } else { text }
    }
}
