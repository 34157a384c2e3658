//! Stores that answer late, with unusual epochs, or with leases that are too short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost::backend::Wait;
use fencepost::clock::BoxFuture;
use fencepost::stores::memory::Memory;
use fencepost::testing::FakeClock;
use fencepost::{
    Backend, Claim, Effect, Error, ErrorKind, Grant, LockName, Locker, Operation, Result,
};

use crate::forward::forward;
use crate::{TIMEOUT, TTL};

/// A store that lets the lease expire before it answers.
#[derive(Debug)]
pub(crate) struct LateOnce {
    pub(crate) inner: Memory,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) late_answers: AtomicU32,
}

impl Backend for LateOnce {
    forward!(capabilities, renew, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "late"
    }
    fn clock(&self) -> Arc<dyn fencepost::clock::Clock> {
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
}

/// A store that grants with a given epoch.
#[derive(Debug)]
pub(crate) struct Worn {
    pub(crate) inner: Memory,
    pub(crate) epoch: u64,
}

impl Backend for Worn {
    forward!(capabilities, renew, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "worn"
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
}

/// A store whose second answer to a waiter is an error.
#[derive(Debug)]
struct FailsOnce {
    inner: Memory,
    asked: AtomicU32,
}

impl Backend for FailsOnce {
    forward!(capabilities, renew, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "fails-once"
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            match self.asked.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(None),
                1 => {
                    let kind = ErrorKind::Unavailable;
                    Err(Error::new(
                        kind,
                        self.store_name(),
                        Operation::Acquire,
                        "gone",
                    ))
                }
                _ => self.inner.try_acquire(claim).await,
            }
        })
    }
}

#[tokio::test]
async fn a_waiter_that_polls_outlasts_a_request_that_fails() {
    let store = Arc::new(FailsOnce {
        inner: Memory::new(),
        asked: AtomicU32::new(0),
    });
    let guard = Locker::new(store.clone()).acquire("a").await;
    assert!(
        guard
            .expect("granted in the end")
            .release()
            .await
            .is_released()
    );
    // Whoever does not wait yet is told at once.
    store.asked.store(1, Ordering::Relaxed);
    let error = Locker::new(store)
        .acquire("a")
        .await
        .expect_err("not waiting yet");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// A store that is busy once, and then down.
#[derive(Debug)]
struct GoesDown {
    inner: Memory,
    asked: AtomicU32,
}

impl Backend for GoesDown {
    forward!(capabilities, renew, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "goes-down"
    }
    fn try_acquire<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        let is_first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
        let kind = ErrorKind::Unavailable;
        let down = Error::new(kind, self.store_name(), Operation::Acquire, "gone");
        let answer = if is_first { Ok(None) } else { Err(down) };
        Box::pin(async move { answer })
    }
}

#[tokio::test]
async fn a_waiter_that_polls_asks_a_store_that_is_down_ever_less_often() {
    let store = Arc::new(GoesDown {
        inner: Memory::new(),
        asked: AtomicU32::new(0),
    });
    let locker = Locker::new(store.clone());
    let waited = locker.acquire_within("a", Duration::from_secs(1)).await;
    assert!(waited.is_err() || waited.is_ok_and(|guard| guard.is_none()));
    // After pauses of 50, 100, 200 and 400 ms. A slow machine asks less often.
    let asked = store.asked.load(Ordering::Relaxed);
    assert!((2..=8).contains(&asked), "asked {asked} times in a second");
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
    forward!(capabilities, renew, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "stingy"
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
