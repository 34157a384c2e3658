//! [`Breach`]: a rule that a store breaks. Everything else is as in the store in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

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
        all.across_processes(true)
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
}
