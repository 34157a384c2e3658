//! The roads between the processes of a trial and their store: proxies of the lab, one for each process and server.
//!
//! A process gets the addresses of its own proxies in place of those of the servers. So the lab can make the network of one process fail
//! while that of the others works.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::stores::kinds::{ETCD, POSTGRES, ZOOKEEPER};
use fencepost_rig::{Direction, Proxy, ReplyFate, Wire};

use crate::history::Fault;
use crate::holds::Trial;
use crate::protocol::Failure;
use crate::store::{Ground, ServerList, TrialStore};

mod errors;

use errors::Errors;
pub(super) use errors::{StoreError, Which};

/// The roads of all processes, by index.
pub(super) struct Roads(Vec<Road>);

/// The road of one process.
pub(super) struct Road {
    proxies: Vec<Proxy>,
    endpoints: Vec<String>,
    /// When the process was last asked to acquire a lock.
    asked_at: Option<Instant>,
    /// How many replies had come this way by then.
    replies_before: u64,
    /// How many replies to steps had come this way by then.
    steps_before: u64,
    /// How many replies to steps the last grant took.
    steps_of_grant: u64,
    /// How late every reply is while the lab measures how many of them a grant waits for.
    rehearsal: Option<Duration>,
    /// How many replies a grant waits for, one after the other.
    rounds_of_grant: u32,
    /// The reply that meets a fate.
    chosen: Option<Arc<Chosen>>,
    /// The chosen reply is held back, and the process goes on.
    withholds: bool,
    /// The error with which the lab answers in place of the store.
    errors: Option<Arc<Errors>>,
    /// The only direction that is open, if the other one is cut, and how much had passed in it by then.
    one_way: Option<(Direction, u64)>,
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
    /// Builds the roads of a trial that has them. Returns `None` for other trials.
    pub(super) fn start(trial: &Trial, ground: &Ground) -> Result<Option<Self>, Failure> {
        if !trial.has_roads() {
            return Ok(None);
        }
        let road = |_| Road::to(&trial.store, trial.strategy.endpoints(ground));
        let roads = (0..trial.processes()).map(road);
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
        road.steps() - road.steps_before >= road.steps_of_grant.max(1)
    }

    /// Returns whether the reply that was chosen on the road of this process has come.
    pub(super) fn has_met(&self, index: usize) -> bool {
        self.0[index].has_met()
    }

