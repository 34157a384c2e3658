//! Tests of renewals of many leases at a slow store, and of calls without an answer: every lease is renewed in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost::backend::{Renewal, Wait};
use fencepost::clock::{BoxFuture, Clock};
use fencepost::stores::memory::Memory;
use fencepost::testing::FakeClock;
use fencepost::{Backend, Claim, ErrorKind, Grant, Guard, Locker, LostReason, Result};

use super::forward::forward;
use super::{TTL, settle};

const ROUND_TRIP: Duration = Duration::from_millis(100);
/// The number of claims in one round trip to the store. A call with more takes several round trips in sequence.
const PER_ROUND_TRIP: usize = 1024;
/// The first lease of a lock named "short...".
const SHORT: Duration = Duration::from_millis(600);

/// A store that is a round trip away. A renewal of a lock named "stuck..." gets no answer.
#[derive(Debug)]
struct Distant {
    inner: Memory,
    clock: Arc<FakeClock>,
    renew_batch_size: usize,
    calls: AtomicU32,
}

impl Distant {
    async fn renew_some(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let half_way = self.clock.now() + ROUND_TRIP / 2;
        self.clock.sleep_until(half_way).await;
        let answers = self.inner.renew(claims).await;
        self.clock.sleep_until(half_way + ROUND_TRIP / 2).await;
        answers
    }
}

impl Backend for Distant {
    forward!(capabilities, try_acquire, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "distant"
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            let mut grant = self.inner.acquire(claim, wait).await?;
            if claim.name.as_str().starts_with("short") {
                grant.lease = SHORT;
            }
            Ok(grant)
        })
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let is_stuck = |claim: &Claim| claim.name.as_str().starts_with("stuck");
            if claims.iter().any(is_stuck) {
                std::future::pending::<()>().await;
            }
            let mut answers = Vec::new();
            for some in claims.chunks(PER_ROUND_TRIP) {
                answers.extend(self.renew_some(some).await);
            }
            answers
        })
    }
    fn renew_batch_size(&self) -> usize {
        self.renew_batch_size
    }
}

struct Stage {
    clock: Arc<FakeClock>,
    store: Arc<Distant>,
    locker: Locker,
}

impl Stage {
    fn new(ttl: Duration, renew_batch_size: usize) -> Self {
        let clock = FakeClock::new();
        let store = Arc::new(Distant {
            inner: Memory::with_clock(clock.clone()),
            clock: clock.clone(),
            renew_batch_size,
            calls: AtomicU32::new(0),
        });
        let locker = Locker::builder(store.clone()).ttl(ttl);
        Self {
            locker: locker.build().expect("valid settings"),
            clock,
            store,
        }
    }

    async fn take(&self, name: &str) -> Guard {
        self.locker.acquire(name).await.expect("a free lock")
    }

    async fn take_many(&self, prefix: &str, count: usize) -> Vec<Guard> {
        let mut guards = Vec::with_capacity(count);
        for number in 0..count {
            guards.push(self.take(&format!("{prefix}-{number}")).await);
        }
        guards
    }

    async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(10);
        self.clock.advance_in_steps(time, step).await;
    }

    async fn until_renewing(&self) {
        let before = self.store.calls.load(Ordering::Relaxed);
        while self.store.calls.load(Ordering::Relaxed) == before {
            self.pass(Duration::from_millis(10)).await;
        }
    }
}

fn lost(guards: &[Guard]) -> usize {
    guards.iter().filter(|guard| guard.is_lost()).count()
}

#[tokio::test]
async fn many_leases_at_a_distant_store_are_all_kept() {
    let ttl = Duration::from_secs(4);
    let stage = Stage::new(ttl, 64);
    let guards = stage.take_many("a", 12_000).await;
    stage.pass(ttl * 2).await;
    assert_eq!(lost(&guards), 0);
    // Answers count from their own calls, none of which waited for long.
    let least = guards.iter().map(Guard::valid_for).min().expect("some");
    assert!(least > ttl / 3, "{least:?}");
}

#[tokio::test]
async fn a_short_first_lease_does_not_wait_behind_a_large_batch() {
    let ttl = Duration::from_secs(10);
    let stage = Stage::new(ttl, 64);
    let many = stage.take_many("a", 16_000).await;
    stage.until_renewing().await;
    let short = stage.take_many("short", 20).await;
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!(lost(&short), 0);
    assert_eq!(lost(&many), 0);
}

#[tokio::test]
async fn calls_without_an_answer_cost_only_their_own_leases() {
    let ttl = Duration::from_secs(4);
    for renew_batch_size in [1, 8] {
        let stage = Stage::new(ttl, renew_batch_size);
        // More than the number of concurrent calls.
        let stuck = stage.take_many("stuck", 200).await;
        // The lease that ends first is renewed first, so these are in separate calls.
        stage.pass(Duration::from_millis(10)).await;
        let others = stage.take_many("a", 200).await;
        stage.pass(ttl * 3).await;
        assert_eq!(lost(&stuck), 200, "{renew_batch_size} at once");
        assert_eq!(stuck[0].lost().await.reason(), LostReason::Expired);
        assert!(stuck[0].lost().await.failed_renewals().is_some());
        assert_eq!(lost(&others), 0, "{renew_batch_size} at once");
    }
}

#[tokio::test]
async fn a_lock_that_is_taken_while_calls_are_stuck_is_kept_and_lost_ones_are_told_in_time() {
    let ttl = Duration::from_secs(4);
    let stage = Stage::new(ttl, 1);
    let stuck = stage.take("stuck").await;
    stage.until_renewing().await;
    let newcomer = stage.take("short").await;
    stage.pass(SHORT).await;
    assert!(!newcomer.is_lost());
    let left = stuck.valid_for();
    stage.pass(left - Duration::from_millis(20)).await;
    assert!(!stuck.is_lost());
    let told = tokio::spawn(async move { stuck.lost().await.reason() });
    stage.pass(Duration::from_millis(40)).await;
    assert!(told.is_finished());
    assert!(!newcomer.is_lost());
}

#[tokio::test]
async fn an_unanswered_renewal_is_repeated_as_soon_as_it_is_given_up() {
    let ttl = Duration::from_secs(4);
    let stage = Stage::new(ttl, 1);
    let _stuck = stage.take("stuck").await;
    stage.until_renewing().await;
    // A call is abandoned after a quarter of the TTL. A holder that needs time to stop cannot spare more.
    stage.pass(ttl / 4 + Duration::from_millis(20)).await;
    assert_eq!(stage.store.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_answer_that_comes_after_the_end_does_not_revive_the_lease() {
    let stage = Stage::new(TTL, 100);
    let guard = stage.take("a").await;
    stage.until_renewing().await;
    stage.pass(ROUND_TRIP * 3 / 4).await;
    // The store has renewed the lease. Before its answer arrives, the machine sleeps beyond the end of the old one.
    stage.clock.advance(TTL * 3 / 4);
    settle().await;
    assert!(guard.is_lost());
    assert_eq!(guard.lost().await.reason(), LostReason::Expired);
}

#[tokio::test]
async fn an_extension_that_is_answered_after_the_end_is_an_error() {
    let stage = Stage::new(TTL, 100);
    let guard = stage.take("a").await;
    let extending = guard.extend(TTL * 3);
    tokio::pin!(extending);
    assert!(futures_util::poll!(&mut extending).is_pending());
    stage.clock.advance(ROUND_TRIP / 2);
    assert!(futures_util::poll!(&mut extending).is_pending());
    stage.clock.advance(TTL);
    let error = extending.await.expect_err("the lease had ended");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(guard.is_lost() && guard.valid_for().is_zero());
}
