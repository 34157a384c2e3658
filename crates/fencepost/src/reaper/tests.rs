//! What the reaper keeps in mind during an outage.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Effect, Operation};
use crate::locker::Locker;
use crate::mutex::lock;
use crate::stores::memory::Memory;
use crate::testing::{FakeClock, Fault, FlakyStore};

const TTL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(5);

struct Stage {
    clock: Arc<FakeClock>,
    store: Arc<FlakyStore>,
    locker: Locker,
}

impl Stage {
    fn new() -> Self {
        let clock = FakeClock::new();
        let store = FlakyStore::new(Arc::new(Memory::with_clock(clock.clone())));
        let locker = Locker::builder(store.clone()).ttl(TTL);
        Self {
            locker: locker.store_timeout(TIMEOUT).build().expect("valid"),
            clock,
            store,
        }
    }

    /// Errands that wait or are under way.
    fn errands(&self) -> usize {
        *lock(&self.locker.open_errands().count)
    }

    async fn fail(&self, number: u32) -> Effect {
        let answer = self.locker.try_acquire(format!("name-{number}")).await;
        answer.expect_err("an outage").effect()
    }

    async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(50);
        self.clock.advance_in_steps(time, step).await;
    }
}

#[tokio::test]
async fn refused_calls_leave_nothing_to_release() {
    let stage = Stage::new();
    stage.store.fail_every(Operation::Acquire, Fault::Refuse);
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    for number in 0..100_000 {
        assert_eq!(stage.fail(number).await, Effect::None);
    }
    assert_eq!(stage.errands(), 0);
    assert_eq!(stage.store.requests(Operation::Release), 0);
}

#[tokio::test]
async fn unanswered_calls_are_kept_in_mind_up_to_a_bound() {
    let stage = Stage::new();
    let lose = Fault::LoseAnswer;
    stage.store.fail_every(Operation::Acquire, lose);
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    for number in 0..30_000 {
        assert_eq!(stage.fail(number).await, Effect::Maybe);
    }
    let kept = stage.errands();
    assert!((1_000..10_000).contains(&kept), "{kept} errands");
    // The last one is among them, and is free long before its TTL.
    stage.store.heal();
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!(stage.errands(), 0);
    let rival = Locker::new(stage.store.clone());
    assert!(
        rival
            .try_acquire("name-29999")
            .await
            .expect("well")
            .is_some()
    );
    // One of the first is not. Its TTL ends it.
    assert!(
        rival
            .try_acquire("name-1000")
            .await
            .expect("well")
            .is_none()
    );
    stage.pass(TTL).await;
    assert!(
        rival
            .try_acquire("name-1000")
            .await
            .expect("well")
            .is_some()
    );
}

#[tokio::test]
async fn what_has_ended_by_itself_is_forgotten() {
    let stage = Stage::new();
    let lose = Fault::LoseAnswer;
    stage.store.fail_every(Operation::Acquire, lose);
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    let step = Duration::from_millis(50);
    for number in 0..2_000 {
        assert_eq!(stage.fail(number).await, Effect::Maybe);
        stage.pass(step).await;
    }
    // One came every 50 ms, and each matters for 15 s.
    let kept = stage.errands();
    assert!(kept <= 400, "{kept} errands");
    stage.pass(TTL + TIMEOUT * 2).await;
    assert_eq!(stage.errands(), 0);
}

#[tokio::test]
async fn leases_that_were_held_are_all_given_back() {
    let stage = Stage::new();
    let mut guards = Vec::new();
    for number in 0..20_000 {
        let guard = stage.locker.acquire(format!("name-{number}")).await;
        guards.push(guard.expect("free"));
    }
    drop(guards);
    stage.locker.shutdown().await;
    assert_eq!(stage.store.requests(Operation::Release), 20_000);
    assert_eq!(stage.errands(), 0);
}
