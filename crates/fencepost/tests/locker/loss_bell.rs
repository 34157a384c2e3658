//! Tests of a store that rings a bell when leases may have ended early: holders are notified before the next renewal is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost::backend::{LossBell, Release, Renewal};
use fencepost::clock::BoxFuture;
use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, Fault, FlakyStore};
use fencepost::{Backend, Claim, LockName, Locker, LostReason, Operation, OwnerId, Result};

use super::forward::forward;
use super::{TIMEOUT, TTL, settle};

/// A memory store with a bell.
#[derive(Debug)]
struct Ringing {
    inner: Memory,
    bell: LossBell,
    /// Renewals are executed at once, and answered this many milliseconds later.
    late_ms: AtomicU64,
}

impl Backend for Ringing {
    forward!(capabilities, try_acquire, acquire, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "ringing"
    }
    fn clock(&self) -> Arc<dyn fencepost::clock::Clock> {
        self.inner.clock()
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let late = Duration::from_millis(self.late_ms.load(Ordering::Relaxed));
            let answers = self.inner.renew(claims).await;
            let clock = self.clock();
            clock.sleep_until(clock.now() + late).await;
            answers
        })
    }
    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.bell)
    }
}

struct Stage {
    clock: Arc<FakeClock>,
    ringing: Arc<Ringing>,
    store: Arc<FlakyStore>,
}

impl Stage {
    fn new() -> Self {
        let clock = FakeClock::new();
        let ringing = Arc::new(Ringing {
            inner: Memory::with_clock(clock.clone()),
            bell: LossBell::new(),
            late_ms: AtomicU64::new(0),
        });
        Self {
            store: FlakyStore::new(ringing.clone()),
            clock,
            ringing,
        }
    }

    fn locker(&self) -> Locker {
        let locker = Locker::builder(self.store.clone()).ttl(TTL);
        locker.store_timeout(TIMEOUT).build().expect("valid")
    }

    async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(10);
        self.clock.advance_in_steps(time, step).await;
    }

    async fn owner(&self, name: &str) -> OwnerId {
        let name = LockName::new(name).expect("a name");
        let record = self.ringing.inspect(&name).await.expect("an answer");
        let holder = record.expect("held").holder.expect("held");
        holder.owner.expect("ours")
    }

    /// Removes the lock from the store, as the end of a session does.
    async fn take_away(&self, name: &str) {
        let owner = self.owner(name).await;
        let claim = Claim::new(LockName::new(name).expect("a name"), owner, TTL);
        let answer = self.ringing.inner.release(&claim).await;
        assert_eq!(answer.expect("an answer"), Release::Freed);
    }

    fn renewals(&self) -> u64 {
        self.store.requests(Operation::Renew)
    }
}

#[tokio::test]
async fn a_loss_is_told_long_before_the_next_renewal() {
    for by_owner in [true, false] {
        let stage = Stage::new();
        // Two lockers share the backend, and both hear its bell.
        let lockers = [stage.locker(), stage.locker()];
        let gone = lockers[0].acquire("gone").await.expect("free");
        let kept = lockers[0].acquire("kept").await.expect("free");
        let also_gone = lockers[1].acquire("also-gone").await.expect("free");
        stage.pass(Duration::from_millis(200)).await;
        assert_eq!(stage.renewals(), 0);

        let owners = [stage.owner("gone").await, stage.owner("also-gone").await];
        stage.take_away("gone").await;
        stage.take_away("also-gone").await;
        if by_owner {
            stage.ringing.bell.ring(&owners);
        } else {
            stage.ringing.bell.ring_all();
        }
        settle().await;
        for guard in [&gone, &also_gone] {
            assert!(guard.is_lost(), "told without any time passing");
            assert_eq!(guard.lost().await.reason(), LostReason::Gone);
        }
        assert!(!kept.is_lost());
        assert_eq!(stage.renewals(), 2, "one renewal per locker");
        // Whether or not the bell renews it, it is kept.
        stage.pass(TTL * 2).await;
        assert!(!kept.is_lost());
    }
}

