//! The roads between the processes of a trial and their store: proxies of the lab, one for each process and server.
//!
//! A process gets the addresses of its own proxies in place of those of the servers. So the lab can make the network of one process fail
//! while that of the others works.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::stores::kinds::{ETCD, POSTGRES, ZOOKEEPER};
use fencepost_rig::{Direction, Proxy, ReplyFate};

use crate::holds::Trial;
use crate::protocol::Failure;
use crate::store::{Ground, TrialStore};

/// The roads of all processes, by index.
pub(super) struct Roads(Vec<Road>);

/// The road of one process.
pub(super) struct Road {
    proxies: Vec<Proxy>,
    endpoints: Vec<String>,
    /// How many replies had come this way when the process was last asked to acquire a lock.
    replies_before: u64,
    /// How many replies the last grant took.
    replies_of_grant: u64,
    /// The reply that meets a fate.
    chosen: Option<Arc<Chosen>>,
    /// When everything passes again at the latest, whatever the script says.
    reconnects_at: Option<Instant>,
}

/// A reply of the store that meets a fate, counted over all servers from the moment at which it was chosen.
#[derive(Debug)]
struct Chosen {
    number: u64,
    fate: ReplyFate,
    seen: AtomicU64,
    is_met: AtomicBool,
    is_told: AtomicBool,
}

impl Chosen {
    /// Counts a reply, and returns what happens to it.
    fn judge(&self) -> ReplyFate {
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.number {
            self.is_met.store(true, Ordering::SeqCst);
            self.fate
        } else {
            ReplyFate::Pass
        }
    }
}

impl Roads {
    /// Builds the roads of a trial that comes between the processes and their store. Returns `None` for other trials.
    pub(super) fn start(trial: &Trial, ground: &Ground) -> Result<Option<Self>, Failure> {
        if !trial.scenario.comes_between() {
            return Ok(None);
        }
        let road = |_| Road::to(&trial.store, ground);
        let roads = (0..trial.scenario.processes()).map(road);
        Ok(Some(Self(roads.collect::<Result<_, _>>()?)))
    }

    /// Returns the road of a process.
    pub(super) fn of(&mut self, index: usize) -> &mut Road {
        &mut self.0[index]
    }

    /// Returns the endpoints that this process receives.
    pub(super) fn endpoints(&self, index: usize) -> Vec<String> {
        self.0[index].endpoints.clone()
    }

    /// Lets everything pass for everybody.
    pub(super) fn open_all(&mut self) {
        self.0.iter_mut().for_each(Road::reconnect);
    }

    /// Returns whether the store has answered this process as often as it did for its last grant, so that the lock is probably taken,
    /// whether or not the process has the answer.
    pub(super) fn is_answered(&self, index: usize) -> bool {
        let road = &self.0[index];
        road.replies_since_asked() >= road.replies_of_grant.max(1)
    }

    /// Returns when the next road is opened again whatever the script says.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        self.0.iter().filter_map(|road| road.reconnects_at).min()
    }

    /// Returns the processes whose roads must be opened again by now.
    pub(super) fn due(&self, now: Instant) -> Vec<usize> {
        let due = |road: &Road| road.reconnects_at.is_some_and(|at| at <= now);
        let roads = self.0.iter().enumerate();
        roads
            .filter(|(_, road)| due(road))
            .map(|(index, _)| index)
            .collect()
    }
}

impl Road {
    /// Puts a proxy before every server.
    fn to(store: &TrialStore, ground: &Ground) -> Result<Self, Failure> {
        let mut proxies = Vec::new();
        let mut endpoints = Vec::new();
        for endpoint in ground.endpoints() {
            let Some(address) = ServerList::read(&endpoint) else {
                endpoints.push(endpoint);
                continue;
            };
            let mut servers = Vec::new();
            for server in &address.servers {
                let proxy = Proxy::start(resolve(server.host, default_port(store))?);
                let proxy = proxy.map_err(Failure::definite)?;
                servers.push(format!("{}{}", server.user, proxy.address()));
                proxies.push(proxy);
            }
            let (before, after) = (address.before, address.after);
            endpoints.push(format!("{before}{}{after}", servers.join(",")));
        }
        Ok(Self {
            proxies,
            endpoints,
            replies_before: 0,
            replies_of_grant: 0,
            chosen: None,
            reconnects_at: None,
        })
    }

    fn replies(&self) -> u64 {
        let replies = self.proxies.iter().map(|proxy| proxy.counts().replies);
        replies.sum()
    }

    /// Notes that the process is asked to acquire a lock.
    pub(super) fn asked(&mut self) {
        self.replies_before = self.replies();
    }

    /// Returns how many replies came this way since the process was last asked to acquire a lock.
    pub(super) fn replies_since_asked(&self) -> u64 {
        self.replies() - self.replies_before
    }

    /// Notes that the process was granted a lock.
    pub(super) fn granted(&mut self) {
        self.replies_of_grant = self.replies_since_asked();
    }

    /// Delays the replies so that a grant takes this long, if it takes as many replies as the last one did.
    pub(super) fn slow(&self, grant: Duration) {
        let replies = u32::try_from(self.replies_of_grant.max(1)).unwrap_or(u32::MAX);
        for proxy in &self.proxies {
            proxy.delay(Direction::ToClient, grant / replies);
        }
    }

