//! Pull queries that need many partitions: scans, ranges, `IN` and `OR`, each partition planned as a lookup's is.
//!
//! The partitions that one host is best for are asked for in one pinned request, all hosts at once (`cover`). A part is taken
//! only when it has ended cleanly, its partitions have not moved meanwhile, and its host is known to have read every one of
//! them (`part`, `proof`); a part that fails is asked again elsewhere, whole. When all parts are there they are put together
//! as one answer (`rows`), so that until then anything can still be repeated, refused, or left to a server's own routing.
//! What an answer must keep of freshness it keeps for every partition (`bounds`).

mod bounds;
mod cover;
mod part;
mod proof;
mod rows;

pub(super) use self::part::kib;

use self::part::Part;
use self::rows::together;
use super::Proxy;
use super::attempt::Answer;
use super::bounds::Bounds;
use super::demand::Said;
use super::handle::refuse;
use super::reply::Served;
use super::request::QueryRequest;
use super::stores::Store;
use super::story::SCATTER;
use super::trail::Trail;
use crate::error::ProxyError;
use crate::http::Body;
use crate::partition::Partition;
use crate::route::{PassReason, Plan, Scattered, scattered};
use crate::sql::Statement;
use crate::view::{Ask, ClusterView, HostName, Moment, Role};
use http::Response;
use http::header::{ACCEPT, CONTENT_LENGTH};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// First and longest pause between two rounds, while nothing changes that would change the plans.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// How often an answer is begun anew because its parts did not have the same columns: a table that is being replaced.
const BEGUN_ANEW: usize = 3;

/// Everything that stays the same for all parts of one answer.
struct Scatter<'a> {
    request: &'a QueryRequest,
    wanted: Scattered,
    bounds: Bounds,
    store: Arc<Store>,
    trail: Mutex<&'a mut Trail>,
    begun: Moment,
    /// When no further attempt is begun.
    until: Moment,
    /// Whether each partition is asked for by itself, as rows do not tell where they come from.
    apart: AtomicBool,
    /// Whether replicas that do not keep the bounds answer too.
    degraded: AtomicBool,
    /// Whether a partition has only replicas that are not known to hold all that was logged.
    behind: AtomicBool,
    /// Parts whose rows are good whether or not the part is complete: enough of them make an answer with a limit.
    whole: Mutex<Vec<Part>>,
    enough: Notify,
}

/// Why an answer is not put together from parts.
#[derive(Debug)]
enum Stop {
    /// An error that every server would give, and who gave it.
    Final(Box<Answer>, HostName),
    /// Its server's own routing is to answer.
    Native(PassReason),
    /// The sidecar's own error.
    Refused(ProxyError),
}

impl From<ProxyError> for Stop {
    fn from(error: ProxyError) -> Self {
        Stop::Refused(error)
    }
}

impl Proxy {
    /// Answers a pull query that is no lookup, by its parts if it can be, else by a server's own routing.
    ///
    /// `reason` is why it is no lookup.
    pub(super) async fn many(
        &self,
        request: &QueryRequest,
        statement: &Statement<'_>,
        said: Said,
        reason: PassReason,
        trail: &mut Trail,
    ) -> Result<(Response<Body>, Served), ProxyError> {
        let view = self.published.load();
        let reason = match self.wanted(request, statement, reason, &view) {
            Err(reason) => reason,
            Ok(wanted) => match self.in_parts(request, wanted, said.clone(), &view, trail).await {
                Ok(answered) => return Ok(answered),
                Err(Stop::Final(answer, host)) => return Ok((answer.into_response(), Served::by(host))),
                Err(Stop::Refused(error)) => return Err(error),
                Err(Stop::Native(reason)) => reason,
            },
        };
        said.none_for_pull(&request.envelope, reason.describe()).map_err(refuse)?;
        self.metrics.passed_through.with([reason.as_str()]).inc();
        trail.story.passed(reason);
        if matches!(reason, PassReason::UnknownTable) {
            self.ask(Ask::RefreshCatalogue);
        }
        let (answer, served) = Box::pin(self.pull(request, said.deadline, trail)).await?;
        Ok((answer.into_response(), served))
    }

