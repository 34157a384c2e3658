//! A private etcd cluster.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Etcd, etcdctl};
use crate::server::{START_TIMEOUT, ServerError};

/// A private etcd cluster, whose members can be killed, stopped and restarted one by one.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Etcd>,
}

impl EtcdCluster {
    /// Starts this many servers and waits until all are ready.
    ///
    /// # Errors
    /// Returns the same errors as [`Etcd::start`].
    pub fn start(members: usize) -> Result<Self, ServerError> {
        Etcd::builder().start_cluster(members)
    }

    pub(super) fn of(members: Vec<Etcd>) -> Self {
        Self { members }
    }

    /// Returns the servers of the cluster.
    pub fn members(&self) -> &[Etcd] {
        &self.members
    }

    /// Returns one server, to kill or restart it.
    pub fn member(&mut self, number: usize) -> &mut Etcd {
        &mut self.members[number]
    }

    /// Waits until a server claims to lead, and returns its index. `None` if no server did within half a minute.
    pub fn leader(&self) -> Option<usize> {
        self.leader_other_than(usize::MAX)
    }

    /// Like [`leader`](Self::leader), but ignores `old`: a server that is stopped or cut off takes a while to notice that it no longer
    /// leads.
    pub fn leader_other_than(&self, old: usize) -> Option<usize> {
        let deadline = Instant::now() + START_TIMEOUT;
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

    /// Returns the address for our store: `etcd://HOST:PORT,HOST:PORT,…`.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// Returns the client addresses of the servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Etcd::address).collect()
    }

    /// Returns an `etcdctl` command with the addresses of all servers.
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
