//! Regression tests for orders of events in the locker that once went wrong.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, Fault, FlakyStore};
use fencepost::{Backend, ErrorKind, HandOver, LockName, Locker, Operation};

use crate::{Stage, TTL, runtime, settle};

#[tokio::test]
async fn failed_renewals_are_repeated_with_a_pause_whatever_the_ttl() {
    for ttl_s in [1, 10, 12, 60, 3600] {
        let ttl = Duration::from_secs(ttl_s);
        let clock = FakeClock::new();
        let store = FlakyStore::new(Arc::new(Memory::with_clock(clock.clone())));
        let locker = Locker::builder(store.clone())
            .ttl(ttl)
            .build()
            .expect("valid settings");
        let guard = locker.acquire("a").await.expect("an answer");
        store.fail_every(Operation::Renew, Fault::Refuse);
        for _ in 0..200 {
            clock.advance(ttl / 200);
            settle().await;
        }
        assert!(guard.is_lost());
        let renewals = store.requests(Operation::Renew);
        assert!(
            (3..=200).contains(&renewals),
            "TTL {ttl_s} s: {renewals} renewals"
        );
    }
}

#[tokio::test]
async fn a_short_timeout_in_front_does_not_fail_those_behind() {
    let stage = Stage::new();
    stage.store.fail_next(Operation::Acquire, Fault::Swallow);
    let spawn = |timeout: Option<Duration>| {
        let locker = stage.locker.clone();
        tokio::spawn(async move {
            match timeout {
                Some(timeout) => locker.acquire_within("a", timeout).await,
                None => locker.acquire("a").await.map(Some),
            }
        })
    };
    let hasty = spawn(Some(Duration::from_millis(100)));
    settle().await;
    let patient = spawn(None);
    settle().await;
    stage.pass(Duration::from_millis(200)).await;
    let error = hasty
        .await
        .expect("no panic")
        .expect_err("the store was never heard");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let guard = patient
        .await
        .expect("no panic")
        .expect("not failed with the one before it");
    assert!(guard.is_some());
}

#[tokio::test]
async fn a_guard_dropped_after_its_end_does_not_cost_the_margin() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.clock.advance(guard.valid_for());
    assert!(guard.is_lost());
    assert!(
        !stage.is_free("a").await,
        "the store's own lease lasts a little longer"
    );
    drop(guard);
    settle().await;
    assert!(stage.is_free("a").await);
}

#[test]
fn a_shutdown_in_a_new_runtime_gives_back_what_the_old_one_left() {
    let stage = Stage::new();
    let first = runtime();
    let guard = first.block_on(stage.take("a"));
    drop(first);
    runtime().block_on(async {
        stage.locker.shutdown().await;
        assert!(guard.is_lost());
        assert!(stage.is_free("a").await);
    });
}

/// Tasks acquire and drop locks while the locker is shut down. Afterwards nobody holds anything, neither by its own belief nor
/// in the store.
async fn shut_down_in_the_middle(limits: HandOver) {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let name = LockName::new("a").expect("a valid name");
    for round in 0..60 {
        let settings = Locker::builder(store.clone())
            .ttl(TTL * 6)
            .hand_over(limits);
        let locker = settings.build().expect("valid settings");
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let (locker, name) = (locker.clone(), name.clone());
            tasks.spawn(async move {
                loop {
                    let answer = match task % 2 {
                        0 => locker.acquire(&name).await.map(Some),
                        _ => locker.try_acquire(&name).await,
                    };
                    match answer {
                        Ok(guard) => {
                            tokio::task::yield_now().await;
                            drop(guard);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Closed);
                            // Later requests get the same answer.
                            let late = locker.acquire(&name).await;
                            assert!(late.is_err(), "a lock was granted after the shutdown");
                            return;
                        }
                    }
                }
            });
        }
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        locker.shutdown().await;
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        let free = async {
            while store.inspect(&name).await.expect("an answer").is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let free = tokio::time::timeout(Duration::from_secs(20), free).await;
        assert!(
            free.is_ok(),
            "round {round}: held by nobody, for the rest of a TTL of a minute"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_in_the_middle_leaves_nothing() {
    shut_down_in_the_middle(HandOver::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_in_the_middle_leaves_nothing_without_hand_over() {
    shut_down_in_the_middle(HandOver::new().max_turns(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_in_the_middle_leaves_nothing_with_hand_over_of_no_time() {
    shut_down_in_the_middle(HandOver::new().max_time(Duration::ZERO)).await;
}

#[tokio::test]
async fn a_guard_knows_whether_it_met_somebody() {
    let stage = Stage::new();
    let first = stage.locker.acquire("a").await.expect("an answer");
    assert!(!first.was_contended());
    let locker = stage.locker.clone();
    let second = tokio::spawn(async move { locker.acquire("a").await });
    settle().await;
    let _released = first.release().await;
    let second = second.await.expect("no panic").expect("an answer");
    assert!(second.was_contended());
    let _released = second.release().await;
    settle().await;
    let again = stage.locker.acquire("a").await.expect("an answer");
    assert!(!again.was_contended());
}

#[tokio::test]
async fn a_refused_request_does_not_hide_what_the_one_before_it_left() {
    let stage = Stage::new();
    // The request is executed but never answered. Then the next request under the same claim is refused.
    let fault = Fault::SwallowAnswer;
    stage.store.fail_next(Operation::Acquire, fault);
    stage.store.fail_next(Operation::Acquire, Fault::Refuse);
    let mut first = Box::pin(stage.locker.acquire("a"));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(stage.locker.acquire("a"));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    let error = second.await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    settle().await;
    assert!(stage.is_free("a").await, "long before the end of its TTL");
}
