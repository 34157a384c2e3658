//! Tests of several names at once: all or nothing, one deadline, and one order for all lockers.

use std::time::Duration;

use fencepost::testing::Fault;
use fencepost::{Error, ErrorKind, LockName, Locker, MultiGuard, Operation};

use super::{Stage, TTL, settle};

fn names(guard: &MultiGuard) -> Vec<&str> {
    let guards = guard.guards().iter();
    guards.map(|guard| guard.name().as_str()).collect()
}

#[tokio::test]
async fn names_are_taken_in_one_order_each_with_its_fence() {
    let stage = Stage::new();
    let alone = stage.take("b").await.fence();
    let all = stage.locker.acquire_all(["c", "a", "b", "a"]).await;
    let all = all.expect("all are free");
    assert_eq!(names(&all), ["a", "b", "c"]);
    assert!(all.fence("b").expect("held") > alone);
    assert_eq!(all.fence("d"), None);
    for guard in all.guards() {
        assert_eq!(all.fence(guard.name().as_str()), Some(guard.fence()));
    }
    for (name, outcome) in all.release().await {
        assert!(outcome.is_released(), "{name}");
    }
}

#[tokio::test]
async fn one_that_is_taken_leaves_none_held() {
    let stage = Stage::new();
    let rival = Locker::new(stage.store.clone());
    let _theirs = rival.acquire("b").await.expect("free");
    let all = stage.locker.try_acquire_all(["a", "b", "c"]).await;
    assert!(all.expect("an answer").is_none());
    assert!(stage.is_free("a").await);
    assert!(stage.is_free("c").await);
}

#[tokio::test]
async fn a_failing_store_leaves_none_held() {
    let stage = Stage::new();
    let first = stage.take("a").await;
    let locker = stage.locker.clone();
    let waiting = tokio::spawn(async move { locker.acquire_all(["a", "b"]).await });
    settle().await;
    stage.store.fail_every(Operation::Acquire, Fault::Refuse);
    drop(first);
    let error = waiting.await.expect("no panic").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    stage.store.heal();
    settle().await;
    assert!(stage.is_free("a").await);
    assert!(stage.is_free("b").await);
}

#[tokio::test]
async fn the_deadline_is_one_for_all_names() {
    let stage = Stage::new();
    let rival = Locker::new(stage.store.clone());
    let first = rival.acquire("a").await.expect("free");
    let _second = rival.acquire("b").await.expect("free");
    let locker = stage.locker.clone();
    let timeout = Duration::from_secs(4);
    let waiting = tokio::spawn(async move { locker.acquire_all_within(["a", "b"], timeout).await });
    settle().await;
    stage.pass(Duration::from_secs(3)).await;
    drop(first);
    settle().await;
    assert!(!waiting.is_finished(), "a is held now, b is waited for");
    assert!(!stage.is_free("a").await);
    stage.pass(Duration::from_millis(1050)).await;
    assert!(waiting.is_finished(), "4 s are over, for both together");
    let all = waiting.await.expect("no panic");
    assert!(all.expect("an answer").is_none());
    settle().await;
    assert!(stage.is_free("a").await);
}

