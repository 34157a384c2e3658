//! Tests of semaphores and read-write locks with a fake clock and a store that fails on demand.

use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::LossBell;
use fencepost::backend::records::Replaced;
use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, Fault, poll_at_most};
use fencepost::{Effect, ErrorKind, LostReason, Operation, ReleaseOutcome};

#[path = "../locker/forward.rs"]
mod forward;
mod odd_stores;
mod stage;
mod waiting;

use odd_stores::{Late, Reading, Ringing, WithoutRecords};
use stage::{Stage, TIMEOUT, TTL, key, locker, read, records, semaphore, settle, take};

#[tokio::test]
async fn a_kept_permit_stays_valid_for_many_ttls() {
    let stage = Stage::new();
    let permit = take(&stage.semaphore(1), 1).await;
    stage.pass(TTL * 60).await;
    assert!(!permit.is_lost());
    assert!(permit.valid_for() > TTL / 2 && permit.valid_for() < TTL);
    assert!(permit.release().await.is_released());
}

#[tokio::test]
async fn permits_of_one_name_are_renewed_together() {
    let stage = Stage::new();
    let semaphore = stage.semaphore(100);
    let mut permits = Vec::new();
    for _ in 0..50 {
        permits.push(take(&semaphore, 1).await);
    }
    let before = stage.store.requests(Operation::ReplaceRecord);
    stage.pass(TTL * 3).await;
    assert!(permits.iter().all(|permit| !permit.is_lost()));
    let renewals = stage.store.requests(Operation::ReplaceRecord) - before;
    // Three per TTL, and a few more because not all were granted at once.
    assert!((3..30).contains(&renewals), "{renewals} replacements");
}

#[tokio::test]
async fn a_permit_whose_renewals_fail_is_lost_at_the_end_of_its_lease() {
    let stage = Stage::new();
    let permit = take(&stage.semaphore(1), 1).await;
    stage.store.fail_every(Operation::ReadRecord, Fault::Refuse);
    stage.pass(TTL / 2).await;
    assert!(!permit.is_lost());
    let failed = permit.failed_renewals().expect("failed renewals");
    assert_eq!(failed.last_error.operation(), Operation::Renew);
    stage.pass(TTL / 2).await;
    assert_eq!(permit.lost().await.reason(), LostReason::Expired);
    stage.store.heal();
    assert!(matches!(
        permit.release().await,
        ReleaseOutcome::AlreadyLost
    ));
    assert!(
        stage
            .rival(1)
            .try_acquire(1)
            .await
            .expect("an answer")
            .is_some()
    );
}

#[tokio::test]
async fn a_permit_that_was_taken_away_is_lost_at_its_next_renewal() {
    let stage = Stage::new();
    let writer = stage
        .rw_lock()
        .try_write()
        .await
        .expect("an answer")
        .expect("free");
    let seen = read(&*stage.memory).await;
    let empty = b"fencepost shares 1\nera \ncapacity read-write\nlast epoch=9 ticket=0\n";
    let replaced = records(&*stage.memory)
        .replace(&key(), &seen, empty, TTL)
        .await;
    assert_eq!(replaced.expect("an answer"), Replaced::Yes);
    stage.pass(TTL).await;
    assert_eq!(writer.lost().await.reason(), LostReason::Gone);
    let next = stage.rw_lock().try_write().await.expect("an answer");
    assert_eq!(
        next.expect("free").fence().epoch(),
        10,
        "counted in the record"
    );
}

#[tokio::test]
async fn a_loss_is_told_when_the_bell_of_the_store_rings() {
    let stage = Stage::new();
    let store = Arc::new(Ringing {
        inner: stage.memory.clone(),
        bell: LossBell::new(),
    });
    let permit = take(&semaphore(&locker(store.clone()), 1), 1).await;
    stage.pass(Duration::from_secs(1)).await;
    let seen = read(&*stage.memory).await;
    let empty = b"fencepost shares 1\nera \ncapacity permits=1\nlast epoch=1 ticket=0\n";
    let replaced = records(&*stage.memory)
        .replace(&key(), &seen, empty, TTL)
        .await;
    assert_eq!(replaced.expect("an answer"), Replaced::Yes);
    store.bell.ring_all();
    settle().await;
    assert!(permit.is_lost(), "before its next renewal");
    assert_eq!(permit.lost().await.reason(), LostReason::Gone);
}

