//! Proof that a part is all: that its host read every partition of it to the end.
//!
//! A server from 7.5 on that cannot read a store ends the answer there, cleanly. A store that has failed stays closed for
//! longer than a question takes, so that what is read of it directly after the end shows that it had not failed by then:
//!
//! * a partition of which rows came was open when it was read; a row of it that is there *after the end* shows that it did
//!   not fail on the way;
//! * of a partition without rows it must be shown that it was open at all: some row of it is read, then the query again for
//!   that partition alone, which must give nothing, then some row again;
//! * a partition in which nothing can be found is asked of the old row writer, which does not lose errors.
//!
//! Each question is asked of the same host with the same pin; its own failure proves nothing, and the next replica is asked.

use super::Scatter;
use super::part::Part;
use super::rows::Unattributed;
use crate::partition::Partition;
use crate::proxy::Proxy;
use crate::proxy::attempt::{Answer, Exchange, Failure};
use crate::proxy::prover::Proof;
use crate::proxy::race::Step;
use crate::route::{Key, Rows, any_key, together};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use std::collections::BTreeMap;

/// Asks for the old row writer.
const OLD_WRITER: &str = "{\"ksql.endpoint.migrate.query\":false}";

impl Proxy {
    /// Whether the part holds every row of its partitions; [`Proof::Absent`] says that nothing is missing.
    ///
    /// # Errors
    /// When rows of several partitions do not tell which they come from.
    pub(super) async fn is_all(&self, scatter: &Scatter<'_>, step: &Step, part: &Part) -> Result<Proof, Unattributed> {
        let full = |limit: u64| part.rows.len() as u64 >= limit;
        if scatter.wanted.limit.is_some_and(full) {
            return Ok(Proof::Absent); // the server stopped at the limit
        }
        if !self.settings.prove_absence {
            self.metrics.unproven_answers.inc();
            return Ok(Proof::Absent);
        }
        let version = part.view.host(step.index).and_then(|host| host.version);
        if version.is_some_and(|version| !version.may_lose_errors()) {
            return Ok(Proof::Absent);
        }
        let partitions = part.group.partitions();
        let (read, rest): (Proof, Vec<Partition>) = match (&scatter.wanted.key_at, partitions.as_slice()) {
            (_, [partition]) if part.rows.len() > 0 => (self.holds_any(scatter, step, *partition).await, Vec::new()),
            (_, [partition]) => (Proof::Absent, vec![*partition]),
            (None, _) => return Err(Unattributed),
            (Some(key_at), _) => {
                let seen = part.rows.witnesses(&scatter.wanted.table, key_at, &partitions)?;
                let rest = partitions.into_iter().filter(|partition| !seen.contains_key(partition)).collect();
                (self.hold_still(scatter, step, &seen).await, rest)
            }
        };
        self.count("after_end", read);
        if read != Proof::Absent || rest.is_empty() {
            return Ok(read);
        }
        let proofs = join_all(rest.iter().map(|partition| self.is_without(scatter, step, part, *partition))).await;
        let (bare, read): (Vec<_>, Vec<_>) =
            rest.into_iter().zip(proofs).partition(|(_, proof)| *proof == Proof::Inconclusive);
        read.iter().for_each(|(_, proof)| self.count("again", *proof));
        let bare: Vec<Partition> = bare.into_iter().map(|(partition, _)| partition).collect();
        match read.into_iter().map(|(_, proof)| proof).find(|proof| *proof != Proof::Absent) {
            Some(proof) => Ok(proof),
            None if bare.is_empty() => Ok(Proof::Absent),
            None => Ok(self.are_empty(scatter, step, &bare).await),
        }
    }

    fn count(&self, method: &'static str, proof: Proof) {
        self.metrics.absence_proofs.with([method, proof.as_str()]).inc();
    }

    /// Whether these rows, one of each partition, are all there now.
    async fn hold_still(&self, scatter: &Scatter<'_>, step: &Step, seen: &BTreeMap<Partition, Key>) -> Proof {
        if seen.is_empty() {
            return Proof::Absent;
        }
        let (table, partitions) = (&scatter.wanted.table, seen.keys().copied().collect::<Vec<_>>());
        let found = self.ask_part(scatter, step, &partitions, &together(table, seen.values()), "{}").await;
        let rows = match found {
            Exchange::Rows(answer) => body_of(answer).await.and_then(|body| Rows::read(table, &body)),
            _ => None,
        };
        match rows {
            Some(rows) if seen.values().all(|key| rows.holds(key)) => Proof::Absent,
            _ => Proof::Unreadable,
        }
    }

    /// Whether some row of the partition can be read now; inconclusive where there is none.
    async fn some_row(&self, scatter: &Scatter<'_>, step: &Step, partition: Partition) -> Proof {
        match self.ask_part(scatter, step, &[partition], &any_key(&scatter.wanted.table), "{}").await {
            Exchange::Rows(_) => Proof::Absent,
            Exchange::Empty(_) => Proof::Inconclusive,
            _ => Proof::Unreadable,
        }
    }

    /// As [`some_row`](Self::some_row), of a partition that has just given rows.
    async fn holds_any(&self, scatter: &Scatter<'_>, step: &Step, partition: Partition) -> Proof {
        match self.some_row(scatter, step, partition).await {
            Proof::Absent => Proof::Absent,
            _ => Proof::Unreadable,
        }
    }

    /// Whether the query really has no row in the partition; inconclusive where the partition has none at all.
    async fn is_without(&self, scatter: &Scatter<'_>, step: &Step, part: &Part, partition: Partition) -> Proof {
        match self.some_row(scatter, step, partition).await {
            Proof::Absent => {}
            doubt => return doubt,
        }
        match self.exchange_part(scatter, step, &[partition], &part.view).await {
            Exchange::Empty(_) => self.holds_any(scatter, step, partition).await,
            Exchange::Rows(_) => Proof::Present,
            _ => Proof::Unreadable,
        }
    }

    /// Whether there is no row in any of these partitions.
    async fn are_empty(&self, scatter: &Scatter<'_>, step: &Step, bare: &[Partition]) -> Proof {
        let question = any_key(&scatter.wanted.table);
        let proof = match self.ask_part(scatter, step, bare, &question, OLD_WRITER).await {
            Exchange::Empty(_) => Proof::Absent,
            Exchange::Rows(_) => Proof::Present,
            _ => Proof::Unreadable,
        };
        self.count("old_writer", proof);
        proof
    }

    async fn ask_part(
        &self,
        scatter: &Scatter<'_>,
        step: &Step,
        partitions: &[Partition],
        statement: &str,
        properties: &str,
    ) -> Exchange {
        let head = &scatter.request.head;
        let asked = self.prover.question(&step.host, head, partitions, statement, properties);
        let late = Failure { label: "overdue", unsent: false, stale_connection: false };
        tokio::time::timeout(self.settings.proof_timeout, asked).await.unwrap_or(Exchange::Failed(late))
    }
}

async fn body_of(answer: Answer) -> Option<bytes::Bytes> {
    Some(answer.into_response().into_body().collect().await.ok()?.to_bytes())
}