    /// Returns whether a reply to this process is, or will be, held back although the process goes on.
    pub(super) fn withholds(&self, index: usize) -> bool {
        self.0[index].withholds
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
    fn to(store: &TrialStore, direct: Vec<String>) -> Result<Self, Failure> {
        let mut proxies = Vec::new();
        let mut endpoints = Vec::new();
        for endpoint in direct {
            let Some(address) = ServerList::read(&endpoint) else {
                endpoints.push(endpoint);
                continue;
            };
            let mut servers = Vec::new();
            for server in &address.servers {
                let proxy = Proxy::start(resolve(server.host, default_port(store))?);
                let proxy = proxy.map_err(Failure::definite)?;
                proxy.speaks(wire(store));
                servers.push(format!("{}{}", server.user, proxy.address()));
                proxies.push(proxy);
            }
            let (before, after) = (address.before, address.after);
            endpoints.push(format!("{before}{}{after}", servers.join(",")));
        }
        Ok(Self {
            proxies,
            endpoints,
            asked_at: None,
            replies_before: 0,
            steps_before: 0,
            steps_of_grant: 0,
            rehearsal: None,
            rounds_of_grant: 1,
            chosen: None,
            withholds: false,
            errors: None,
            one_way: None,
            reconnects_at: None,
        })
    }

    /// Returns how many replies have come this way.
    pub(super) fn replies(&self) -> u64 {
        let replies = self.proxies.iter().map(|proxy| proxy.counts().replies);
        replies.sum()
    }

    fn steps(&self) -> u64 {
        self.proxies.iter().map(|proxy| proxy.counts().steps).sum()
    }

    /// Notes that the process is asked to acquire a lock.
    pub(super) fn asked(&mut self) {
        self.asked_at = Some(Instant::now());
        self.replies_before = self.replies();
        self.steps_before = self.steps();
        self.proxies.iter().for_each(Proxy::forget_first_delivery);
    }

    /// Returns when something was first handed on to the process since it was last asked to acquire a lock.
    pub(super) fn first_arrival(&self) -> Option<Instant> {
        let each = self.proxies.iter();
        each.filter_map(Proxy::first_delivery).min()
    }

    /// Returns how many replies came this way since the process was last asked to acquire a lock.
    pub(super) fn replies_since_asked(&self) -> u64 {
        self.replies() - self.replies_before
    }

    /// Notes that the process was granted a lock by this time.
    pub(super) fn granted(&mut self, at: Instant) {
        self.steps_of_grant = self.steps() - self.steps_before;
        if let (Some(each), Some(asked_at)) = (self.rehearsal.take(), self.asked_at) {
            let took = at.saturating_duration_since(asked_at);
            // Replies that come side by side are waited for only once.
            let rounds = took.as_nanos() / each.as_nanos().max(1);
            self.rounds_of_grant = u32::try_from(rounds).unwrap_or(u32::MAX).max(1);
        }
    }

    /// Delays every reply a little, to learn from the next grant how many replies it waits for, one after the other.
    pub(super) fn rehearse(&mut self, each: Duration) {
        self.rehearsal = Some(each);
        self.delay_replies(each);
    }

    /// Delays the replies so that a grant takes this long, if it waits for as many replies as the one in the rehearsal did.
    pub(super) fn slow(&self, grant: Duration) {
        self.delay_replies(grant / self.rounds_of_grant);
    }

    fn delay_replies(&self, by: Duration) {
        for proxy in &self.proxies {
            proxy.delay(Direction::ToClient, by);
        }
    }

    /// Lets every message travel for this much longer, in both directions.
    pub(super) fn distance(&self, each_way: Duration) {
        for proxy in &self.proxies {
            for direction in [Direction::ToServer, Direction::ToClient] {
                proxy.delay(direction, each_way);
            }
        }
    }

    /// Lets every connection that is open die silently. Returns how many there were.
    pub(super) fn bury(&self) -> u64 {
        self.proxies.iter().map(Proxy::bury).sum()
    }

    /// Leads new connections to this server. Those that are open stay where they are.
    pub(super) fn stay_at(&self, server: SocketAddr) {
        self.proxies.iter().for_each(|proxy| proxy.point_at(server));
    }

    /// Ends every connection that is open. New ones lead to wherever the address leads by then.
    pub(super) fn move_on(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// Lets the machine of the process vanish from the network. Returns whether nothing is left that could tell a server so.
    pub(super) fn vanish(&self) -> bool {
        let mut proxies = self.proxies.iter();
        proxies.all(|proxy| proxy.vanish().is_ok())
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

    /// Holds the reply with this number back, counted from now, until it is lost or everything passes again.
    pub(super) fn withhold_reply(&mut self, number: u64) {
        self.choose_reply(number, ReplyFate::Hold);
        self.withholds = true;
    }

    /// Loses the reply that is withheld, and closes every connection. Returns whether there was one.
    pub(super) fn lose_withheld(&mut self) -> bool {
        let is_held = std::mem::take(&mut self.withholds) && self.has_met();
        if is_held {
            self.proxies.iter().for_each(Proxy::cut);
        }
        is_held
    }

    /// Lets these requests meet an error of the store.
    pub(super) fn answer_with(&mut self, error: StoreError, which: Which) {
        self.errors = Some(Errors::at(&self.proxies, error, which));
    }

    /// Returns the error that a request has met, once.
    pub(super) fn tell_error(&self) -> Option<Fault> {
        self.errors.as_ref()?.tell_met()
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
        self.distance(Proxy::FOREVER);
    }

    /// Lets nothing pass in this direction, as [`cut_off`](Self::cut_off) does in both.
    pub(super) fn cut_one_way(&mut self, closed: Direction) {
        for proxy in &self.proxies {
            proxy.delay(closed, Proxy::FOREVER);
        }
        let open = match closed {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        };
        self.one_way = Some((open, self.passed(open)));
    }

    /// Returns whether anything has passed in the direction that is open since the other one was cut, once.
    pub(super) fn tell_passed_one_way(&mut self) -> bool {
        let has_passed = |(open, before)| self.passed(open) > before;
        let is_new = self.one_way.is_some_and(has_passed);
        if is_new {
            self.one_way = None;
        }
        is_new
    }

    /// Returns how many bytes have passed in this direction.
    fn passed(&self, direction: Direction) -> u64 {
        let counts = self.proxies.iter().map(Proxy::counts);
        let bytes = counts.map(|counts| match direction {
            Direction::ToServer => counts.to_server.bytes,
            Direction::ToClient => counts.to_client.bytes,
        });
        bytes.sum()
    }

    /// Opens the road again at this time, unless [`reconnect`](Self::reconnect) does so before.
    pub(super) fn reconnect_at(&mut self, at: Instant) {
        self.reconnects_at = Some(at);
    }

    /// Lets everything pass again.
    pub(super) fn reconnect(&mut self) {
        self.reconnects_at = None;
        self.one_way = None;
        self.rehearsal = None;
        self.withholds = false;
        let held = self.chosen.as_ref();
        if let Some(held) = held.filter(|chosen| chosen.fate == ReplyFate::Hold) {
            // Whatever was held back is on its way, and nothing more is.
            held.is_told.store(true, Ordering::SeqCst);
        }
        self.proxies.iter().for_each(Proxy::heal);
    }
}

/// Returns the protocol of a store.
fn wire(store: &TrialStore) -> Wire {
    match store {
        store if store.is(&POSTGRES) => Wire::Postgres,
        store if store.is(&ETCD) => Wire::Grpc,
        store if store.is(&ZOOKEEPER) => Wire::ZooKeeper,
        _ => Wire::Resp,
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
