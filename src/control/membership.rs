//! Which servers there are, how they are dialled, and which sidecars stand beside them.

use super::fetch::Fetch;
use super::keeper::{Event, Named};
use super::ksql::{ask_hosts, ask_name};
use crate::config::{BaseUrl, Config, Discovery};
use crate::telemetry::{LoopHealth, Metrics};
use crate::view::{HostSpec, HostState, Published};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// A server, and the sidecar beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub spec: HostSpec,
    /// Base address of its admin port, if one is to be asked.
    pub sidecar: Option<String>,
}

/// All servers, the local one first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Members(pub Vec<Member>);

/// How soon membership is looked at again while the local server's own name is not known.
const EAGER: Duration = Duration::from_millis(500);

/// Servers that are kept at most: more names in `/clusterStatus` are an error or an attack.
const MOST: usize = 256;

/// How soon a name under which nobody answered is tried again, at most: a server that comes back is to be used soon.
const AGAIN: Duration = Duration::from_secs(2);

/// How long a server must be dead, and named by nobody, to be forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Finds servers.
pub(super) struct Membership<F> {
    config: Arc<Config>,
    fetch: Arc<F>,
    events: mpsc::Sender<Event>,
    members: watch::Sender<Members>,
    named: watch::Receiver<Named>,
    published: Arc<Published>,
    own_name: Option<String>,
    /// Servers found so far, by name; they stay when they die.
    found: BTreeMap<String, Member>,
    health: LoopHealth,
}

impl<F: Fetch> Membership<F> {
    pub fn new(
        config: Arc<Config>,
        fetch: Arc<F>,
        events: mpsc::Sender<Event>,
        members: watch::Sender<Members>,
        named: watch::Receiver<Named>,
        published: Arc<Published>,
        metrics: &Metrics,
    ) -> Self {
        let health = LoopHealth::new(metrics, "membership");
        let own_name = config.server.name.clone();
        Membership { config, fetch, events, members, named, published, own_name, found: BTreeMap::new(), health }
    }

    pub async fn run(mut self) {
        self.tell().await;
        loop {
            match self.look().await {
                Ok(()) => self.health.succeeded(),
                Err(error) => self.health.failed(&error),
            }
            self.tell().await;
            let eager = self.own_name.is_none() || self.members.borrow().0.len() < self.expected();
            let pause = match eager {
                true => EAGER,
                false if self.is_missing_some() => AGAIN.min(self.config.peers.refresh_interval),
                false => self.config.peers.refresh_interval,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = self.named.changed() => if changed.is_err() { return },
            }
        }
    }

    /// How many servers there are to be, the local one included, where that is known.
    fn expected(&self) -> usize {
        match self.config.peers.discovery {
            Discovery::Static => self.config.peers.static_peers.len(),
            Discovery::Cluster | Discovery::Dns => 0,
        }
    }

    async fn look(&mut self) -> Result<(), io::Error> {
        if self.own_name.is_none() {
            let url = self.config.server.url.to_string();
            self.own_name = ask_name(&*self.fetch, &url, self.config.health.timeout).await;
        }
        self.forget();
        match self.config.peers.discovery {
            Discovery::Static => self.look_static().await,
            Discovery::Cluster => self.look_cluster().await,
            Discovery::Dns => self.look_dns().await?,
        }
        Ok(())
    }

    /// Whether the cluster knows a server that has not answered under its name.
    fn is_missing_some(&self) -> bool {
        let named = self.named.borrow();
        let known = |name: &String| self.found.contains_key(name) || Some(name) == self.own_name.as_ref();
        self.config.peers.discovery == Discovery::Cluster && !named.names.iter().all(known)
    }

    /// Drops servers that are long dead and named by nobody; those of a configured list stay.
    fn forget(&mut self) {
        let (view, named) = (self.published.load(), self.named.borrow());
        let is_listed = self.config.peers.discovery == Discovery::Static;
        self.found.retain(|name, _| {
            let host = view.hosts.iter().find(|host| *host.name == **name);
            let is_dead = host.is_some_and(|host| host.state == HostState::Dead);
            let is_gone = is_dead && host.is_some_and(|host| view.made.since(host.since) > FORGOTTEN);
            let is_own = Some(name) == self.own_name.as_ref();
            !is_own && (is_listed || named.names.contains(name) || !is_gone)
        });
    }

