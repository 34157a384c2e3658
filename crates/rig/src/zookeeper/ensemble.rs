//! A private ZooKeeper ensemble of three servers.

use std::net::Ipv4Addr;

use super::{Starting, Zookeeper, ask};
use crate::proxy::{Direction, Proxy};
use crate::server::{ServerError, free_port};

/// How often to try other ports if another process takes one of the chosen ones first.
const ATTEMPTS: u32 = 3;

/// Three private servers that elect a leader, each as described at [`Zookeeper`].
///
/// The first server does not lead while the others are running. A follower that does not hear from its leader tolerates that for 20 s and
/// answers its clients in the meantime.
#[derive(Debug)]
pub struct ZookeeperEnsemble {
    /// The servers.
    pub servers: Vec<Zookeeper>,
    /// The proxies through which the first server reaches the others; empty if it connects directly.
    roads: Vec<Proxy>,
}

/// How the first server reaches the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Close,
    Apart,
}

impl ZookeeperEnsemble {
    /// Starts three servers and waits until all are ready.
    ///
    /// Call this from a thread that lives as long as the servers are needed, because they die with that thread.
    ///
    /// # Errors
    /// [`ServerError`] says why there are none; then nothing is left behind.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_in(Manner::Close)
    }

    /// Like [`start`](Self::start), but the first server can be [cut off](Self::cut_off_the_first) from the others. It may then take
    /// several seconds to find a new leader, because a server that is not ready yet looks like one that closes the connection.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn start_apart() -> Result<Self, ServerError> {
        Self::start_in(Manner::Apart)
    }

    fn start_in(manner: Manner) -> Result<Self, ServerError> {
        let mut attempts_left = ATTEMPTS;
        loop {
            attempts_left -= 1;
            match Self::start_once(manner) {
                Err(ServerError::NotRunning { .. }) if attempts_left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    fn start_once(manner: Manner) -> Result<Self, ServerError> {
        let mut ports = Vec::new();
        let mut roads = Vec::new();
        for _ in 0..3 {
            let (peers, election) = (free_port()?, free_port()?);
            if manner == Manner::Apart {
                roads.push(Proxy::start((Ipv4Addr::LOCALHOST, peers).into())?);
            }
            ports.push((peers, election));
        }
        // Among servers with the same data, the one with the highest id is elected.
        let mut starting = Vec::new();
        for number in 0..3 {
            let mut settings: Vec<String> = vec!["initLimit=50".into(), "syncLimit=200".into()];
            settings.push(format!("myid={}", number + 1));
            for (other, (peers, election)) in ports.iter().enumerate() {
                let road = roads.get(other).filter(|_| number == 0 && other != 0);
                let peers = road.map_or(*peers, |road| road.address().port());
                let place = format!("server.{}=127.0.0.1:{peers}:{election}", other + 1);
                settings.push(place);
            }
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            starting.push(Starting::begin(free_port()?, &settings)?);
        }
        let servers: Result<Vec<Zookeeper>, _> = starting.into_iter().map(Starting::wait).collect();
        Ok(Self {
            servers: servers?,
            roads,
        })
    }

    /// Blocks the traffic between the first server and the others, without closing the connections. Requires
    /// [`start_apart`](Self::start_apart).
    pub fn cut_off_the_first(&self) {
        for road in &self.roads {
            for direction in [Direction::ToServer, Direction::ToClient] {
                road.delay(direction, Proxy::FOREVER);
            }
        }
    }

    /// Ends the blockade; delayed messages arrive.
    pub fn heal(&self) {
        self.roads.iter().for_each(Proxy::heal);
    }

    /// Returns which server leads, or `None` if there is no leader or it does not answer.
    pub fn leader(&self) -> Option<usize> {
        let leads = |server: &Zookeeper| ask(server.port).is_some_and(|said| said.mode == "leader");
        self.servers.iter().position(leads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_them_leads_and_another_does_when_it_is_gone() {
        let mut ensemble = ZookeeperEnsemble::start().unwrap();
        let first = ensemble.leader().unwrap();
        assert_ne!(first, 0);
        ensemble.servers[first].crash();
        let started = std::time::Instant::now();
        while ensemble.leader().is_none_or(|leader| leader == first) {
            assert!(
                started.elapsed() < crate::server::START_TIMEOUT,
                "no election"
            );
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
