//! Breaches in what is granted, to whom, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost::backend::{Release, Renewal, Wait};
use fencepost::clock::BoxFuture;
use fencepost::stores::memory::Memory;
use fencepost::{Backend, Claim, Grant, Result};

use crate::breach::{Answer, Breach, Store};

/// Changes every grant.
#[derive(Debug)]
pub(crate) struct Granting(pub(crate) fn(Grant) -> Grant);

impl Breach for Granting {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move { Ok(store.try_acquire(claim).await?.map(self.0)) })
    }

    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(async move { Ok((self.0)(store.acquire(claim, wait).await?)) })
    }
}

/// Acquires and releases something else than what it was asked for, and reports what it was asked for.
#[derive(Debug)]
pub(crate) struct Claiming(pub(crate) fn(Claim) -> Claim);

impl Breach for Claiming {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move {
            let grant = store.try_acquire(&(self.0)(claim.clone())).await?;
            Ok(grant.map(|grant| Grant::new(grant.epoch, grant.asked_at, claim.ttl)))
        })
    }

    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(async move {
            let grant = store.acquire(&(self.0)(claim.clone()), wait).await?;
            Ok(Grant::new(grant.epoch, grant.asked_at, claim.ttl))
        })
    }

    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async move { store.release(&(self.0)(claim.clone())).await })
    }
}

/// Grants every request, with growing epochs.
#[derive(Debug, Default)]
pub(crate) struct GrantsToEverybody(AtomicU64);

impl GrantsToEverybody {
    fn grant(&self, store: &Store, claim: &Claim) -> Grant {
        let epoch = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Grant::new(epoch, store.clock().now(), claim.ttl)
    }
}

impl Breach for GrantsToEverybody {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move { Ok(Some(self.grant(store, claim))) })
    }

    fn acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim, _: &'a Wait) -> Answer<'a, Grant> {
        Box::pin(async move { Ok(self.grant(store, claim)) })
    }

    fn renew<'a>(
        &'a self,
        _: &'a Store,
        claims: &'a [Claim],
    ) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move { claims.iter().map(|_| Ok(Renewal::Extended)).collect() })
    }

    fn release<'a>(&'a self, _: &'a Store, _: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async { Ok(Release::Freed) })
    }
}

/// Keeps the locks of each connection apart.
#[derive(Debug)]
pub(crate) struct StorePerConnection;

impl Breach for StorePerConnection {
    fn other_store(&self, _: &Store) -> Store {
        Arc::new(Memory::new())
    }
}

/// Gives an owner that asks again a new lease.
#[derive(Debug)]
pub(crate) struct NewLeaseWhenAskedAgain;

impl Breach for NewLeaseWhenAskedAgain {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move {
            store.release(claim).await?;
            store.try_acquire(claim).await
        })
    }
}

/// Grants an owner that asks again what it has already, and leaves its end as it was.
#[derive(Debug)]
pub(crate) struct AskingAgainExtendsNothing;

impl Breach for AskingAgainExtendsNothing {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move {
            let record = store.inspect(&claim.name).await?;
            let holder = record.and_then(|record| record.holder);
            let own = holder.filter(|holder| holder.owner == Some(claim.owner));
            match own.and_then(|holder| holder.epoch) {
                Some(epoch) => Ok(Some(Grant::new(epoch, store.clock().now(), claim.ttl))),
                None => store.try_acquire(claim).await,
            }
        })
    }
}
