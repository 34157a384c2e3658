//! An etcd cluster that loses its leader but nothing that a majority had written.

use std::time::Instant;

use fencepost::stores::kinds::ETCD;
use fencepost_rig::EtcdCluster;

use super::{LEADER, SEVERAL, Seen, Servers, Watched, now, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;

const NEW_LEADER: &str = "new leader";

/// Three servers. Clients know the addresses of all three.
pub(super) struct Members {
    cluster: EtcdCluster,
    dead: usize,
}

impl Members {
    /// Starts the servers and waits until they serve clients.
    pub(super) fn start() -> Result<Self, Failure> {
        let cluster = EtcdCluster::start(SEVERAL).map_err(Failure::definite)?;
        // No member is dead yet; this index is out of range.
        let dead = SEVERAL;
        Ok(Self { cluster, dead })
    }

    fn leader(&self) -> Result<usize, Failure> {
        let leader = self.cluster.leader_other_than(self.dead);
        leader.ok_or_else(|| Failure::definite("etcd elects no leader"))
    }
}

impl Servers for Members {
    fn store(&self) -> TrialStore {
        TrialStore::private(&ETCD).at(self.cluster.url())
    }

    fn kill(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        self.dead = self.leader()?;
        let at = Instant::now();
        let member = self.cluster.member(self.dead);
        member.crash();
        if member.has_ended() {
            Ok(vec![seen(at, LEADER, Change::Killed)])
        } else {
            Err(Failure::definite("the leader did not die"))
        }
    }

    fn serve_again(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        self.leader()?;
        Ok(vec![now(NEW_LEADER, Change::Elected)])
    }
}
