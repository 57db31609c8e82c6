//! Servers, sidecars, writers, readers and faults of one seed.

use super::checker::{Promise, Tally};
use super::watcher::Watcher;
use ksqldb_sidecar::config::Level;
use ksqldb_sidecar::emulator::{Ask, ClusterConfig, Exchange, Fault, Model, Phases, State, exchange};
use ksqldb_sidecar::partition::{KeySchema, Partitions};
use ksqldb_sidecar::proxy::{BadToken, Session};
use ksqldb_sidecar::route::{Candidate, Options, Traffic, locate, plan};
use ksqldb_sidecar::sql::classify;
use ksqldb_sidecar::view::{Catalogue, ClusterView, Interval, Moment, Role, TableInfo};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(5);
const SERVERS: usize = 3;
const KEYS: usize = 24;
const TABLE: &str = "TL";

/// By when a changelog that was created anew is known for it at every sidecar, however many faults there are.
const NOTICED: Duration = Duration::from_secs(15);

fn skew(model: &mut Model, skews: &[i64]) {
    for (server, ms) in skews.iter().enumerate() {
        model.inject(Fault::ClockSkew { server, ms: *ms });
    }
}

/// A client that carries its token from sidecar to sidecar.
#[derive(Default)]
struct Client {
    token: Option<String>,
    seen: HashMap<String, i64>,
    /// When the token was given.
    given: Duration,
    /// What it wrote and must read: key and value, and when.
    wrote: Option<(String, i64, Duration)>,
}