    /// What to ask for, or why the servers route it.
    fn wanted(
        &self,
        request: &QueryRequest,
        statement: &Statement<'_>,
        reason: PassReason,
        view: &ClusterView,
    ) -> Result<Scattered, PassReason> {
        if !self.settings.scatter {
            return Err(reason);
        }
        let wanted = scattered(statement, view)?;
        let mut accepted = request.head.headers.get_all(ACCEPT).iter().map(|value| value.as_bytes());
        if accepted.any(|value| memchr::memmem::find(value, b"protobuf").is_some()) {
            return Err(PassReason::FormatNotMerged);
        }
        let known = || view.hosts.iter().filter_map(|host| host.version);
        if known().next().is_none() || !known().all(|version| version.checks_pins()) {
            return Err(PassReason::VersionUnsuited);
        }
        Ok(wanted)
    }

    async fn in_parts(
        &self,
        request: &QueryRequest,
        wanted: Scattered,
        said: Said,
        view: &ClusterView,
        trail: &mut Trail,
    ) -> Result<(Response<Body>, Served), Stop> {
        let begun = self.clock.now();
        let _entered = self.enter(view, begun)?;
        let table = Arc::clone(&wanted.table);
        let demand = said.or(&table, &self.settings.freshness);
        let deadline = demand.deadline;
        trail.story.why = SCATTER;
        let mut scatter = Scatter {
            request,
            bounds: self.bounds(demand, &table, view)?,
            store: self.stores.get(&table, view),
            trail: Mutex::new(trail),
            begun,
            until: begun + deadline.min(self.settings.deadline),
            apart: AtomicBool::new(wanted.key_at.is_none()),
            degraded: AtomicBool::new(false),
            behind: AtomicBool::new(false),
            whole: Mutex::default(),
            enough: Notify::new(),
            wanted,
        };
        self.metrics.routing_decisions.with(["scatter"]).inc();
        let mut waited = None;
        for _ in 0..BEGUN_ANEW {
            let parts = match self.gather(&scatter, &mut waited).await {
                Err(Stop::Native(reason)) if bounds::some(&scatter.bounds.demand) => {
                    return Err(Stop::Refused(bounds::too_much(reason, &scatter.wanted.table.name)));
                }
                gathered => gathered?,
            };
            match together(parts.iter().map(|part| &part.rows), scatter.wanted.limit) {
                Some(chunks) => {
                    let served = self.served(&mut scatter, &parts, waited);
                    return Ok((response(&parts, chunks), served));
                }
                None => {
                    scatter.whole().clear();
                    scatter.enough = Notify::new();
                    self.ask(Ask::RefreshCatalogue);
                }
            }
        }
        let message = format!("table {}: servers gave rows with different columns", scatter.wanted.table.name);
        Err(Stop::Refused(ProxyError::Exhausted { message }))
    }

    /// All parts, or as many as a limit needs.
    async fn gather(&self, scatter: &Scatter<'_>, waited: &mut Option<Duration>) -> Result<Vec<Part>, Stop> {
        let parts = tokio::select! {
            biased;
            parts = self.gather_all(scatter, waited) => parts?,
            () = scatter.enough.notified() => std::mem::take(&mut *scatter.whole()),
            () = tokio::time::sleep_until(self.clock.instant(scatter.until)) => return Err(self.late(scatter)),
        };
        Ok(parts)
    }