    /// Chooses the reply with this number, counted from now, for this fate.
    pub(super) fn choose_reply(&mut self, number: u64, fate: ReplyFate) {
        let chosen = Arc::new(Chosen {
            number,
            fate,
            seen: AtomicU64::new(0),
            is_met: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
        });
        for proxy in &self.proxies {
            let chosen = Arc::clone(&chosen);
            proxy.judge_replies(move || chosen.judge());
        }
        self.chosen = Some(chosen);
    }

    /// Returns whether the chosen reply has come since it was chosen.
    pub(super) fn has_met(&self) -> bool {
        let chosen = self.chosen.as_ref();
        chosen.is_some_and(|chosen| chosen.is_met.load(Ordering::SeqCst))
    }

    /// Returns the fate of the chosen reply when it has come, once.
    pub(super) fn tell_met(&self) -> Option<ReplyFate> {
        let chosen = self.chosen.as_ref().filter(|_| self.has_met())?;
        let is_told = chosen.is_told.swap(true, Ordering::SeqCst);
        (!is_told).then_some(chosen.fate)
    }

    /// Lets nothing pass in either direction. No connection ends, and nothing is lost: once the road is open again, everything arrives,
    /// as after a partition that TCP survives.
    pub(super) fn cut_off(&self) {
        for proxy in &self.proxies {
            for direction in [Direction::ToServer, Direction::ToClient] {
                proxy.delay(direction, Proxy::FOREVER);
            }
        }
    }

    /// Opens the road again at this time, unless [`reconnect`](Self::reconnect) does so before.
    pub(super) fn reconnect_at(&mut self, at: Instant) {
        self.reconnects_at = Some(at);
    }

    /// Lets everything pass again.
    pub(super) fn reconnect(&mut self) {
        self.reconnects_at = None;
        self.proxies.iter().for_each(Proxy::heal);
    }
}

/// An address that names servers, as in `redis://user:password@host:6379/0#space`.
#[derive(Debug, PartialEq)]
struct ServerList<'a> {
    before: &'a str,
    servers: Vec<Server<'a>>,
    after: &'a str,
}

#[derive(Debug, PartialEq)]
struct Server<'a> {
    /// The user and the password, up to and including the `@`; empty if there is none.
    user: &'a str,
    host: &'a str,
}

impl<'a> ServerList<'a> {
    /// Returns `None` if the endpoint names no server.
    fn read(endpoint: &'a str) -> Option<Self> {
        let start = endpoint.find("://")? + "://".len();
        let (before, rest) = endpoint.split_at(start);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (servers, after) = rest.split_at(end);
        let server = |text: &'a str| {
            let (user, host) = text.split_at(text.rfind('@').map_or(0, |at| at + 1));
            Server { user, host }
        };
        Some(Self {
            before,
            servers: servers.split(',').map(server).collect(),
            after,
        })
    }
}

fn default_port(store: &TrialStore) -> u16 {
    match store {
        store if store.is(&POSTGRES) => 5432,
        store if store.is(&ETCD) => 2379,
        store if store.is(&ZOOKEEPER) => 2181,
        _ => 6379,
    }
}

fn resolve(host: &str, default_port: u16) -> Result<SocketAddr, Failure> {
    let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    let found = match port {
        Some(Ok(_)) => host.to_socket_addrs(),
        _ => (host.trim_matches(['[', ']']), default_port).to_socket_addrs(),
    };
    let found = found.map(|mut addresses| addresses.next());
    let none = || Failure::definite(format!("the host '{host}' has no address"));
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(none()),
        Err(error) => Err(Failure::definite(format!("{host}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosts_of_an_endpoint_are_replaced() {
        for (endpoint, servers, after) in [
            (
                "redis://127.0.0.1:7000#lab",
                vec![("", "127.0.0.1:7000")],
                "#lab",
            ),
            ("redis://u:p@cache/2#lab", vec![("u:p@", "cache")], "/2#lab"),
            (
                "redlock://a:1,u:p@b:2?restart_delay=3s#lab",
                vec![("", "a:1"), ("u:p@", "b:2")],
                "?restart_delay=3s#lab",
            ),
            (
                "zk://[::1]:2181/base#lab",
                vec![("", "[::1]:2181")],
                "/base#lab",
            ),
        ] {
            let servers = servers.into_iter();
            let servers = servers.map(|(user, host)| Server { user, host });
            let expected = ServerList {
                before: &endpoint[..endpoint.find("//").unwrap() + 2],
                servers: servers.collect(),
                after,
            };
            assert_eq!(ServerList::read(endpoint), Some(expected), "{endpoint}");
        }
        assert_eq!(ServerList::read("sqlite:/tmp/run.db"), None);
    }

    #[test]
    fn a_host_without_a_port_has_that_of_its_store() {
        for (host, expected) in [
            ("127.0.0.1", "127.0.0.1:6379"),
            ("127.0.0.1:7000", "127.0.0.1:7000"),
            ("[::1]", "[::1]:6379"),
            ("[::1]:7000", "[::1]:7000"),
        ] {
            assert_eq!(resolve(host, 6379).unwrap().to_string(), expected);
        }
        assert!(resolve("no such host", 6379).is_err());
    }
}