#[tokio::test]
async fn a_lost_answer_to_a_grant_leaves_nothing() {
    let stage = Stage::new();
    stage
        .store
        .fail_next(Operation::ReplaceRecord, Fault::LoseAnswer);
    let error = stage
        .semaphore(1)
        .try_acquire(1)
        .await
        .expect_err("told to fail");
    assert_eq!(
        (error.effect(), error.operation()),
        (Effect::Maybe, Operation::Acquire)
    );
    settle().await;
    assert!(!stage.has("share").await);
    assert!(
        stage
            .rival(1)
            .try_acquire(1)
            .await
            .expect("an answer")
            .is_some()
    );
}

#[tokio::test]
async fn an_unanswered_grant_leaves_nothing() {
    let stage = Stage::new();
    for fault in [Fault::Swallow, Fault::SwallowAnswer] {
        stage.store.fail_next(Operation::ReplaceRecord, fault);
        let semaphore = stage.semaphore(1);
        let asking = tokio::spawn(async move { semaphore.try_acquire(1).await });
        settle().await;
        stage.pass(TIMEOUT).await;
        let error = asking.await.expect("no panic").expect_err("no answer");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Maybe)
        );
        settle().await;
        assert!(!stage.has("share").await, "{fault:?}");
    }
}

/// The grant takes effect after everybody believes that it is gone, unless the release replaces the record although it is empty.
#[tokio::test]
async fn a_grant_that_comes_late_comes_to_nothing() {
    let clock = FakeClock::new();
    let store = Late::new(&clock);
    let locker = locker(store.clone());
    let semaphore = semaphore(&locker, 1);
    store.keep_back(1);
    assert!(poll_at_most(1, semaphore.try_acquire(1)).await.is_none());
    settle().await;
    assert_eq!(store.deliver().await, [Replaced::Outdated]);
    assert!(semaphore.try_acquire(1).await.expect("an answer").is_some());
}

/// The same for a place in line.
#[tokio::test]
async fn a_place_that_comes_late_comes_to_nothing() {
    let clock = FakeClock::new();
    let store = Late::new(&clock);
    let locker = locker(store.clone());
    let semaphore = semaphore(&locker, 1);
    let held = take(&semaphore, 1).await;
    store.keep_back(1);
    assert!(poll_at_most(1, semaphore.acquire(1)).await.is_none());
    settle().await;
    assert_eq!(store.deliver().await, [Replaced::Outdated]);
    assert!(held.release().await.is_released());
    assert!(semaphore.try_acquire(1).await.expect("an answer").is_some());
}

