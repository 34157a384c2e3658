//! Breaches in releases.

use fencepost::backend::Release;
use fencepost::{Backend, Claim, Grant, OwnerId, Result};

use crate::breach::{Answer, Breach, Store};
use crate::changes::for_a_thousand_ttls;
use crate::grants::Claiming;

/// Returns the owner that holds the lock of this claim.
async fn holder(store: &Store, claim: &Claim) -> Result<Option<OwnerId>> {
    let record = store.inspect(&claim.name).await?;
    let holder = record.and_then(|record| record.holder);
    Ok(holder.and_then(|holder| holder.owner))
}

/// Releases nothing, and says that it did.
#[derive(Debug)]
pub(crate) struct ReleaseDoesNothing;

impl Breach for ReleaseDoesNothing {
    fn release<'a>(&'a self, _: &'a Store, _: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async { Ok(Release::Freed) })
    }
}

/// Keeps what it has granted for ever: no release and hardly any time ends it.
#[derive(Debug)]
pub(crate) struct KeepsForEver;

impl Breach for KeepsForEver {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Claiming(for_a_thousand_ttls).try_acquire(store, claim)
    }

    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        ReleaseDoesNothing.release(store, claim)
    }
}

/// Says that every release has ended a lease.
#[derive(Debug)]
pub(crate) struct ReleaseSaysFreed;

impl Breach for ReleaseSaysFreed {
    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async move { store.release(claim).await.map(|_| Release::Freed) })
    }
}

/// Ends the lease of whoever has the lock.
#[derive(Debug)]
pub(crate) struct ReleaseIgnoresTheOwner;

impl Breach for ReleaseIgnoresTheOwner {
    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async move {
            let mut claim = claim.clone();
            claim.owner = holder(store, &claim).await?.unwrap_or(claim.owner);
            store.release(&claim).await
        })
    }
}

/// Ends leases, but leaves an owner that only waits in the line.
#[derive(Debug)]
pub(crate) struct ReleaseLeavesTheWaiter;

impl Breach for ReleaseLeavesTheWaiter {
    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async move {
            match holder(store, claim).await? {
                Some(owner) if owner == claim.owner => store.release(claim).await,
                _ => Ok(Release::NotHeld),
            }
        })
    }
}
