//! The roads between the processes of a trial and their store: proxies of the lab, one for each process and server.
//!
//! A process gets the addresses of its own proxies in place of those of the servers. So the lab can make the network of one process fail
//! while that of the others works.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Instant;

use fencepost::stores::kinds::{ETCD, POSTGRES, ZOOKEEPER};
use fencepost_rig::{Direction, Proxy};

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
    /// When everything passes again at the latest, whatever the script says.
    reconnects_at: Option<Instant>,
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
struct ServerList<'a> {
    before: &'a str,
    servers: Vec<Server<'a>>,
    after: &'a str,
}

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

    /// Returns the parts of an endpoint, as text.
    fn parts(endpoint: &str) -> Option<(String, Vec<(String, String)>, String)> {
        let list = ServerList::read(endpoint)?;
        let server = |server: &Server<'_>| (server.user.to_owned(), server.host.to_owned());
        let servers = list.servers.iter().map(server).collect();
        Some((list.before.into(), servers, list.after.into()))
    }

    #[test]
    fn only_the_hosts_of_an_endpoint_are_replaced() {
        for (endpoint, before, servers, after) in [
            (
                "redis://127.0.0.1:7000#lab",
                "redis://",
                vec![("", "127.0.0.1:7000")],
                "#lab",
            ),
            (
                "redis://u:p@cache/2#lab",
                "redis://",
                vec![("u:p@", "cache")],
                "/2#lab",
            ),
            (
                "redlock://a:1,u:p@b:2?restart_delay=3s#lab",
                "redlock://",
                vec![("", "a:1"), ("u:p@", "b:2")],
                "?restart_delay=3s#lab",
            ),
            (
                "zk://[::1]:2181/base#lab",
                "zk://",
                vec![("", "[::1]:2181")],
                "/base#lab",
            ),
        ] {
            let servers: Vec<(String, String)> = servers
                .into_iter()
                .map(|(user, host)| (user.to_owned(), host.to_owned()))
                .collect();
            let expected = (before.to_owned(), servers, after.to_owned());
            assert_eq!(parts(endpoint), Some(expected), "{endpoint}");
        }
        assert_eq!(parts("sqlite:/tmp/run.db"), None);
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
