//! Children of the ZooKeeper tests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencepost::resource::SqliteRegister;
use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Guard, Locker};
use fencepost_store_tests::actor::{NoVerb, Opener, Wrote};
use serde::{Deserialize, Serialize};

use crate::support::open;

/// A server, its session timeout, and a file with a fenced number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) address: SocketAddr,
    pub(crate) session: Duration,
    pub(crate) register: PathBuf,
}

impl Opener for At {
    type Store = Zookeeper;
    type Verb = NoVerb;

    async fn open(&self) -> Arc<Zookeeper> {
        open(self.address, self.session).await
    }

    async fn write(&self, _: &Arc<Zookeeper>, guard: &Guard) -> Wrote {
        let register = SqliteRegister::open(&self.register, "count", &0_i64).unwrap();
        register
            .update(guard.credential(), |number| number + 1)
            .into()
    }

    async fn perform(&self, verb: &NoVerb, _: &Arc<Zookeeper>, _: &Locker) {
        match *verb {}
    }
}
