//! Shares as locks: one permit of one, and writing, behave as a mutex. So every requirement on locks applies to them.

use std::sync::Arc;

use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName, Part};
use crate::clock::{BoxFuture, Clock};
use crate::conformance::StoreUnderTest;
use crate::error::Result;
use crate::locker::DEFAULT_STORE_TIMEOUT;
use crate::shares::Shares;

impl StoreUnderTest {
    /// Returns a store whose locks are shares in the records of this store: whoever asks for a lock gets this part, which must be one that
    /// nobody else can have a part beside, such as [`Part::Write`]. Returns `None` if the store keeps no records.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fencepost::backend::Part;
    /// use fencepost::conformance::StoreUnderTest;
    /// use fencepost::stores::memory::Memory;
    ///
    /// let store = StoreUnderTest::new(Arc::new(Memory::new()));
    /// assert!(store.with_locks_as(Part::Permits { count: 1, of: 1 }).is_some());
    /// ```
    pub fn with_locks_as(&self, part: Part) -> Option<Self> {
        let shared = |inner: &Arc<dyn Backend>| -> Option<Arc<dyn Backend>> {
            let shares = Shares::new(inner.clone(), DEFAULT_STORE_TIMEOUT);
            shares.check_supported().ok()?;
            Some(Arc::new(AsLock { shares, part }))
        };
        let one = shared(&self.one)?;
        // A store with one connection has one here, too.
        let other = if Arc::ptr_eq(&self.one, &self.other) {
            one.clone()
        } else {
            shared(&self.other)?
        };
        Some(Self { one, other })
    }
}

/// A backend that takes this part of a name for a claim of the whole.
#[derive(Debug)]
struct AsLock {
    shares: Shares,
    part: Part,
}

impl AsLock {
    fn part_of(&self, claim: &Claim) -> Claim {
        claim.clone().with_part(self.part)
    }
}

impl Backend for AsLock {
    fn store_name(&self) -> &'static str {
        self.shares.store_name()
    }

    fn capabilities(&self) -> Capabilities {
        self.shares.capabilities()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.shares.clock()
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move { self.shares.try_acquire(&self.part_of(claim)).await })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move { self.shares.acquire(&self.part_of(claim), wait).await })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        self.shares.renew(claims)
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        self.shares.release(claim)
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        self.shares.inspect(name)
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.shares.list(pattern)
    }
}