    /// The configured list, nothing else; a server's name is asked unless it is configured.
    async fn look_static(&mut self) {
        for peer in self.config.peers.static_peers.clone() {
            let url = peer.server.to_string();
            let already = self.found.values().any(|member| *member.spec.url == *url);
            if already || self.is_own(&url, peer.name.as_deref()) {
                continue;
            }
            let name = match peer.name {
                Some(name) => Some(name),
                None => ask_name(&*self.fetch, &url, self.config.health.timeout).await,
            };
            let name = name.or_else(|| self.name_by_override(&url));
            let Some(name) = name else { continue }; // asked again until it answers
            let sidecar = peer.sidecar.map(|url| url.to_string()).or_else(|| self.sidecar_of(&peer.server));
            self.add(name, url, sidecar);
        }
    }

    /// Names from the map become servers once they answer under their own name.
    async fn look_cluster(&mut self) {
        if self.own_name.is_none() {
            return; // or the own server would become its own peer
        }
        let Named { mut names, without_heartbeats } = self.named.borrow_and_update().clone();
        if without_heartbeats {
            names.extend(self.hosts_of_queries().await);
        }
        for name in names {
            if self.found.contains_key(&name) || Some(&name) == self.own_name.as_ref() || self.found.len() >= MOST {
                continue;
            }
            let Some(url) = self.dialled(&name) else { continue };
            let answered = ask_name(&*self.fetch, &url.to_string(), self.config.health.timeout).await;
            // a shared name, such as localhost in every server's settings, answers under the own name
            if answered.as_ref() == Some(&name) {
                let sidecar = self.sidecar_of(&url);
                self.add(name, url.to_string(), sidecar);
            }
        }
    }

    async fn look_dns(&mut self) -> Result<(), io::Error> {
        let Some(dns_name) = self.config.peers.dns_name.clone() else { return Ok(()) };
        let addresses = tokio::net::lookup_host((dns_name, self.config.peers.server_port)).await?;
        for address in addresses {
            let Ok(url) = BaseUrl::new(&address.ip().to_string(), address.port()) else { continue };
            let text = url.to_string();
            if self.found.values().any(|member| *member.spec.url == *text) || self.found.len() >= MOST {
                continue;
            }
            let Some(name) = ask_name(&*self.fetch, &text, self.config.health.timeout).await else { continue };
            if Some(&name) != self.own_name.as_ref() {
                let sidecar = self.sidecar_of(&url);
                self.found.remove(&name); // the same server under a new address
                self.add(name, text, sidecar);
            }
        }
        Ok(())
    }

    /// The hosts that `SHOW QUERIES EXTENDED` names.
    async fn hosts_of_queries(&self) -> Vec<String> {
        let url = self.config.server.url.to_string();
        ask_hosts(&*self.fetch, &url, self.config.catalogue.timeout * 2).await.unwrap_or_default()
    }

    fn is_own(&self, url: &str, name: Option<&str>) -> bool {
        *url == self.config.server.url.to_string() || (name.is_some() && name == self.own_name.as_deref())
    }

    fn dialled(&self, name: &str) -> Option<BaseUrl> {
        let by_override = self.config.peers.names.get(name).cloned();
        by_override.or_else(|| format!("http://{name}").parse().ok())
    }

    fn name_by_override(&self, url: &str) -> Option<String> {
        let known = self.config.peers.names.iter();
        known.filter(|(_, dialled)| dialled.to_string() == url).map(|(name, _)| name.clone()).next()
    }

    fn sidecar_of(&self, server: &BaseUrl) -> Option<String> {
        BaseUrl::new(server.host().trim_matches(['[', ']']), self.config.peers.sidecar_port)
            .ok()
            .map(|url| url.to_string())
    }

    fn add(&mut self, name: String, url: String, sidecar: Option<String>) {
        if Some(&name) == self.own_name.as_ref() {
            return;
        }
        let spec = HostSpec { name: name.as_str().into(), url: url.into(), local: false };
        self.found.insert(name, Member { spec, sidecar });
    }

    async fn tell(&mut self) {
        let url = self.config.server.url.to_string();
        let name = self.own_name.clone().unwrap_or_else(|| self.config.server.url.authority());
        let own = Member { spec: HostSpec { name: name.into(), url: url.into(), local: true }, sidecar: None };
        let members = Members(std::iter::once(own).chain(self.found.values().cloned()).collect());
        if *self.members.borrow() == members {
            return;
        }
        let specs = members.0.iter().map(|member| member.spec.clone()).collect();
        let _ = self.events.send(Event::Hosts(specs)).await; // the keeper is gone only at the end
        self.members.send_replace(members);
    }
}
