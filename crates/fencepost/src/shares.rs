//! `Shares`: the backend of semaphores and read-write locks, on top of the records of another backend.
//!
//! A semaphore and a read-write lock are one idea: a name has a capacity, of which each holder has a share. The [`machine`] decides who has
//! which share, and this module carries that out: it reads the record of the name, lets the machine decide at the time of the store, and
//! replaces the record. If somebody else was faster, it reads again. `docs/decisions/0019-kinds-of-lock-are-records.md` says why.
//!
//! **The fence.** Epochs are counted in the record, one counter per name. The store names a floor for them, so that they keep growing even
//! if it has lost the record.
//!
//! **Waiting.** A waiter stands in the record. Whoever frees room calls the waiters who fit now, in the same replacement, and the store
//! tells them that the record has changed. That is a hint which may be lost, so a waiter also looks when the next lease or turn ends, and
//! every `LONGEST_NAP` anyway.
//!
//! **What can go wrong.** A replacement whose answer was lost may take effect later, as long as nobody else replaces the record. Therefore a
//! release replaces the record even if its owner has nothing in it, unless all requests of that owner were answered.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::{BoxFuture, Clock};
use crate::error::{Operation, Result};

mod failure;
#[cfg_attr(
    not(feature = "unstable-hooks"),
    allow(
        unreachable_pub,
        reason = "the models search the states of the machine"
    )
)]
pub mod machine;
mod owners;
mod records;
mod requests;
mod view;
mod waiting;

use machine::Slots;
use owners::Owners;

/// Semaphores and read-write locks in the records of a store.
#[cfg_attr(
    not(feature = "unstable-hooks"),
    allow(unreachable_pub, reason = "our own programs look at them")
)]
pub struct Shares {
    inner: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    owners: Owners,
    /// How long a locker waits for the store. Names that are renewed in one call must not wait longer for each other.
    store_timeout: Duration,
}

impl Shares {
    /// Uses the records of `inner`, for a locker with this store timeout.
    #[cfg_attr(
        not(feature = "unstable-hooks"),
        allow(unreachable_pub, reason = "our own programs look at them")
    )]
    pub fn new(inner: Arc<dyn Backend>, store_timeout: Duration) -> Self {
        Self {
            store_timeout,
            clock: inner.clock(),
            owners: Owners::default(),
            inner,
        }
    }

    /// Returns the numbers of the permits that were granted to this owner here, or `None` if they have been released.
    pub(crate) fn slots_of(&self, owner: OwnerId) -> Option<Slots> {
        self.owners.slots_of(owner)
    }

    /// Checks that the store keeps records.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if it does not.
    pub(crate) fn check_supported(&self) -> Result<()> {
        self.records(Operation::Acquire).map(drop)
    }

    /// Returns the records of the store.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if it keeps none.
    fn records(&self, operation: Operation) -> Result<&dyn Records> {
        let records = self.inner.records();
        records.ok_or_else(|| failure::no_records(self.store_name(), operation))
    }
}

impl Backend for Shares {
    fn store_name(&self) -> &'static str {
        self.inner.store_name()
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        let own = Capabilities::new().fifo(true).leases(true);
        own.across_processes(inner.across_processes)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(self.try_claim(claim))
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(self.wait_for(claim, wait))
    }

    fn max_outage(&self) -> Duration {
        self.inner.max_outage()
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.renew_all(claims))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.give_back(claim))
    }

    /// What ends locks early ends shares, too: a server that has forgotten everything. The answer to a renewal decides.
    fn loss_bell(&self) -> Option<&LossBell> {
        self.inner.loss_bell()
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(self.show(name))
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(self.show_all(pattern))
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("store", &self.inner)
            .finish_non_exhaustive()
    }
}
