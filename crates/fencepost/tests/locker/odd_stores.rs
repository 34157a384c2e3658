//! Stores that answer late, with unusual epochs, or with leases that are too short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost::stores::memory::Memory;
use fencepost::testing::FakeClock;
use fencepost::{
    Backend, BoxFuture, Capabilities, Claim, Effect, ErrorKind, Grant, Listed, LockName, Locker,
    Record, Release, Renewal, Result, Wait,
};

use crate::{TIMEOUT, TTL};

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
                self.clock.advance(TTL);
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

/// A store that grants half of the TTL, at once and every time.
#[derive(Debug)]
struct Stingy {
    inner: Memory,
    grants: AtomicU32,
}

impl Stingy {
    /// More grants than this mean that the locker would never stop asking. The panic replaces a test that never ends.
    const TOO_MANY: u32 = 100;

    fn cut(&self, grant: Grant) -> Grant {
        let before = self.grants.fetch_add(1, Ordering::Relaxed);
        assert!(before < Self::TOO_MANY, "asked for ever");
        Grant::new(grant.epoch, grant.asked_at, grant.lease / 2)
    }
}

impl Backend for Stingy {
    fn store_name(&self) -> &'static str {
        "stingy"
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            let grant = self.inner.try_acquire(claim).await?;
            Ok(grant.map(|grant| self.cut(grant)))
        })
    }
    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move { Ok(self.cut(self.inner.acquire(claim, wait).await?)) })
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

#[tokio::test]
async fn a_store_that_always_grants_less_than_the_ttl_is_reported() {
    for is_waiting in [false, true] {
        let store = Arc::new(Stingy {
            inner: Memory::new(),
            grants: AtomicU32::new(0),
        });
        let locker = Locker::builder(store.clone()).ttl(TTL).keep_alive(false);
        let locker = locker.build().expect("valid settings");
        let answer = if is_waiting {
            locker.acquire_within("a", TIMEOUT).await
        } else {
            locker.try_acquire("a").await
        };
        let error = answer.expect_err("no full lease");
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(error.effect(), Effect::Maybe);
        locker.shutdown().await;
        let name = LockName::new("a").expect("a valid name");
        let left = store.inspect(&name).await.expect("an answer");
        assert_eq!(left, None, "the short grant was given back");
    }
}
