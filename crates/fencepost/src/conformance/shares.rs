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

use super::{
    LONG, NO_RECORDS, NO_SHARES, Requirement, StoreUnderTest, eventually, fresh_name, soon, table,
};
use crate::backend::{Backend, Record};
use crate::claim::LockName;
use crate::error::{ErrorKind, Result};
use crate::kinds::{Permit, RwLock, Semaphore};
use crate::locker::{Locker, LockerBuilder};

table! {
    a_store_without_records_has_no_semaphores: NO_RECORDS,
    a_store_without_a_time_has_no_semaphores: NO_SHARES,
}

async fn a_store_without_records_has_no_semaphores(store: StoreUnderTest) {
    let locker = Locker::new(store.one);
    let errors = [
        locker.semaphore(fresh_name("none"), 1).map(drop),
        locker.rw_lock(fresh_name("none")).map(drop),
    ];
    for answer in errors {
        let error = answer.expect_err("the store keeps no records");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

async fn a_store_without_a_time_has_no_semaphores(store: StoreUnderTest) {
    let locker = Locker::new(store.one);
    let semaphore = locker.semaphore(fresh_name("no-time"), 1);
    let semaphore = semaphore.expect("a store with records");
    let lock = locker.rw_lock(fresh_name("no-time"));
    let lock = lock.expect("a store with records");
    let errors = [
        semaphore.permits().await.map(drop),
        semaphore.try_acquire(1).await.map(drop),
        lock.write().await.map(drop),
    ];
    for answer in errors {
        let error = answer.expect_err("leases cannot be counted");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

pub(super) fn requirements() -> impl Iterator<Item = &'static Requirement> {
    [
        REQUIREMENTS,
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
    fn new(store: &StoreUnderTest, what: &str) -> Self {
        Self::with(store, what, |settings| settings.ttl(LONG))
    }

    fn with(
        store: &StoreUnderTest,
        what: &str,
        set: impl Fn(LockerBuilder) -> LockerBuilder,
    ) -> Self {
        let name = fresh_name(what);
        let locker = |backend: &Arc<dyn Backend>| {
            let locker = set(Locker::builder(backend.clone())).build();
            locker.expect("valid settings")
        };
        let (one, other) = (locker(&store.one), locker(&store.other));
        Self { name, one, other }
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
