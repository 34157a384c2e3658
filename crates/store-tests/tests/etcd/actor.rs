//! Children of the etcd tests, including counters.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::etcd::Etcd;
use fencepost::stores::etcd::client::TxnOp;
use fencepost::{Guard, Locker};
use fencepost_store_tests::actor::{self, Opener, Wrote};
use serde::{Deserialize, Serialize};

use crate::support::{NAME, locker, open, released};

pub(crate) type Part = actor::Part<At>;
pub(crate) type Task = actor::Task<Count>;

/// The address of a server. The lock protects the key `written` there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At(pub(crate) String);

/// Adds one to the number in a file this many times, under the lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) file: String,
    pub(crate) turns: u64,
}

impl Opener for At {
    type Store = Etcd;
    type Verb = Count;

    async fn open(&self) -> Arc<Etcd> {
        open(&self.0).await
    }

    fn locker(store: &Arc<Etcd>, ttl: Duration) -> Locker {
        locker(store, ttl)
    }

    async fn write(&self, store: &Arc<Etcd>, guard: &Guard) -> Wrote {
        let late = [TxnOp::put("written", "late", None)];
        match store
            .write_while_held(guard.name(), guard.credential(), late)
            .await
        {
            Ok(_) => Wrote::Through,
            Err(_) => Wrote::Refused,
        }
    }

    async fn perform(&self, count: &Count, _: &Arc<Etcd>, locker: &Locker) {
        for _ in 0..count.turns {
            let guard = locker.acquire(NAME).await.unwrap();
            add_one(&count.file);
            released(guard).await;
        }
        locker.shutdown().await;
    }
}

/// Reads, waits a moment, and writes. An update in between is lost.
fn add_one(file: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let number: u64 = text.trim().parse().unwrap();
    std::thread::yield_now();
    std::fs::write(file, format!("{}\n", number + 1)).unwrap();
}
