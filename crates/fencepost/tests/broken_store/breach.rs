//! [`Breach`]: a rule that a store breaks. Everything else is as in the store in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use fencepost::backend::{Capabilities, Listed, Record, Release, Renewal, Wait};
use fencepost::clock::BoxFuture;
use fencepost::conformance::StoreUnderTest;
use fencepost::stores::memory::Memory;
use fencepost::{Backend, Claim, Error, ErrorKind, Grant, LockName, Operation, Result};

pub(crate) type Store = Arc<Memory>;
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T>>;

/// How a store breaks the contract of a backend. What a breach does not define, the store in memory does.
pub(crate) trait Breach: fmt::Debug + Send + Sync + 'static {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        store.try_acquire(claim)
    }

    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        store.acquire(claim, wait)
    }

    fn renew<'a>(
        &'a self,
        store: &'a Store,
        claims: &'a [Claim],
    ) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        store.renew(claims)
    }

    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        store.release(claim)
    }

    fn inspect<'a>(&'a self, store: &'a Store, name: &'a LockName) -> Answer<'a, Option<Record>> {
        store.inspect(name)
    }

    fn list<'a>(&'a self, store: &'a Store, pattern: Option<&'a str>) -> Answer<'a, Vec<Listed>> {
        store.list(pattern)
    }

    fn has_records(&self) -> bool {
        true
    }

    fn read_record<'a>(&'a self, store: &'a Store, key: &'a RecordKey) -> Answer<'a, Snapshot> {
        kept(store).read(key)
    }

    fn replace_record<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
    ) -> Answer<'a, Replaced> {
        kept(store).replace(key, seen, value, Duration::MAX)
    }

    fn record_changed<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
    ) -> BoxFuture<'a, ()> {
        kept(store).changed(key, seen)
    }

    fn record_names<'a>(&'a self, store: &'a Store, kind: RecordKind) -> Answer<'a, Vec<LockName>> {
        kept(store).names(kind)
    }

    /// Returns the store behind the second connection.
    fn other_store(&self, store: &Store) -> Store {
        store.clone()
    }
}

/// A store that breaks nothing.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Breach for Nothing {}

/// A connection to the store in memory, with a breach. It promises everything that a store can promise.
#[derive(Debug)]
struct Broken {
    store: Store,
    breach: Arc<dyn Breach>,
}

/// Returns a store with this breach, with two connections to it.
pub(crate) fn store_with(breach: Arc<dyn Breach>) -> StoreUnderTest {
    let one = Arc::new(Memory::new());
    let other = breach.other_store(&one);
    let connect = |store| {
        let breach = breach.clone();
        Arc::new(Broken { store, breach })
    };
    StoreUnderTest::with_two_connections(connect(one), connect(other))
}

/// Returns the records of the store in memory.
pub(crate) fn kept(store: &Store) -> &dyn Records {
    store.records().expect("the store in memory has records")
}

/// Locks what a breach remembers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("not poisoned")
}

/// Returns an error of the broken store that does not go away.
pub(crate) fn failed(operation: Operation) -> Error {
    Error::new(ErrorKind::Unusable, "broken", operation, "broken")
}

impl Backend for Broken {
    fn store_name(&self) -> &'static str {
        "broken"
    }
    fn capabilities(&self) -> Capabilities {
        let all = Capabilities::new().fifo(true).leases(true);
        all.across_processes(true).records(true).lasting(true)
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        self.breach.try_acquire(&self.store, claim)
    }
    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> Answer<'a, Grant> {
        self.breach.acquire(&self.store, claim, wait)
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        self.breach.renew(&self.store, claims)
    }
    fn release<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Release> {
        self.breach.release(&self.store, claim)
    }
    fn inspect<'a>(&'a self, name: &'a LockName) -> Answer<'a, Option<Record>> {
        self.breach.inspect(&self.store, name)
    }
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> Answer<'a, Vec<Listed>> {
        self.breach.list(&self.store, pattern)
    }
    fn records(&self) -> Option<&dyn Records> {
        self.breach.has_records().then_some(self)
    }
}

impl Records for Broken {
    fn read<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Snapshot> {
        self.breach.read_record(&self.store, key)
    }
    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        _: Duration,
    ) -> Answer<'a, Replaced> {
        self.breach.replace_record(&self.store, key, seen, value)
    }
    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        self.breach.record_changed(&self.store, key, seen)
    }
    fn names<'a>(&'a self, kind: RecordKind) -> Answer<'a, Vec<LockName>> {
        self.breach.record_names(&self.store, kind)
    }
}
