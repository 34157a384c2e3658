//! An etcd cluster whose leader dies again and again. Whoever died is back, with its data, before the next one dies: a majority always lives.

use std::time::Instant;

use fencepost::stores::kinds::ETCD;
use fencepost_rig::{Etcd, EtcdCluster};

use super::{SEVERAL, Seen, Servers, THREE, Watched, now, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;

/// How soon the others notice that a leader is gone. A lease must outlast several elections.
const ELECTION: [&str; 2] = ["--heartbeat-interval=50", "--election-timeout=500"];

/// Three servers. Clients know the addresses of all three.
pub(super) struct Leaders {
    cluster: EtcdCluster,
    dead: Option<usize>,
}

impl Leaders {
    /// Starts the servers and waits until they serve clients.
    pub(super) fn start() -> Result<Self, Failure> {
        let cluster = Etcd::builder().arguments(ELECTION).start_cluster(SEVERAL);
        Ok(Self {
            cluster: cluster.map_err(Failure::definite)?,
            dead: None,
        })
    }

    fn leader(&self) -> Result<usize, Failure> {
        let dead = self.dead.unwrap_or(SEVERAL);
        let leader = self.cluster.leader_other_than(dead);
        leader.ok_or_else(|| Failure::definite("etcd elects no leader"))
    }
}

impl Servers for Leaders {
    fn store(&self) -> TrialStore {
        TrialStore::private(&ETCD).at(self.cluster.url())
    }

    fn kill(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let leader = self.leader()?;
        // Taken before the kill: from here on it answers nobody.
        let at = Instant::now();
        let member = self.cluster.member(leader);
        member.crash();
        if !member.has_ended() {
            return Err(Failure::definite("the leader did not die"));
        }
        self.dead = Some(leader);
        Ok(vec![seen(at, THREE[leader], Change::Killed)])
    }

    /// Waits until the others have elected a leader, and then starts the dead one again.
    fn serve_again(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let elected = now(THREE[self.leader()?], Change::Elected);
        let Some(dead) = self.dead.take() else {
            return Ok(vec![elected]);
        };
        let at = Instant::now();
        let restarted = self.cluster.member(dead).restart();
        restarted.map_err(Failure::definite)?;
        Ok(vec![elected, seen(at, THREE[dead], Change::Restarted)])
    }
}
