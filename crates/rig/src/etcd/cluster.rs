//! Several etcd servers that elect a leader.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Etcd, etcdctl};
use crate::server::{PATIENCE, ServerError};

/// A cluster of our own. Its members can be crashed, stopped and started anew one by one.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Etcd>,
}

impl EtcdCluster {
    /// Starts so many servers and waits until all of them serve.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub fn start(members: usize) -> Result<Self, ServerError> {
        Etcd::builder().start_cluster(members)
    }

    pub(super) fn of(members: Vec<Etcd>) -> Self {
        Self { members }
    }

    /// Its servers.
    pub fn members(&self) -> &[Etcd] {
        &self.members
    }

    /// One of them, to crash it or to start it anew.
    pub fn member(&mut self, number: usize) -> &mut Etcd {
        &mut self.members[number]
    }

    /// Which one leads, by its own account; waits until one does. `None`: none did within half a minute.
    pub fn leader(&self) -> Option<usize> {
        self.leader_other_than(usize::MAX)
    }

    /// The same when `old` does not count: a server that is stopped or cut off takes a while to notice that it leads no more.
    pub fn leader_other_than(&self, old: usize) -> Option<usize> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut members = self.members.iter().enumerate();
            let leads = |(number, member): (usize, &Etcd)| {
                (number != old && member.is_leader()).then_some(number)
            };
            if let Some(number) = members.find_map(leads) {
                return Some(number);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// How our store names it: `etcd://HOST:PORT,HOST:PORT,…`.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// Where its servers listen for clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Etcd::address).collect()
    }

    /// etcd's own client, told of all servers.
    pub fn etcdctl(&self) -> Command {
        etcdctl(&self.addresses())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_one_leads_when_the_leader_is_gone() {
        let mut cluster = EtcdCluster::start(3).unwrap();
        let first = cluster.leader().unwrap();
        cluster.member(first).crash();
        let second = cluster.leader().unwrap();
        assert_ne!(first, second);
        cluster.member(first).restart().unwrap();
        assert!(!cluster.members()[first].is_leader());
    }
}
