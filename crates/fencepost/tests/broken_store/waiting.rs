//! Breaches in waiting, and in what becomes of those who stop waiting.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use fencepost::backend::{Record, Release, Wait, Waiter};
use fencepost::{Backend, Claim, Grant, LockName, Operation, OwnerId, Result};

use crate::breach::{Answer, Breach, Store, failed, lock};

/// Tells those who find the lock free that they wait.
#[derive(Debug)]
pub(crate) struct AlwaysReportsBusy;

impl Breach for AlwaysReportsBusy {
    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        wait.report_busy();
        store.acquire(claim, wait)
    }
}

/// Does not tell those who wait that they wait.
#[derive(Debug)]
pub(crate) struct NeverReportsBusy;

impl Breach for NeverReportsBusy {
    fn acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim, _: &'a Wait) -> Answer<'a, Grant> {
        Box::pin(async move { store.acquire(claim, &Wait::default()).await })
    }
}

/// Answers that the lock is busy with an error.
#[derive(Debug)]
pub(crate) struct BusyIsAnError;

impl Breach for BusyIsAnError {
    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(async move {
            let grant = store.try_acquire(claim).await?;
            grant.ok_or_else(|| {
                wait.report_busy();
                failed(Operation::Acquire)
            })
        })
    }
}

/// Puts waiters in line, and never wakes them.
#[derive(Debug)]
pub(crate) struct WakesNobody;

impl Breach for WakesNobody {
    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(async move {
            let mut waiting = store.acquire(claim, wait);
            match futures_util::poll!(&mut waiting) {
                Poll::Ready(grant) => grant,
                Poll::Pending => pending().await,
            }
        })
    }
}

/// Serves the last of those who wait first.
#[derive(Debug, Default)]
pub(crate) struct NewestFirst(Mutex<Vec<Claim>>);

impl NewestFirst {
    fn leave(&self, owner: OwnerId) {
        lock(&self.0).retain(|claim| claim.owner != owner);
    }

    fn is_newest(&self, claim: &Claim) -> bool {
        let line = lock(&self.0);
        let newest = line.iter().rfind(|other| other.name == claim.name);
        newest.is_some_and(|newest| newest.owner == claim.owner)
    }
}

impl Breach for NewestFirst {
    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(async move {
            self.leave(claim.owner);
            lock(&self.0).push(claim.clone());
            loop {
                if self.is_newest(claim)
                    && let Some(grant) = store.try_acquire(claim).await?
                {
                    self.leave(claim.owner);
                    return Ok(grant);
                }
                wait.report_busy();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    }

    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        self.leave(claim.owner);
        store.release(claim)
    }

    fn inspect<'a>(&'a self, store: &'a Store, name: &'a LockName) -> Answer<'a, Option<Record>> {
        Box::pin(async move {
            let record = store.inspect(name).await?;
            let line = lock(&self.0);
            let here = line.iter().filter(|claim| claim.name == *name);
            let waiting: Vec<Waiter> = here
                .map(|claim| Waiter::new(claim.label.clone(), Duration::ZERO))
                .collect();
            if record.is_none() && waiting.is_empty() {
                return Ok(None);
            }
            let holder = record.and_then(|record| record.holder);
            Ok(Some(Record::new(holder, waiting)))
        })
    }
}

/// Grants a lock that nobody holds to whoever tries, whoever waits for it.
#[derive(Debug)]
pub(crate) struct TriesOvertake;

impl Breach for TriesOvertake {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(async move {
            if let Some(grant) = store.try_acquire(claim).await? {
                return Ok(Some(grant));
            }
            let record = store.inspect(&claim.name).await?;
            let is_free = record.is_none_or(|record| record.holder.is_none());
            Ok(is_free.then(|| Grant::new(1, store.clock().now(), claim.ttl)))
        })
    }
}

/// The owners that have asked.
#[derive(Debug, Default)]
struct Known(Mutex<HashSet<OwnerId>>);

impl Known {
    /// Returns whether this owner has asked before.
    fn comes_back(&self, claim: &Claim) -> bool {
        !lock(&self.0).insert(claim.owner)
    }
}

/// Refuses an owner that comes back.
#[derive(Debug, Default)]
pub(crate) struct NobodyComesBack(Known);

impl Breach for NobodyComesBack {
    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        if self.0.comes_back(claim) {
            return Box::pin(async { Err(failed(Operation::Acquire)) });
        }
        store.acquire(claim, wait)
    }
}

/// Puts an owner that comes back at the end of the line.
#[derive(Debug, Default)]
pub(crate) struct PlaceIsLostOnReturn(Known);

impl Breach for PlaceIsLostOnReturn {
    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(async move {
            if self.0.comes_back(claim) {
                store.release(claim).await?;
            }
            store.acquire(claim, wait).await
        })
    }
}

/// Waits on for an owner whose future was dropped, and grants it the lock when its turn comes.
#[derive(Debug)]
pub(crate) struct TheDeadWaitOn;

impl Breach for TheDeadWaitOn {
    fn acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim, _: &'a Wait) -> Answer<'a, Grant> {
        Box::pin(async move {
            wait_in_the_background(store, claim)
                .await
                .expect("no panic")
        })
    }
}

fn wait_in_the_background(store: &Store, claim: &Claim) -> tokio::task::JoinHandle<Result<Grant>> {
    let (store, claim) = (store.clone(), claim.clone());
    tokio::spawn(async move { store.acquire(&claim, &Wait::default()).await })
}

/// Executes a request whose future was dropped after the release that follows it.
#[derive(Debug, Default)]
pub(crate) struct DroppedRequestsComeLate(Mutex<HashSet<OwnerId>>);

/// Notes the owner if the request is dropped.
struct UnderWay<'a> {
    dropped: &'a Mutex<HashSet<OwnerId>>,
    owner: OwnerId,
    is_over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            lock(self.dropped).insert(self.owner);
        }
    }
}

impl DroppedRequestsComeLate {
    /// Executes a request, which takes a moment.
    async fn execute<T>(&self, claim: &Claim, request: Answer<'_, T>) -> Result<T> {
        let mut under_way = UnderWay {
            dropped: &self.0,
            owner: claim.owner,
            is_over: false,
        };
        tokio::task::yield_now().await;
        let answer = request.await;
        under_way.is_over = true;
        answer
    }
}

impl Breach for DroppedRequestsComeLate {
    fn try_acquire<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Option<Grant>> {
        Box::pin(self.execute(claim, store.try_acquire(claim)))
    }

    fn acquire<'a>(
        &'a self,
        store: &'a Store,
        claim: &'a Claim,
        wait: &'a Wait,
    ) -> Answer<'a, Grant> {
        Box::pin(self.execute(claim, store.acquire(claim, wait)))
    }

    fn release<'a>(&'a self, store: &'a Store, claim: &'a Claim) -> Answer<'a, Release> {
        Box::pin(async move {
            let answer = store.release(claim).await;
            if lock(&self.0).remove(&claim.owner) {
                drop(wait_in_the_background(store, claim));
            }
            answer
        })
    }
}