    async fn gather_all(&self, scatter: &Scatter<'_>, waited: &mut Option<Duration>) -> Result<Vec<Part>, Stop> {
        let mut changes = self.published.changes();
        let mut missing = scatter.wanted.partitions.clone();
        let (mut parts, mut pause) = (Vec::new(), PAUSE.0);
        let give_up = scatter.begun + self.settings.patience;
        loop {
            changes.mark_unchanged();
            self.admit(scatter, &missing, &mut changes, waited).await?;
            scatter.behind.store(false, Ordering::Relaxed);
            let covered = self.cover(scatter, missing, Vec::new()).await?;
            parts.extend(covered.parts);
            missing = covered.missing;
            if missing.is_empty() {
                parts.sort_by_key(|part| part.group.parts.first().map(|(partition, _)| *partition));
                return Ok(parts);
            }
            let now = self.clock.now();
            let give_up = if scatter.behind.load(Ordering::Relaxed) { scatter.until } else { give_up };
            if now >= give_up.min(scatter.until) || !scatter.trail().may_pass() {
                return Err(self.give_up_on(scatter, &missing));
            }
            self.ask(Ask::RefreshCatalogue);
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(pause) => {}
                () = tokio::time::sleep_until(self.clock.instant(give_up.min(scatter.until))) => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// The plan of each of these partitions on a snapshot.
    fn plans(
        &self,
        scatter: &Scatter<'_>,
        partitions: &[Partition],
        view: &ClusterView,
    ) -> Result<Vec<(Partition, Plan)>, ProxyError> {
        let now = self.clock.now();
        let plan = |partition: &Partition| {
            let located = scatter.located(*partition);
            let traffic = self.hosts.traffic(view, scatter.store.last_served(*partition).as_ref());
            let (slot, options) = self.options(&scatter.bounds, &located, view, now)?;
            let mut plan = crate::route::plan(&slot, &options, view, &traffic, now);
            if plan.candidates.is_empty() && scatter.degraded.load(Ordering::Relaxed) {
                plan.degrade();
            }
            Ok((*partition, plan))
        };
        partitions.iter().map(plan).collect()
    }

    /// What becomes of an answer that is not there by the deadline: what a server says in doubt is not given in its place.
    fn late(&self, scatter: &Scatter<'_>) -> Stop {
        let doubted = scatter.trail().met_unproven() || scatter.behind.load(Ordering::Relaxed);
        let asked = scatter.bounds.demand.deadline < self.settings.deadline; // by the client: nothing may come later
        match doubted || asked {
            true => self.give_up_on(scatter, &scatter.wanted.partitions),
            false => Stop::Native(PassReason::TooSlow),
        }
    }

    /// Why nobody could answer for these partitions.
    fn give_up_on(&self, scatter: &Scatter<'_>, missing: &[Partition]) -> Stop {
        let (took, mut trail) = (self.clock.now().since(scatter.begun), scatter.trail());
        if !trail.may_pass()
            && let Some((answer, host)) = trail.take_last()
        {
            return Stop::Final(Box::new(answer), host);
        }
        let (table, partitions) = (&scatter.wanted.table.name, bounds::list(missing));
        let behind = scatter.behind.load(Ordering::Relaxed);
        if behind || trail.met_unproven() {
            let why = if behind { "no replica is known to hold all that was logged; " } else { "" };
            let message = format!(
                "table {table}, {partitions}: no replica could prove within {took:.1?} that it gave every row; {why}met {}",
                trail.describe()
            );
            return Stop::Refused(ProxyError::Unproven { message });
        }
        let message =
            format!("table {table}, {partitions}: no replica answered within {took:.1?}; met {}", trail.describe());
        Stop::Refused(ProxyError::Exhausted { message })
    }
}

impl<'a> Scatter<'a> {
    fn trail(&self) -> MutexGuard<'_, &'a mut Trail> {
        self.trail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn whole(&self) -> MutexGuard<'_, Vec<Part>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn located(&self, partition: Partition) -> crate::route::Located {
        crate::route::Located { table: Arc::clone(&self.wanted.table), partition }
    }

    /// Takes in a part whose bytes are whole; says so once there are enough rows for the limit.
    fn note_whole(&self, part: &Part) {
        let Some(limit) = self.wanted.limit else { return };
        let mut whole = self.whole();
        let partitions = part.group.partitions();
        if whole.iter().any(|known| known.group.partitions().iter().any(|one| partitions.contains(one))) {
            return; // the rows of a partition come from one attempt
        }
        whole.push(part.clone());
        if whole.iter().map(|part| part.rows.len() as u64).sum::<u64>() >= limit {
            self.enough.notify_one();
        }
    }
}

/// One answer with the head of the first part's; what it holds of the memory for answers is given back with its end.
fn response(parts: &[Part], chunks: Vec<bytes::Bytes>) -> Response<Body> {
    let memory: Vec<_> = parts.iter().map(|part| Arc::clone(&part.memory)).collect();
    let chunks = chunks.into_iter().map(move |chunk| {
        let _held = &memory;
        Ok::<_, crate::http::BodyError>(chunk)
    });
    let mut response = Response::new(Body::stream(futures_util::stream::iter(chunks)));
    if let Some(first) = parts.first() {
        *response.status_mut() = first.head.status;
        response.headers_mut().clone_from(&first.head.headers);
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    response
}

/// Whether nothing tells which servers hold what; where servers report lags, that passes.
fn is_unplaced(plans: &[(Partition, Plan)], view: &ClusterView) -> bool {
    !view.lag_reporting
        && plans.iter().any(|(_, plan)| {
            !plan.candidates.is_empty() && plan.candidates.iter().all(|candidate| candidate.role == Role::Unplaced)
        })
}