pub struct World {
    model: Model,
    rng: StdRng,
    watchers: Vec<Watcher>,
    clients: Vec<Client>,
    table: Arc<TableInfo>,
    query: usize,
    next_fault: Duration,
    healing: Vec<(Duration, Fault)>,
    /// Keys that were not there at the start.
    fresh: usize,
    report_every: Duration,
    /// How far each server's clock is off, in milliseconds.
    skews: Vec<i64>,
    /// When the changelog will be created anew, and when it was.
    remade: Option<Duration>,
    anew: Option<Duration>,
    tally: Tally,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let names: Vec<String> = (0..SERVERS).map(|server| format!("ksql-{server}:8088")).collect();
        let report_every = rng.random_range(200..1_500);
        let config = ClusterConfig {
            seed,
            keys: KEYS,
            partitions: 3,
            tables: vec![TABLE.into()],
            commit_interval: Duration::from_millis(rng.random_range(50..2_000)),
            session_timeout: Duration::from_millis(rng.random_range(1_500..6_000)),
            lag_report_interval: Duration::from_millis(report_every),
            sampling: Duration::from_millis(rng.random_range(20..report_every)),
            replication_delay: Duration::from_millis(rng.random_range(1..300)),
            phases: Phases::default().scaled(0.3),
            epoch_ms: 1_700_000_000_000,
            ..ClusterConfig::default()
        };
        let commit_interval = config.commit_interval;
        let mut model = Model::new(config, names.clone()).unwrap();
        // servers pass over reports that look older than those of the start, so all clocks go from there into the future
        let skews: Vec<i64> = (0..SERVERS).map(|_| rng.random_range(0..5_000_000)).collect();
        skew(&mut model, &skews);
        let query = model.catalogue.query_of(TABLE).unwrap();
        let table = Arc::new(TableInfo {
            name: TABLE.into(),
            key: KeySchema::parse("K STRING", "KAFKA").unwrap(),
            query_id: model.catalogue.queries[query].id.clone(),
            store: "Aggregate-Aggregate-Materialize".into(),
            source_topics: vec!["s".into()],
            partitions: Partitions::new(3).unwrap(),
            windowed: false,
            max_offset_lag: None,
        });
        let catalogue = Arc::new(Catalogue { tables: vec![Arc::clone(&table)], ..Catalogue::default() });
        let mut watchers: Vec<Watcher> =
            (0..SERVERS).map(|place| Watcher::new(place, &names, Arc::clone(&catalogue), &mut rng)).collect();
        watchers.iter_mut().for_each(|watcher| watcher.evidence.set_commit_interval(Some(commit_interval)));
        let next_fault = Duration::from_secs(rng.random_range(4..8));
        // late enough that the log will not have grown as long again before anybody looks
        let remade = Duration::from_secs(rng.random_range(25..42));
        World {
            model,
            rng,
            watchers,
            clients: (0..6).map(|_| Client::default()).collect(),
            table,
            query,
            next_fault,
            healing: Vec::new(),
            fresh: 0,
            report_every: Duration::from_millis(report_every),
            skews,
            remade: seed.is_multiple_of(2).then_some(remade),
            anew: None,
            tally: Tally::default(),
        }
    }

    pub fn into_tally(self) -> Tally {
        self.tally
    }

    pub fn run(&mut self, seconds: u64) {
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(seconds) {
            now += STEP;
            self.model.advance(now);
            self.fault();
            if self.rng.random_bool(0.4) {
                self.write();
            }
            let known: Vec<_> = self.watchers.iter().map(|watcher| watcher.own.clone()).collect();
            let offsets: Vec<_> = self.watchers.iter().map(Watcher::offset).collect();
            for watcher in &mut self.watchers {
                watcher.step(&mut self.model, &known, &offsets, &mut self.rng);
                watcher.follow(self.query, &self.table.query_id, &self.model);
            }
            if now > Duration::from_secs(3) && self.rng.random_bool(0.5) {
                self.read();
            }
        }
    }

    fn write(&mut self) {
        let key = match self.rng.random_bool(0.1) {
            true => format!("n{}", self.fresh),
            false => format!("k{}", self.rng.random_range(0..KEYS)),
        };
        self.fresh += usize::from(key.starts_with('n'));
        let value = self.model.put("S", &key.as_str().into(), None).unwrap().value.unwrap();
        let client = self.rng.random_range(0..self.clients.len() * 8);
        if let Some(client) = self.clients.get_mut(client).filter(|client| client.wrote.is_none()) {
            client.wrote = Some((key, value, self.model.now()));
        }
    }

    /// Now and then something fails, alone or beside another, and is mended some seconds later.
    fn fault(&mut self) {
        let now = self.model.now();
        let due: Vec<_> = self.healing.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, fault) in due {
            self.model.inject(fault);
            skew(&mut self.model, &self.skews); // clocks are off throughout, and do not jump
        }
        if self.remade.take_if(|at| *at <= now).is_some() {
            self.model.inject(Fault::RecreateTopic(TABLE.into()));
            self.anew = Some(now);
        }
        if now < self.next_fault {
            return;
        }
        self.next_fault = now + Duration::from_millis(self.rng.random_range(1_500..12_000));
        let server = self.rng.random_range(0..SERVERS);
        let mut after = |rng: &mut StdRng, fault| {
            self.healing.push((now + Duration::from_millis(rng.random_range(500..8_000)), fault));
        };
        let up = self.model.hosts[server].state == State::Ready;
        match self.rng.random_range(0..8) {
            0 if up => {
                self.model.inject(Fault::Crash(server));
                if self.rng.random_bool(0.3) {
                    self.model.inject(Fault::Wipe(server));
                }
                after(&mut self.rng, Fault::Start(server));
            }
            1 if up => {
                self.model.inject(Fault::Close(server));
                after(&mut self.rng, Fault::Start(server));
            }
            2 => {
                self.model.inject(Fault::Pause(server));
                after(&mut self.rng, Fault::Resume(server));
            }
            3 => {
                self.model.inject(Fault::FreezeLagReports(server));
                after(&mut self.rng, Fault::Heal);
            }
            4 | 5 => {
                let ms = self.rng.random_range(200..6_000);
                self.model.inject(Fault::DelayReplication { server, ms });
                after(&mut self.rng, Fault::Heal);
            }
            6 => {
                let to = (server + 1) % SERVERS;
                self.model.inject(Fault::CutOff { from: server, to });
                after(&mut self.rng, Fault::Heal);
            }
            _ => self.model.inject(Fault::Start(server)),
        }
    }

    fn read(&mut self) {
        let watcher = self.rng.random_range(0..self.watchers.len());
        let key = format!("k{}", self.rng.random_range(0..KEYS));
        let statement = format!("SELECT V FROM {TABLE} WHERE K='{key}';");
        let now = self.model.now();
        let (view, here) = {
            let watcher = &self.watchers[watcher];
            (watcher.evidence.view(watcher.moment(now)), watcher.moment(now))
        };
        let Ok(located) = locate(&classify(&statement), &view) else { return };
        if self.anew.is_some_and(|at| now <= at + NOTICED) {
            return self.in_session(watcher, &view, here, &key, located.partition); // nothing else is promised meanwhile
        }
        match self.rng.random_range(0..5) {
            0 => self.within_offsets(&view, here, &key, located.partition),
            1 => self.within_time(watcher, &view, here, &key, located.partition),
            2 | 3 => self.in_session(watcher, &view, here, &key, located.partition),
            _ => {
                // a key of some seconds ago: old ones are everywhere
                let newest = format!("n{}", self.fresh.saturating_sub(self.rng.random_range(15..80)));
                let statement = format!("SELECT V FROM {TABLE} WHERE K='{newest}';");
                let Ok(located) = locate(&classify(&statement), &view) else { return };
                self.absent(&view, here, &newest, located.partition);
            }
        }
    }

    fn plan(&mut self, view: &ClusterView, here: Moment, partition: u32, options: &Options) -> Option<Candidate> {
        let slot = view.slot_with_history(&self.table, partition);
        let traffic = Traffic { dice: self.rng.random(), ..Traffic::default() };
        let plan = plan(&slot, options, view, &traffic, here);
        // any that may answer does: the promise is each one's
        let place = self.rng.random_range(0..plan.candidates.len().max(1));
        plan.candidates.get(place).copied()
    }

    fn within_offsets(&mut self, view: &ClusterView, here: Moment, key: &str, partition: u32) {
        let bound = self.rng.random_range(0..40);
        let level = if self.rng.random_bool(0.5) { Level::Any } else { Level::Latest };
        let options = Options { max_offset_lag: Some(bound), level, ..Options::default() };
        let Some(chosen) = self.plan(view, here, partition, &options) else {
            return self.tally.refuse(Promise::Offset);
        };
        let slot = view.slot(&self.table, partition);
        let young = slot.replicas.iter().filter(|r| r.has_young_report(here, view.max_report_age));
        let Some(end) = young.filter_map(|replica| replica.position).map(|position| position.end).max() else { return };
        let Some(_) = self.ask(chosen, key, partition) else { return self.tally.unanswered() };
        let Some(position) = self.model.position(chosen.host.into(), TABLE, partition) else { return };
        let kept = position as i64 >= end - bound as i64;
        let now = self.model.now();
        self.tally.check(Promise::Offset, kept, || {
            let slot = view.slot(&self.table, partition);
            format!("at {now:?} host {} holds {position} of {end}, bound {bound}: {chosen:?} of {slot:?}", chosen.host)
        });
    }

    fn within_time(&mut self, watcher: usize, view: &ClusterView, here: Moment, key: &str, partition: u32) {
        let staleness = Duration::from_millis(self.rng.random_range(500..8_000));
        let options = Options { complete_until: Some(here.back(staleness)), ..Options::default() };
        let Some(chosen) = self.plan(view, here, partition, &options) else { return self.tally.refuse(Promise::Time) };
        let Some(answer) = self.ask(chosen, key, partition) else { return self.tally.unanswered() };
        let until = self.watchers[watcher].time(here.back(staleness));
        let logged = self.model.logged(TABLE, &key.into(), until);
        let now = self.model.now();
        self.tally.check(Promise::Time, answer >= logged, || {
            format!("at {now:?} {key} at host {} is {answer:?}, {logged:?} was logged by {until:?}", chosen.host)
        });
    }

    fn in_session(&mut self, place: usize, view: &ClusterView, here: Moment, key: &str, partition: u32) {
        let number = self.rng.random_range(0..self.clients.len());
        let client = &self.clients[number];
        let watcher = &self.watchers[place];
        let mut session = match &client.token {
            Some(token) => Session::decode(token, &watcher.key, &view.clocks, here).unwrap(),
            None => Session::default(),
        };
        let (wrote, key) = match client.wrote.clone() {
            Some(wrote) if self.rng.random_bool(0.3) => (Some((wrote.1, wrote.2)), wrote.0),
            _ => (None, key.to_owned()),
        };
        let promise = if wrote.is_some() { Promise::Written } else { Promise::Session };
        let located = locate(&classify(&format!("SELECT V FROM {TABLE} WHERE K='{key}';")), view).unwrap();
        let partition = if wrote.is_some() { located.partition } else { partition };
        if let Some((_, at)) = wrote {
            session.wrote(&self.table, watcher.moment(at));
        }
        let epoch = view.slot_with_history(&self.table, partition).epoch;
        let now = self.model.now();
        let noticed = self.anew.is_none_or(|at| now > at + NOTICED);
        let old = client.token.is_some() && self.anew.is_some_and(|at| client.given < at);
        let after = match session.after(&self.table, partition, epoch, view) {
            Err(BadToken::Epoch) => {
                let anew = self.anew.is_some();
                self.tally.check(Promise::Epoch, anew, || format!("at {now:?} a token is refused for nothing"));
                self.clients[number] = Client::default();
                return;
            }
            after => after.unwrap(),
        };
        if session.awaits_processing(&self.table, partition, view) && self.watchers[place].processing.is_none() {
            let ends = (0..3).map(|partition| self.model.input_offsets((self.query, partition)).0).collect();
            self.watchers[place].processing = Some((self.model.now(), ends));
        }
        let options = Options { after, ..Options::default() };
        let Some(chosen) = self.plan(view, here, partition, &options) else { return self.tally.refuse(promise) };
        let Some(answer) = self.ask(chosen, &key, partition) else { return self.tally.unanswered() };
        if old && noticed && after.is_some() {
            let anew = self.anew;
            return self.tally.check(Promise::Epoch, false, || {
                format!("at {now:?} sidecar {place} honours {session:?} from before {anew:?}")
            });
        }
        if !noticed {
            self.clients[number].seen.clear(); // of either changelog: no promise spans both
            self.clients[number].wrote = None;
        }
        let seen = self.clients[number].seen.get(&key).copied();
        let least = seen.max(wrote.map(|(value, _)| value));
        self.tally.check(promise, !noticed || answer >= least, || {
            format!("at {now:?} client {number} reads {key} as {answer:?} at host {} by sidecar {place}, had {seen:?} {wrote:?}, {after:?}", chosen.host)
        });
        let client = &mut self.clients[number];
        if let Some(value) = answer {
            client.seen.insert(key.clone(), value.max(seen.unwrap_or(value)));
        }
        if wrote.is_some() {
            client.wrote = None;
        }
        let host = view.host(chosen.host).unwrap();
        session.read(&self.table, partition, host, chosen.role != Role::Standby, Interval { from: here, to: here });
        client.token = Some(session.encode(&self.watchers[place].key, view));
        client.given = now;
        if self.rng.random_bool(0.02) {
            self.clients[number] = Client::default();
        }
    }

    fn absent(&mut self, view: &ClusterView, here: Moment, key: &str, partition: u32) {
        let Some(chosen) = self.plan(view, here, partition, &Options::default()) else { return };
        if !chosen.sees_absence {
            return self.tally.refuse(Promise::Absence);
        }
        // what came since the replica's last two reports, as far as they have arrived, may be missing
        let now = self.model.now();
        let unseen = chosen.age.unwrap_or_default() + self.report_every * 3 + Duration::from_secs(1);
        if self.model.logged(TABLE, &key.into(), now.saturating_sub(unseen)).is_none() {
            return;
        }
        let Some(answer) = self.ask(chosen, key, partition) else { return self.tally.unanswered() };
        self.tally.check(Promise::Absence, answer.is_some(), || {
            let slot = view.slot(&self.table, partition);
            format!("at {now:?} {key} is absent at host {}: {chosen:?} of {slot:?}", chosen.host)
        });
    }

    /// The value of a key at a replica, pinned; `None` if it does not answer, `Some(None)` without a row.
    fn ask(&mut self, chosen: Candidate, key: &str, partition: u32) -> Option<Option<i64>> {
        let body = json!({
            "ksql": format!("SELECT V FROM {TABLE} WHERE K='{key}';"),
            "streamsProperties": {},
            "requestProperties": {
                "request.ksql.query.pull.skip.forwarding": true,
                "request.ksql.query.pull.partition": partition.to_string(),
            },
        });
        let body = body.to_string();
        let ask =
            Ask { method: "POST", path: "/query", accept: Some("application/vnd.ksql.v1+json"), body: body.as_bytes() };
        let Exchange::Answered(answer) = exchange(&mut self.model, chosen.host.into(), &ask) else { return None };
        if answer.status != 200 {
            return None;
        }
        let elements: Vec<Value> = serde_json::from_str(&answer.body).ok()?;
        if elements.iter().any(|element| element.get("errorMessage").is_some()) {
            return None;
        }
        let row = elements.iter().find_map(|element| element.get("row")?.get("columns")?.get(0)?.as_i64());
        // an empty answer may be a store that was not read; that is the proofs' business, not freshness'
        match row {
            None if !self.model.hosts[usize::from(chosen.host)].replicas.is_empty() => {
                self.really_empty(chosen, key, partition)
            }
            row => Some(row),
        }
    }

    /// Whether the replica really has no row: its store can be read, and the row is not in it.
    fn really_empty(&mut self, chosen: Candidate, key: &str, partition: u32) -> Option<Option<i64>> {
        let position = self.model.position(chosen.host.into(), TABLE, partition)?;
        let first = self.model.logged_at(TABLE, &key.into())?;
        (position <= first).then_some(None)
    }
}
