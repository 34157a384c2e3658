//! Children of the Redlock tests.

use std::sync::Arc;

use fencepost::resource::RedisRegister;
use fencepost::stores::redis::Redis;
use fencepost::stores::redlock::Redlock;
use fencepost::{Guard, Locker};
use fencepost_store_tests::actor::{NoVerb, Opener, Wrote};
use serde::{Deserialize, Serialize};

use crate::support::open;

/// The addresses of the servers, and the one that has a fenced number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) servers: String,
    pub(crate) register: String,
}

impl Opener for At {
    type Store = Redlock;
    type Verb = NoVerb;

    async fn open(&self) -> Arc<Redlock> {
        open(&self.servers).await
    }

    async fn write(&self, _: &Arc<Redlock>, guard: &Guard) -> Wrote {
        let register = Redis::open(&self.register).await.unwrap();
        let register = RedisRegister::new(&register, "count");
        register.write(guard.credential(), "late").await.into()
    }

    async fn perform(&self, verb: &NoVerb, _: &Arc<Redlock>, _: &Locker) {
        match *verb {}
    }
}