/// A downgrade has two owners, and both leave.
#[tokio::test]
async fn a_downgrade_that_comes_late_comes_to_nothing() {
    let clock = FakeClock::new();
    let store = Late::new(&clock);
    let locker = locker(store.clone());
    let lock = locker.rw_lock("a").expect("records");
    let writer = lock.try_write().await.expect("an answer").expect("free");
    store.keep_back(1);
    assert!(poll_at_most(1, writer.downgrade()).await.is_none());
    settle().await;
    assert_eq!(store.deliver().await, [Replaced::Outdated]);
    assert!(lock.try_write().await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_release_that_is_not_answered_is_repeated() {
    let stage = Stage::new();
    let permit = take(&stage.semaphore(1), 1).await;
    stage
        .store
        .fail_next(Operation::ReplaceRecord, Fault::LoseAnswer);
    let outcome = permit.release().await;
    assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
    settle().await;
    assert!(!stage.has("share").await);
}

#[tokio::test]
async fn a_release_of_what_is_certain_costs_no_second_replacement() {
    let stage = Stage::new();
    let semaphore = stage.semaphore(1);
    assert!(take(&semaphore, 1).await.release().await.is_released());
    assert_eq!(stage.store.requests(Operation::ReplaceRecord), 2);
    let held = take(&stage.rival(1), 1).await;
    assert!(semaphore.try_acquire(1).await.expect("an answer").is_none());
    assert_eq!(
        stage.store.requests(Operation::ReplaceRecord),
        2,
        "a refused attempt writes nothing"
    );
    drop(held);
}

#[tokio::test]
async fn a_downgrade_whose_answer_is_lost_gives_the_lock_up() {
    let stage = Stage::new();
    let lock = stage.rw_lock();
    let writer = lock.try_write().await.expect("an answer").expect("free");
    stage
        .store
        .fail_next(Operation::ReplaceRecord, Fault::LoseAnswer);
    let error = writer.downgrade().await.expect_err("told to fail");
    assert_eq!(error.effect(), Effect::Maybe);
    settle().await;
    assert!(!stage.has("share").await);
    assert!(lock.try_write().await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_shutdown_ends_semaphores_that_were_made_before_and_after() {
    let stage = Stage::new();
    let before = stage.semaphore(1);
    let permit = take(&before, 1).await;
    stage.locker.shutdown().await;
    assert_eq!(permit.lost().await.reason(), LostReason::Shutdown);
    assert!(!stage.has("share").await);
    let after = stage.semaphore(1);
    for semaphore in [before, after] {
        let closed = ErrorKind::Closed;
        assert_eq!(
            semaphore.try_acquire(1).await.expect_err("closed").kind(),
            closed
        );
        assert_eq!(
            semaphore.permits().await.expect_err("closed").kind(),
            closed
        );
        assert_eq!(
            semaphore.resize(2).await.expect_err("closed").kind(),
            closed
        );
    }
}

#[tokio::test]
async fn a_permit_outlives_its_locker() {
    let stage = Stage::new();
    let own = locker(stage.memory.clone());
    let permit = take(&semaphore(&own, 1), 1).await;
    drop(own);
    stage.pass(TTL * 3).await;
    assert!(!permit.is_lost());
    assert!(permit.release().await.is_released());
}

#[tokio::test]
async fn a_store_without_records_says_so() {
    let store = WithoutRecords {
        inner: Memory::new(),
    };
    let locker = locker(Arc::new(store));
    let errors = [locker.semaphore("a", 1).err(), locker.rw_lock("a").err()];
    for error in errors {
        let error = error.expect("no records");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("keeps no records; use a store"),
            "{error}"
        );
    }
    assert!(
        locker.try_acquire("a").await.expect("an answer").is_some(),
        "locks work"
    );
}

#[tokio::test]
async fn a_store_without_a_clock_says_so() {
    let change = |mut seen: fencepost::backend::records::Snapshot| {
        seen.time = None;
        seen
    };
    let inner = Arc::new(Memory::new());
    let locker = locker(Arc::new(Reading { inner, change }));
    let semaphore = semaphore(&locker, 1);
    let lock = locker.rw_lock("a").expect("records");
    let errors = [
        semaphore.try_acquire(1).await.err(),
        semaphore.acquire(1).await.err(),
        semaphore.permits().await.err(),
        semaphore.resize(2).await.err(),
        lock.read().await.err(),
    ];
    for error in errors {
        let error = error.expect("no clock");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error
                .message()
                .contains("no clock that its clients can ask"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_newer_layout_is_refused_and_stays_as_it_is() {
    let stage = Stage::new();
    let seen = read(&*stage.memory).await;
    let newer = b"fencepost shares 2\nwhatever comes\n";
    let replaced = records(&*stage.memory)
        .replace(&key(), &seen, newer, TTL)
        .await;
    replaced.expect("an answer");
    let semaphore = stage.semaphore(1);
    for error in [
        semaphore.try_acquire(1).await.expect_err("a newer layout"),
        semaphore.acquire(1).await.expect_err("a newer layout"),
        semaphore.resize(2).await.expect_err("a newer layout"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unusable);
        assert!(error.message().contains("upgrade this program"), "{error}");
    }
    settle().await;
    assert_eq!(stage.record().await.as_bytes(), newer);
}

#[tokio::test]
async fn what_can_never_be_is_an_error_at_once() {
    let stage = Stage::new();
    let zero = stage.locker.semaphore("a", 0).expect_err("no permit");
    let none = stage
        .semaphore(1)
        .try_acquire(0)
        .await
        .expect_err("no permit");
    let many = stage
        .semaphore(1)
        .acquire_within(2, TTL)
        .await
        .expect_err("two of one");
    for error in [&zero, &none, &many] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let text = "2 permits of a can never be had: there are only 1";
    assert!(many.message().contains(text), "{many}");
    let hostile = stage.locker.semaphore("a\nb", 1).expect_err("a bad name");
    assert_eq!(hostile.kind(), ErrorKind::InvalidInput);
}

/// What another owner holds ends by its time alone, and the next one has a larger fence.
#[tokio::test]
async fn without_keep_alive_a_permit_ends_after_its_ttl() {
    let stage = Stage::new();
    let settings = fencepost::Locker::builder(stage.memory.clone());
    let own = settings
        .ttl(TTL)
        .keep_alive(false)
        .build()
        .expect("valid settings");
    let permit = take(&semaphore(&own, 1), 1).await;
    let waiting = {
        let rival = stage.rival(1);
        tokio::spawn(async move { rival.acquire(1).await })
    };
    settle().await;
    stage.pass(TTL - Duration::from_millis(150)).await;
    assert!(!waiting.is_finished());
    stage.pass(Duration::from_millis(300)).await;
    assert!(permit.is_lost());
    let next = waiting.await.expect("no panic").expect("an answer");
    assert!(next.fence() > permit.fence());
}
