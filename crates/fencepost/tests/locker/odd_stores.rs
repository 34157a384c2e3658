//! Tests of the locker with stores that answer late, or with unusual epochs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost::stores::memory::Memory;
use fencepost::testing::FakeClock;
use fencepost::{
    Backend, BoxFuture, Capabilities, Claim, Grant, Listed, LockName, Record, Release, Renewal,
    Result, Wait,
};

/// A store that lets the lease expire before it answers.
#[derive(Debug)]
pub(crate) struct LateOnce {
    pub(crate) inner: Memory,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) late_answers: AtomicU32,
}

impl Backend for LateOnce {
    fn store_name(&self) -> &'static str {
        "late"
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn clock(&self) -> Arc<dyn fencepost::Clock> {
        self.clock.clone()
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            let answer = self.inner.try_acquire(claim).await;
            let left = self.late_answers.load(Ordering::Relaxed);
            if left > 0 {
                self.late_answers.store(left - 1, Ordering::Relaxed);
                self.clock.advance(crate::TTL);
            }
            answer
        })
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        self.inner.renew(claims)
    }
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        self.inner.release(claim)
    }
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        self.inner.inspect(name)
    }
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.inner.list(pattern)
    }
}

/// A store that grants with a given epoch.
#[derive(Debug)]
pub(crate) struct Worn {
    pub(crate) inner: Memory,
    pub(crate) epoch: u64,
}

impl Backend for Worn {
    fn store_name(&self) -> &'static str {
        "worn"
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            let grant = self.inner.try_acquire(claim).await?;
            let epoch = self.epoch;
            Ok(grant.map(|grant| Grant::new(epoch, grant.asked_at, grant.lease)))
        })
    }
    fn acquire<'a>(&'a self, claim: &'a Claim, _: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move { Ok(self.try_acquire(claim).await?.expect("free")) })
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        self.inner.renew(claims)
    }
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        self.inner.release(claim)
    }
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        self.inner.inspect(name)
    }
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.inner.list(pattern)
    }
}
