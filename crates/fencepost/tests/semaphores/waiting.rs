//! Waiting in line: how often a waiter asks, what it sits out, and whom it waits for.

use std::time::Duration;

use fencepost::backend::records::Replaced;
use fencepost::testing::{FakeClock, Fault, poll_at_most};
use fencepost::{ErrorKind, Locker, Operation};

use crate::odd_stores::Late;
use crate::stage::{Stage, TIMEOUT, TTL, locker, semaphore, settle, take};

#[tokio::test]
async fn a_waiter_rests_until_something_may_have_changed() {
    let stage = Stage::new();
    let held = take(&stage.rival(1), 1).await;
    let semaphore = stage.semaphore(1);
    let waiting = tokio::spawn(async move { semaphore.acquire(1).await });
    settle().await;
    let before = stage.store.requests(Operation::ReadRecord);
    let seconds = 60;
    stage.pass(Duration::from_secs(seconds)).await;
    let reads = stage.store.requests(Operation::ReadRecord) - before;
    // Every three seconds, and after each renewal of the holder, which come three times per TTL.
    assert!((15..60).contains(&reads), "{reads} reads in {seconds} s");
    assert!(held.release().await.is_released());
    settle().await;
    assert!(waiting.is_finished(), "the release wakes it");
}

#[tokio::test]
async fn a_waiter_sits_out_an_outage() {
    let stage = Stage::new();
    let held = take(&stage.rival(1), 1).await;
    let semaphore = stage.semaphore(1);
    let waiting = tokio::spawn(async move { semaphore.acquire(1).await });
    settle().await;
    for operation in [Operation::ReadRecord, Operation::ReplaceRecord] {
        stage.store.fail_every(operation, Fault::Refuse);
    }
    assert!(held.release().await.is_released());
    let asked = stage.store.requests(Operation::ReadRecord);
    while stage.store.requests(Operation::ReadRecord) < asked + 3 {
        stage.pass(Duration::from_millis(50)).await;
    }
    assert!(!waiting.is_finished());
    stage.store.heal();
    stage.pass(Duration::from_secs(1)).await;
    let granted = waiting.await.expect("no panic");
    assert!(granted.is_ok(), "{granted:?}");
}

#[tokio::test]
async fn a_store_that_fails_at_first_is_an_error() {
    let stage = Stage::new();
    stage.store.fail_every(Operation::ReadRecord, Fault::Refuse);
    let error = stage
        .semaphore(1)
        .acquire(1)
        .await
        .expect_err("told to fail");
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::Unavailable, Operation::Acquire)
    );
    stage
        .store
        .fail_every(Operation::ReadRecord, Fault::Swallow);
    let semaphore = stage.semaphore(1);
    let asking =
        tokio::spawn(async move { (semaphore.acquire(1).await, semaphore.permits().await) });
    settle().await;
    stage.pass(TIMEOUT * 2).await;
    let (acquired, permits) = asking.await.expect("no panic");
    assert_eq!(acquired.expect_err("no answer").kind(), ErrorKind::Timeout);
    assert_eq!(permits.expect_err("no answer").kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_wait_ends_with_its_timeout_and_leaves_the_line() {
    let stage = Stage::new();
    let held = take(&stage.rival(1), 1).await;
    let semaphore = stage.semaphore(1);
    let waiting = tokio::spawn(async move { semaphore.acquire_within(1, TTL).await });
    settle().await;
    stage.pass(TTL / 2).await;
    assert!(stage.has("waits").await);
    stage.pass(TTL / 2).await;
    assert!(
        waiting
            .await
            .expect("no panic")
            .expect("an answer")
            .is_none()
    );
    settle().await;
    assert!(!stage.has("waits").await);
    drop(held);
}

#[tokio::test]
async fn a_dropped_wait_leaves_the_line() {
    let stage = Stage::new();
    let held = take(&stage.rival(1), 1).await;
    let semaphore = stage.semaphore(1);
    assert!(poll_at_most(1, semaphore.acquire(1)).await.is_none());
    settle().await;
    assert!(!stage.has("waits").await);
    drop(held);
}

/// A waiter that sleeps through its turn is passed over. When it comes back, it stands in front of those who came later.
#[tokio::test]
async fn a_waiter_that_slept_through_its_turn_has_its_old_place() {
    let stage = Stage::new();
    let rival = stage.rival(1);
    let held = take(&rival, 1).await;
    let (early, late) = (stage.semaphore(1), stage.rival(1));
    let mut slept = Box::pin(async move { early.acquire(1).await });
    assert!(futures_util::poll!(&mut slept).is_pending());
    assert!(futures_util::poll!(&mut slept).is_pending());
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let late = late.clone();
        waiting.push(tokio::spawn(async move { late.acquire(1).await }));
        settle().await;
    }
    assert!(held.release().await.is_released());
    stage.pass(Duration::from_millis(400)).await;
    assert!(
        waiting.iter().all(|one| !one.is_finished()),
        "the turn of the first lasts"
    );
    stage.pass(Duration::from_millis(200)).await;
    assert!(waiting[0].is_finished() && !waiting[1].is_finished());
    // It wakes up, and finds that it was passed over.
    let woken = tokio::spawn(slept);
    settle().await;
    let second = waiting
        .remove(0)
        .await
        .expect("no panic")
        .expect("an answer");
    let fence = second.fence();
    drop(second);
    settle().await;
    let first = woken.await.expect("no panic").expect("an answer");
    assert!(first.fence() > fence);
    assert!(!waiting[0].is_finished(), "it came later");
    drop(first);
    settle().await;
    assert!(waiting[0].is_finished());
}

/// It was passed over, so the record that it sees has nothing of it. But the waiter ahead has read the record before that, and is about to
/// write the place down once more.
#[tokio::test]
async fn a_waiter_that_leaves_after_its_turn_does_not_come_back() {
    let clock = FakeClock::new();
    let store = Late::new(&clock);
    let mortal = Locker::builder(store.clone()).ttl(TTL).keep_alive(false);
    let mortal = mortal.build().expect("valid settings");
    let held = take(&semaphore(&mortal, 1), 1).await;
    let line = semaphore(&locker(store.clone()), 1);
    let ahead = line.clone();
    let ahead = tokio::spawn(async move { ahead.acquire(1).await });
    settle().await;
    let mut sleeps = Box::pin(line.acquire(1));
    assert!(futures_util::poll!(&mut sleeps).is_pending());
    assert!(futures_util::poll!(&mut sleeps).is_pending());
    store.keep_back(1);
    let step = Duration::from_millis(50);
    clock.advance_in_steps(TTL + TIMEOUT / 4, step).await;
    assert!(held.is_lost());
    drop(sleeps);
    settle().await;
    assert_eq!(store.deliver().await, [Replaced::Outdated]);
    ahead.abort();
}

#[tokio::test]
async fn whoever_waits_for_too_much_is_told_when_the_number_is_lowered() {
    let stage = Stage::new();
    let rival = stage.rival(3);
    let held = take(&rival, 3).await;
    let semaphore = stage.semaphore(3);
    let waiting = tokio::spawn(async move { semaphore.acquire(2).await });
    settle().await;
    rival.resize(1).await.expect("an answer");
    settle().await;
    let error = waiting.await.expect("no panic").expect_err("two of one");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("there are only 1"), "{error}");
    drop(held);
}
