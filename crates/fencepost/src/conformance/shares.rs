//! Requirements on semaphores and read-write locks, which are kept in the records of a store.
//!
//! A store without records, or without a clock that its clients can ask, must say so. Everything else is written once, on top of the
//! records, so a store that fails here usually breaks the contract of [`Records`](crate::backend::records::Records).

mod abandoned;
mod as_lock;
mod rw_locks;
mod semaphores;
mod weights;

use std::sync::Arc;
use std::time::Duration;

use super::{LONG, Requirement, StoreUnderTest, eventually, fresh_name, soon};
use crate::backend::{Backend, Record};
use crate::claim::LockName;
use crate::error::{ErrorKind, Result};
use crate::kinds::{Permit, RwLock, Semaphore};
use crate::locker::{Locker, LockerBuilder};

pub(super) fn requirements() -> impl Iterator<Item = &'static Requirement> {
    [
        semaphores::REQUIREMENTS,
        weights::REQUIREMENTS,
        rw_locks::REQUIREMENTS,
        abandoned::REQUIREMENTS,
    ]
    .into_iter()
    .flatten()
}

/// A name, and a locker on each connection.
struct Stage {
    name: LockName,
    one: Locker,
    other: Locker,
}

impl Stage {
    /// Returns `None` if the store has no clock that its clients can ask; it must say so then.
    async fn new(store: &StoreUnderTest, what: &str) -> Option<Self> {
        Self::with(store, what, |settings| settings.ttl(LONG)).await
    }

    async fn with(
        store: &StoreUnderTest,
        what: &str,
        set: impl Fn(LockerBuilder) -> LockerBuilder,
    ) -> Option<Self> {
        let name = fresh_name(what);
        let locker = |backend: &Arc<dyn Backend>| {
            let locker = set(Locker::builder(backend.clone())).build();
            locker.expect("valid settings")
        };
        let (one, other) = (locker(&store.one), locker(&store.other));
        let probe = one.semaphore(format!("{name}:probe"), 1).expect("records");
        match probe.permits().await {
            Ok(_) => Some(Self { name, one, other }),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                None
            }
        }
    }

    /// Returns the semaphore of this name on each connection.
    fn semaphores(&self, permits: u32) -> [Semaphore; 2] {
        [&self.one, &self.other].map(|locker| {
            let semaphore = locker.semaphore(&self.name, permits);
            semaphore.expect("a store with records")
        })
    }

    /// Returns the read-write lock of this name on each connection.
    fn rw_locks(&self) -> [RwLock; 2] {
        [&self.one, &self.other].map(|locker| {
            let lock = locker.rw_lock(&self.name);
            lock.expect("a store with records")
        })
    }

    /// Returns what the store shows of this name.
    async fn record(&self) -> Option<Record> {
        let (_, shares) = self.other.shares().expect("records");
        shares.inspect(&self.name).await.expect("an answer")
    }

    async fn until_waiting(&self, count: usize) {
        eventually("they stand in line", || async {
            let record = self.record().await;
            record.is_some_and(|record| record.waiting.len() == count)
        })
        .await;
    }

    async fn until_nothing_is_left(&self) {
        eventually("nothing is left", || async {
            self.record().await.is_none()
        })
        .await;
    }
}

/// Takes permits that must be free, or become free soon.
async fn take(semaphore: &Semaphore, count: u32) -> Permit {
    let permit = soon("permits", semaphore.acquire(count)).await;
    permit.expect("an answer")
}

/// Returns the answer to an attempt.
fn got<T>(tried: Result<Option<T>>) -> Option<T> {
    tried.expect("an answer")
}

/// A wait that is too short for anything to be granted, and long enough for a wrong grant to arrive.
const NOT_LONG: Duration = Duration::from_millis(100);
