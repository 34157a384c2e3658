//! An etcd server all of whose keys are deleted. Its leases live on.

use fencepost::stores::kinds::ETCD;
use fencepost_rig::Etcd;

use super::{Keeper, Watched};
use crate::protocol::Failure;
use crate::store::TrialStore;

/// One server, because nothing happens to it.
pub(super) struct Emptied(Etcd);

impl Emptied {
    pub(super) fn start() -> Result<Self, Failure> {
        Etcd::start().map(Self).map_err(Failure::definite)
    }
}

impl Keeper for Emptied {
    fn store(&self) -> TrialStore {
        TrialStore::private(&ETCD).at(self.0.url())
    }

    fn take_away(&self, _: &Watched<'_>) -> Result<bool, Failure> {
        let deleted = self.0.etcdctl().args(["del", "", "--prefix"]).output();
        let deleted = deleted.map_err(Failure::definite)?;
        if !deleted.status.success() {
            let said = String::from_utf8_lossy(&deleted.stderr);
            return Err(Failure::definite(format!("etcdctl del: {said}")));
        }
        let keys = String::from_utf8_lossy(&deleted.stdout);
        Ok(keys.trim().parse::<u64>().is_ok_and(|keys| keys > 0))
    }
}