/// The time is up while a later name is requested. The request was not in time, which is not an error of a store that has
/// answered.
#[tokio::test]
async fn a_deadline_during_a_later_question_is_not_an_error() {
    let stage = Stage::new();
    let first = stage.take("a").await;
    let locker = stage.locker.clone();
    let timeout = Duration::from_secs(2);
    let waiting = tokio::spawn(async move { locker.acquire_all_within(["a", "b"], timeout).await });
    settle().await;
    // The first name is handed over inside the process; the store is asked for the second.
    stage.store.fail_every(Operation::Acquire, Fault::Swallow);
    drop(first);
    stage.pass(Duration::from_millis(2100)).await;
    let all = waiting.await.expect("no panic");
    assert!(all.expect("no error").is_none());
    // The same silence at the first name is an error.
    let error = stage.locker.acquire_all_within(["c"], timeout);
    let error = tokio::join!(error, stage.pass(Duration::from_secs(3)));
    assert_eq!(error.0.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_dropped_wait_leaves_none_held() {
    let stage = Stage::new();
    let rival = Locker::new(stage.store.clone());
    let theirs = rival.acquire("b").await.expect("free");
    let locker = stage.locker.clone();
    let waiting = tokio::spawn(async move { locker.acquire_all(["a", "b"]).await.map(drop) });
    settle().await;
    assert!(!stage.is_free("a").await);
    waiting.abort();
    settle().await;
    assert!(stage.is_free("a").await);
    drop(theirs);
    settle().await;
    assert!(stage.is_free("b").await);
}

#[tokio::test]
async fn earlier_names_are_kept_alive_while_later_ones_are_waited_for() {
    let stage = Stage::new();
    let rival = Locker::new(stage.store.clone());
    let theirs = rival.acquire("b").await.expect("free");
    let locker = stage.locker.clone();
    let waiting = tokio::spawn(async move { locker.acquire_all(["a", "b"]).await });
    settle().await;
    stage.pass(TTL * 3).await;
    assert!(!stage.is_free("a").await);
    drop(theirs);
    settle().await;
    let all = waiting.await.expect("no panic").expect("both");
    assert!(!all.is_lost());
}

#[tokio::test]
async fn one_lost_while_waiting_is_an_error_and_leaves_none_held() {
    let stage = Stage::new();
    let rival = Locker::new(stage.store.clone());
    let theirs = rival.acquire("b").await.expect("free");
    let settings = Locker::builder(stage.store.clone()).keep_alive(false);
    let locker = settings.ttl(TTL).build().expect("valid settings");
    let waiting = tokio::spawn(async move { locker.acquire_all(["a", "b"]).await });
    settle().await;
    stage.pass(TTL).await;
    let error = waiting.await.expect("no panic").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("the lock a was lost"), "{error}");
    drop(theirs);
    settle().await;
    assert!(stage.is_free("a").await && stage.is_free("b").await);
}

#[tokio::test]
async fn all_is_lost_when_one_is() {
    let stage = Stage::new();
    let all = stage.locker.acquire_all(["a", "b"]).await.expect("free");
    assert!(all.valid_for() > TTL / 2);
    let done = all.run(async { 7 }).await;
    assert_eq!(done.expect("still held"), 7);
    all.guards()[0].extend(TTL * 9).await.expect("held");
    assert!(all.valid_for() <= TTL, "as long as the shortest");
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    let work = all.run(std::future::pending::<()>());
    let (ended, ()) = tokio::join!(work, stage.pass(TTL));
    ended.expect_err("the work was stopped");
    assert!(all.is_lost());
    assert_eq!(all.valid_for(), Duration::ZERO);
    all.lost().await;
    assert!(!all.guards()[0].is_lost() && all.guards()[1].is_lost());
}

#[tokio::test]
async fn what_is_no_list_of_names_is_refused_before_anything_is_taken() {
    let stage = Stage::new();
    let locker = &stage.locker;
    let none: [&str; 0] = [];
    let refused: [Error; 3] = [
        locker.acquire_all(none).await.unwrap_err(),
        locker.try_acquire_all(["a", ""]).await.unwrap_err(),
        locker
            .acquire_all_within(vec!["a".to_owned(), "b\n".to_owned()], TTL)
            .await
            .unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(stage.store.requests(Operation::Acquire), 0);
    let checked = LockName::new("a").expect("a name");
    let one = locker.try_acquire_all([&checked]).await;
    assert_eq!(names(&one.expect("an answer").expect("free")), ["a"]);
}

#[tokio::test]
async fn several_locks_are_extended_together_and_report_failed_renewals() {
    let stage = Stage::new();
    let all = stage.locker.acquire_all(["a", "b"]).await;
    let all = all.expect("free locks");
    assert!(!all.was_contended());
    all.extend(TTL * 6).await.expect("an answer");
    assert!(all.valid_for() > TTL * 5);
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    let error = all.extend(TTL * 7).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(all.failed_renewals().is_none(), "none is due yet");
    stage.pass(TTL * 11 / 2).await;
    let failed = all.failed_renewals().expect("renewals are due and fail");
    assert!(failed.count >= 1 && failed.last_error.kind() == ErrorKind::Unavailable);
    assert!(!all.is_lost());
}