#[tokio::test]
async fn a_bell_that_rings_all_the_time_does_not_flood_the_store() {
    let stage = Stage::new();
    let locker = stage.locker();
    let guard = locker.acquire("a").await.expect("free");
    let ring = async |rings: u32| {
        let before = stage.renewals();
        for _ in 0..rings {
            stage.ringing.bell.ring_all();
            stage.pass(Duration::from_millis(10)).await;
        }
        stage.renewals() - before
    };
    // The store answers, so renewals happen once in 100 ms.
    let renewals = ring(100).await;
    assert!((9..=11).contains(&renewals), "{renewals} in a second");
    // The store is unavailable, so renewals happen once a second, as without the bell.
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    let renewals = ring(300).await;
    assert!((3..=4).contains(&renewals), "{renewals} in three seconds");
    assert!(!guard.is_lost(), "a failed renewal is no loss");
    stage.store.heal();
    stage.pass(TTL * 2).await;
    assert!(!guard.is_lost());
}

#[tokio::test]
async fn an_extension_answers_a_doubt_unless_it_fails() {
    for fails in [false, true] {
        let stage = Stage::new();
        let locker = stage.locker();
        let guard = locker.acquire("a").await.expect("free");
        // The store was asked just before, so the doubt does not cause a renewal at once.
        stage.ringing.bell.ring_all();
        stage.pass(Duration::from_millis(10)).await;
        assert_eq!(stage.renewals(), 0);
        if fails {
            stage.store.fail_next(Operation::Renew, Fault::Refuse);
        }
        assert_eq!(guard.extend(TTL).await.is_err(), fails);
        stage.pass(Duration::from_millis(200)).await;
        let caused_by_the_doubt = u64::from(fails);
        assert_eq!(stage.renewals(), 1 + caused_by_the_doubt, "fails: {fails}");
    }
}

#[tokio::test]
async fn a_ring_during_a_renewal_asks_once_more() {
    let stage = Stage::new();
    let locker = stage.locker();
    let guard = locker.acquire("a").await.expect("free");
    // This renewal was executed before the loss, and is answered after it.
    stage.ringing.late_ms.store(500, Ordering::Relaxed);
    while stage.renewals() == 0 {
        stage.pass(Duration::from_millis(10)).await;
    }
    stage.take_away("a").await;
    stage.ringing.bell.ring_all();
    stage.ringing.late_ms.store(0, Ordering::Relaxed);
    stage.pass(Duration::from_millis(400)).await;
    assert_eq!(stage.renewals(), 1);
    assert!(!guard.is_lost());
    stage.pass(Duration::from_millis(200)).await;
    assert!(guard.is_lost());
    assert_eq!(guard.lost().await.reason(), LostReason::Gone);
}

#[tokio::test]
async fn a_ring_just_after_an_answer_is_not_forgotten_where_calls_are_short() {
    let stage = Stage::new();
    let locker = Locker::builder(stage.store.clone()).ttl(TTL);
    let locker = locker.store_timeout(Duration::from_millis(20));
    let locker = locker.build().expect("valid");
    let guard = locker.acquire("a").await.expect("free");
    while stage.renewals() == 0 {
        stage.pass(Duration::from_millis(10)).await;
    }
    stage.take_away("a").await;
    stage.ringing.bell.ring_all();
    stage.pass(Duration::from_millis(200)).await;
    assert!(guard.is_lost());
}

#[tokio::test]
async fn a_lease_that_is_gone_is_still_given_back() {
    let stage = Stage::new();
    let locker = stage.locker();
    let guard = locker.acquire("a").await.expect("free");
    stage.take_away("a").await;
    stage.ringing.bell.ring_all();
    stage.pass(Duration::from_millis(200)).await;
    assert!(guard.is_lost());
    // A store of several servers may still have the lease on some of them.
    drop(guard);
    settle().await;
    assert_eq!(stage.store.requests(Operation::Release), 1);
}

#[tokio::test]
async fn a_locker_without_keep_alive_is_not_extended_by_the_bell() {
    let stage = Stage::new();
    let locker = Locker::builder(stage.store.clone()).ttl(TTL);
    let locker = locker.keep_alive(false).build().expect("valid");
    let guard = locker.acquire("a").await.expect("free");
    stage.ringing.bell.ring_all();
    stage.pass(TTL).await;
    assert_eq!(stage.renewals(), 0);
    assert_eq!(guard.lost().await.reason(), LostReason::Expired);
}
