//! Breaches in renewals.

use std::collections::HashSet;
use std::sync::Mutex;

use fencepost::backend::Renewal;
use fencepost::clock::BoxFuture;
use fencepost::{Backend, Claim, Operation, OwnerId, Result};

use crate::breach::{Breach, Store, failed, lock};

type Answers<'a> = BoxFuture<'a, Vec<Result<Renewal>>>;

/// Cannot renew.
#[derive(Debug)]
pub(crate) struct RenewalsFail;

impl Breach for RenewalsFail {
    fn renew<'a>(&'a self, _: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        let failed = |_| Err(failed(Operation::Renew));
        Box::pin(async move { claims.iter().map(failed).collect() })
    }
}

/// Renews nothing, and says that it did.
#[derive(Debug)]
pub(crate) struct RenewalDoesNothing;

impl Breach for RenewalDoesNothing {
    fn renew<'a>(&'a self, _: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        Box::pin(async move { claims.iter().map(|_| Ok(Renewal::Extended)).collect() })
    }
}

/// Ends a lease at the TTL of the claim, even if it would last longer.
#[derive(Debug)]
pub(crate) struct RenewalShortens;

impl Breach for RenewalShortens {
    fn renew<'a>(&'a self, store: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        Box::pin(async move {
            for claim in claims {
                store.release(claim).await.expect("an answer");
                store.try_acquire(claim).await.expect("an answer");
            }
            store.renew(claims).await
        })
    }
}

/// Gives the lock back to an owner that has lost it, if it is free.
#[derive(Debug)]
pub(crate) struct RenewalRevives;

impl Breach for RenewalRevives {
    fn renew<'a>(&'a self, store: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        Box::pin(async move {
            for claim in claims {
                store.try_acquire(claim).await.expect("an answer");
            }
            store.renew(claims).await
        })
    }
}

/// Says that a lease was extended if anybody has the lock.
#[derive(Debug)]
pub(crate) struct RenewalIgnoresTheOwner;

impl Breach for RenewalIgnoresTheOwner {
    fn renew<'a>(&'a self, store: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for claim in claims {
                let record = store.inspect(&claim.name).await;
                answers.push(record.map(|record| {
                    if record.is_some_and(|record| record.holder.is_some()) {
                        Renewal::Extended
                    } else {
                        Renewal::Lost
                    }
                }));
            }
            answers
        })
    }
}

/// Answers the last claim first.
#[derive(Debug)]
pub(crate) struct AnswersBackwards;

impl Breach for AnswersBackwards {
    fn renew<'a>(&'a self, store: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        Box::pin(async move {
            let mut answers = store.renew(claims).await;
            answers.reverse();
            answers
        })
    }
}

/// Takes the second of two renewals at the same time for one of a lost lease.
#[derive(Debug, Default)]
pub(crate) struct OneRenewalAtATime(Mutex<HashSet<OwnerId>>);

impl Breach for OneRenewalAtATime {
    fn renew<'a>(&'a self, store: &'a Store, claims: &'a [Claim]) -> Answers<'a> {
        Box::pin(async move {
            let owners = || claims.iter().map(|claim| claim.owner);
            let is_alone = owners().all(|owner| lock(&self.0).insert(owner));
            if !is_alone {
                return claims.iter().map(|_| Ok(Renewal::Lost)).collect();
            }
            tokio::task::yield_now().await;
            let answers = store.renew(claims).await;
            let mut under_way = lock(&self.0);
            for owner in owners() {
                under_way.remove(&owner);
            }
            answers
        })
    }
}
