//! Three private servers that keep one tree.

use std::net::Ipv4Addr;

use super::{Starting, Zookeeper, ask};
use crate::proxy::{Direction, Proxy};
use crate::server::{ServerError, free_port};

/// How often other ports are tried when somebody else was faster.
const ATTEMPTS: u32 = 3;

/// Three servers of our own that elect a leader among themselves, each as [`Zookeeper`] describes.
///
/// The first one never leads while the others are there, and can be [cut off](Self::cut_off_the_first) from them. A follower that does not hear of
/// its leader puts up with that for 10 s, and answers its clients meanwhile.
#[derive(Debug)]
pub struct ZookeeperEnsemble {
    /// The servers.
    pub servers: Vec<Zookeeper>,
    /// The first one reaches the others through these.
    roads: Vec<Proxy>,
}

impl ZookeeperEnsemble {
    /// Starts three servers and waits until all serve.
    ///
    /// Call it from a thread that lives as long as they are wanted.
    ///
    /// # Errors
    /// [`ServerError`] says why there are none; then nothing is left behind.
    pub fn start() -> Result<Self, ServerError> {
        let mut attempts_left = ATTEMPTS;
        loop {
            attempts_left -= 1;
            match Self::start_once() {
                Err(ServerError::NotRunning { .. }) if attempts_left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    fn start_once() -> Result<Self, ServerError> {
        let mut ports = Vec::new();
        let mut roads = Vec::new();
        for _ in 0..3 {
            let (peers, election) = (free_port()?, free_port()?);
            roads.push(Proxy::start((Ipv4Addr::LOCALHOST, peers).into())?);
            ports.push((peers, election));
        }
        // Of servers that know the same, the one with the highest number is elected.
        let mut starting = Vec::new();
        for number in 0..3 {
            let mut settings: Vec<String> = vec!["initLimit=100".into(), "syncLimit=100".into()];
            settings.push(format!("myid={}", number + 1));
            for (other, (peers, election)) in ports.iter().enumerate() {
                let is_far = number == 0 && other != 0;
                let peers = if is_far {
                    roads[other].address().port()
                } else {
                    *peers
                };
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

    /// Nothing passes between the first server and the others any more, and nobody notices at once.
    pub fn cut_off_the_first(&self) {
        for road in &self.roads {
            for direction in [Direction::ToServer, Direction::ToClient] {
                road.delay(direction, Proxy::FOREVER);
            }
        }
    }

    /// Mends the roads, and what was on its way arrives.
    pub fn heal(&self) {
        self.roads.iter().for_each(Proxy::heal);
    }

    /// Which of the servers leads; `None` while there is no leader, or it does not answer.
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
            assert!(started.elapsed() < crate::server::PATIENCE, "no election");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
