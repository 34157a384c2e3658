//! Tests of the locker with a fake clock and a store that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, Fault, FlakyStore};
use fencepost::{
    Backend, Effect, ErrorKind, Fence, HandOver, LockName, Locker, Lost, LostReason, MAX_TTL,
    Operation, ReleaseOutcome,
};

mod contexts;
mod forward;
mod loss_bell;
mod multi;
mod odd_stores;
mod races;
mod renewals;
mod stage;

use odd_stores::{LateOnce, Worn};
use stage::{Stage, TIMEOUT, TTL, runtime, settle};

#[tokio::test]
async fn a_kept_guard_stays_valid_for_many_ttls() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    stage.pass(Duration::from_secs(600)).await;
    assert!(!guard.is_lost());
    // Leases are renewed after a third, so about two thirds are always left.
    assert!(guard.valid_for() > TTL / 2, "{:?}", guard.valid_for());
    assert!(guard.valid_for() < TTL);
}

#[tokio::test]
async fn a_failed_renewal_is_no_loss_until_the_end_of_the_lease() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.pass(Duration::from_secs(8)).await;
    assert!(!guard.is_lost(), "the lease runs for ten seconds");
    stage.store.heal();
    stage.pass(Duration::from_secs(30)).await;
    assert!(!guard.is_lost(), "renewed again in time");

    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.pass(TTL).await;
    assert!(guard.is_lost());
    let lost = guard.lost().await;
    assert_eq!(lost.reason(), LostReason::Expired);
    assert_eq!(lost.name().as_str(), "a");
    let failed = lost.failed_renewals().expect("kept");
    assert!(failed.count >= 3, "{lost:?}");
    assert_eq!(failed.last_error.kind(), ErrorKind::Unavailable);
    let text = format!(
        "the lock a was lost: its lease ended without renewal ({} renewals failed)",
        failed.count
    );
    assert_eq!(lost.to_string(), text);
    let source = std::error::Error::source(&lost).map(ToString::to_string);
    assert_eq!(source, Some(failed.last_error.to_string()));
}

#[tokio::test]
async fn a_loss_without_a_failed_renewal_names_none() {
    let stage = Stage::new();
    let guard = stage.take("stock:1").await;
    stage.locker.shutdown().await;
    let lost = guard.lost().await;
    assert!(lost.failed_renewals().is_none());
    assert!(std::error::Error::source(&lost).is_none());
    let text = "the lock stock:1 was given up: its locker was shut down";
    assert_eq!(lost.to_string(), text);
}

#[tokio::test]
async fn a_silent_store_does_not_keep_a_lock_alive() {
    for fault in [Fault::Swallow, Fault::SwallowAnswer] {
        let stage = Stage::new();
        let guard = stage.take("a").await;
        stage.store.fail_every(Operation::Renew, fault);
        stage.pass(TTL).await;
        assert!(guard.is_lost(), "{fault:?}");
        assert_eq!(guard.lost().await.reason(), LostReason::Expired);
        let error = guard.extend(TTL).await.expect_err("lost");
        assert_eq!(error.message(), "the lock a is lost");
        let why = std::error::Error::source(&error);
        assert!(why.is_some_and(|why| why.is::<Lost>()));
        assert!(matches!(guard.release().await, ReleaseOutcome::AlreadyLost));
    }
}

#[tokio::test]
async fn a_loss_tells_every_holder_and_every_listener() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    let inner = guard.reenter();
    let listeners: Vec<_> = [guard.reenter(), guard.reenter()]
        .map(|guard| tokio::spawn(async move { guard.lost().await.reason() }))
        .into();
    settle().await;
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.pass(TTL).await;
    assert!(guard.is_lost() && inner.is_lost());
    for listener in listeners {
        assert_eq!(listener.await.expect("no panic"), LostReason::Expired);
    }
}

#[tokio::test]
async fn a_machine_that_slept_takes_no_further_step() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    let steps = Arc::new(AtomicU32::new(0));
    let bell = Arc::new(tokio::sync::Notify::new());
    let work = {
        let (steps, bell) = (steps.clone(), bell.clone());
        async move {
            loop {
                steps.fetch_add(1, Ordering::Relaxed);
                bell.notified().await;
            }
        }
    };
    let running = tokio::spawn(async move { guard.run(work).await.expect_err("lost").reason() });
    settle().await;
    bell.notify_one();
    settle().await;
    assert_eq!(steps.load(Ordering::Relaxed), 2);
    // The clock jumps, as after a suspend. The work is woken, but no timer is.
    bell.notify_one();
    stage.clock.jump(TTL);
    assert_eq!(running.await.expect("no panic"), LostReason::Expired);
    assert_eq!(
        steps.load(Ordering::Relaxed),
        2,
        "a step after the end of the lease"
    );
}

#[tokio::test]
async fn work_that_ends_after_the_lease_is_reported_as_lost() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    let clock = stage.clock.clone();
    let result = guard.run(async move { clock.advance(TTL) }).await;
    assert_eq!(result.expect_err("lost").reason(), LostReason::Expired);
}

#[tokio::test]
async fn the_next_in_line_asks_anew_when_a_lease_is_lost() {
    let stage = Stage::new();
    let stale = stage.take("a").await;
    let next = tokio::spawn({
        let locker = stage.locker.clone();
        async move { locker.acquire("a").await }
    });
    settle().await;
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.pass(TTL).await;
    stage.store.heal();
    let next = next.await.expect("no panic").expect("an answer");
    assert!(stale.is_lost() && !next.is_lost());
    assert!(next.fence() > stale.fence());
    assert!(matches!(stale.release().await, ReleaseOutcome::AlreadyLost));
    assert!(!next.is_lost(), "a stale release touches nobody");
    assert!(next.release().await.is_released());
}

#[tokio::test]
async fn a_lost_answer_leaves_no_lock() {
    let stage = Stage::new();
    for manner in ["try", "wait"] {
        stage.store.fail_next(Operation::Acquire, Fault::LoseAnswer);
        let answer = match manner {
            "try" => stage.locker.try_acquire("a").await,
            _ => stage.locker.acquire("a").await.map(Some),
        };
        let error = answer.expect_err("the answer was lost");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Maybe)
        );
        settle().await;
        assert!(
            stage.is_free("a").await,
            "{manner}: what was granted has been given back"
        );
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_error_in_time() {
    for fault in [Fault::Swallow, Fault::SwallowAnswer] {
        let stage = Stage::new();
        stage.store.fail_next(Operation::Acquire, fault);
        let patient = tokio::spawn({
            let locker = stage.locker.clone();
            async move { locker.acquire("a").await }
        });
        settle().await;
        // It is behind the patient one, in the local line.
        let hasty = tokio::spawn({
            let locker = stage.locker.clone();
            async move { locker.acquire_within("a", Duration::from_secs(1)).await }
        });
        settle().await;
        stage.pass(Duration::from_secs(1)).await;
        assert!(hasty.is_finished(), "{fault:?}: within its own timeout");
        let error = hasty
            .await
            .expect("no panic")
            .expect_err("the store was never heard");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Maybe)
        );
        assert!(!patient.is_finished());
        stage.pass(TIMEOUT).await;
        let error = patient
            .await
            .expect("no panic")
            .expect_err("the store was never heard");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        settle().await;
        assert!(stage.is_free("a").await, "{fault:?}");
    }
}

#[tokio::test]
async fn a_failing_store_fails_the_whole_line_at_once() {
    let stage = Stage::new();
    stage.store.fail_next(Operation::Acquire, Fault::Swallow);
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let locker = stage.locker.clone();
            tokio::spawn(async move { locker.acquire("a").await })
        })
        .collect();
    settle().await;
    stage.pass(TIMEOUT).await;
    for task in tasks {
        assert!(task.is_finished(), "not one timeout after another");
        let error = task.await.expect("no panic").expect_err("the store failed");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    assert!(stage.is_free("a").await);
}

#[tokio::test]
async fn an_unconfirmed_release_goes_on_in_the_background() {
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        let stage = Stage::new();
        let guard = stage.take("a").await;
        stage.store.fail_next(Operation::Release, fault);
        assert!(
            matches!(guard.release().await, ReleaseOutcome::Unknown(_)),
            "{fault:?}"
        );
        settle().await;
        assert!(stage.is_free("a").await, "{fault:?}");
    }
}

#[tokio::test]
async fn a_dropped_guard_is_released_when_the_store_is_back() {
    let stage = Stage::new();
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    drop(stage.take("a").await);
    stage.pass(Duration::from_secs(2)).await;
    assert!(!stage.is_free("a").await);
    stage.store.heal();
    stage.pass(Duration::from_secs(2)).await;
    assert!(stage.is_free("a").await, "long before the end of its TTL");
}

#[tokio::test]
async fn a_long_lease_is_released_after_a_long_outage() {
    let mut stage = Stage::new();
    let locker = Locker::builder(stage.store.clone()).ttl(Duration::from_secs(3600));
    stage.locker = locker.build().expect("valid settings");
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    drop(stage.take("a").await);
    stage.pass(Duration::from_secs(300)).await;
    assert!(!stage.is_free("a").await);
    stage.store.heal();
    stage.pass(Duration::from_secs(2)).await;
    assert!(stage.is_free("a").await, "long before the end of its TTL");
}

#[tokio::test]
async fn an_extended_lease_is_released_after_a_long_outage() {
    let stage = Stage::new();
    let guard = stage.take("a").await;
    guard.extend(TTL * 6).await.expect("a held lock");
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    drop(guard);
    stage.pass(TTL * 3).await;
    assert!(!stage.is_free("a").await);
    stage.store.heal();
    stage.pass(Duration::from_secs(2)).await;
    assert!(stage.is_free("a").await, "half a minute before its end");
}

#[tokio::test]
async fn an_owner_is_never_left_alone_by_a_reply_that_comes_late() {
    // The store grants, but the answer takes longer than the lease. Asked again, the store extends the same lease.
    let clock = FakeClock::new();
    let late = Arc::new(LateOnce {
        inner: Memory::with_clock(clock.clone()),
        clock: clock.clone(),
        late_answers: AtomicU32::new(1),
    });
    let locker = Locker::builder(late.clone())
        .ttl(TTL)
        .build()
        .expect("valid settings");
    let guard = locker.acquire("a").await.expect("an answer");
    assert!(!guard.is_lost() && guard.valid_for() > TTL / 2);
    drop(guard);

    // A store that is always slower than the TTL is reported, rather than asked for ever.
    late.late_answers.store(u32::MAX, Ordering::Relaxed);
    let error = locker
        .acquire("b")
        .await
        .expect_err("every grant came too late");
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_fence_that_would_wrap_around_is_refused() {
    for (epoch, fits) in [
        (Fence::EPOCH_END - 1, true),
        (Fence::EPOCH_END, false),
        (u64::MAX, false),
    ] {
        let inner = Memory::new();
        let store = Arc::new(Worn { inner, epoch });
        let locker = Locker::new(store.clone());
        match locker.acquire("a").await {
            Ok(guard) => assert!(fits && guard.fence().epoch() == epoch),
            Err(error) => assert!(!fits && error.kind() == ErrorKind::FenceExhausted),
        }
        let name = LockName::new("a").expect("a valid name");
        let mut left = store.inspect(&name).await.expect("an answer");
        for _ in 0..1_000 {
            settle().await;
            left = store.inspect(&name).await.expect("an answer");
        }
        assert_eq!(left, None, "the unusable grant was given back");
    }
}

#[tokio::test]
async fn settings_out_of_range_are_refused_with_the_range() {
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    for ttl in [
        Duration::ZERO,
        Duration::from_millis(1),
        year,
        Duration::MAX,
    ] {
        let error = Locker::builder(Arc::new(Memory::new())).ttl(ttl).build();
        let error = error.expect_err("out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("20ms to 24 h"), "{error}");
    }
    assert!(
        Locker::builder(Arc::new(Memory::new()))
            .ttl(MAX_TTL)
            .build()
            .is_ok()
    );
    for timeout in [Duration::ZERO, Duration::MAX] {
        let builder = Locker::builder(Arc::new(Memory::new())).store_timeout(timeout);
        assert!(builder.build().is_err());
    }
    let limits = HandOver::new().min_valid_percent(101);
    let builder = Locker::builder(Arc::new(Memory::new())).hand_over(limits);
    assert!(builder.build().is_err());
    assert!(
        Locker::builder(Arc::new(Memory::new()))
            .label("a\nb")
            .build()
            .is_err()
    );
    let locker = Locker::new(Arc::new(Memory::new()));
    for name in ["", "a\0b", "a\nb", &"x".repeat(10_000)] {
        let error = locker.acquire(name).await.expect_err("not a name");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_hold_moves_between_tasks_and_threads() {
    fn can_move<T: Send + Sync + 'static>(value: T) -> T {
        value
    }
    let stage = Stage::new();
    let guard = can_move(stage.take("a").await);
    let guard = tokio::spawn(async move { guard }).await.expect("no panic");
    let guard = std::thread::spawn(move || guard).join().expect("no panic");
    assert!(!guard.is_lost());
    // Dropped where there is no runtime at all.
    std::thread::spawn(move || drop(guard))
        .join()
        .expect("no panic");
    settle().await;
    assert!(stage.is_free("a").await);
}

#[tokio::test]
async fn a_try_that_meets_another_attempt_waits_for_its_answer() {
    let stage = Stage::new();
    stage.store.fail_next(Operation::Acquire, Fault::Swallow);
    let mut first = Box::pin(stage.locker.try_acquire("a"));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(stage.locker.try_acquire("a"));
    assert!(
        futures_util::poll!(&mut second).is_pending(),
        "not refused because of a mere attempt"
    );
    drop(first);
    let guard = second.await.expect("an answer");
    assert!(guard.is_some(), "the attempt before it was given up");
    assert!(
        stage
            .locker
            .try_acquire("a")
            .await
            .expect("an answer")
            .is_none()
    );
}

#[tokio::test]
async fn the_time_limit_of_hand_over_is_kept() {
    let clock = FakeClock::new();
    let store: Arc<dyn Backend> = Arc::new(Memory::with_clock(clock.clone()));
    let limits = HandOver::new().max_time(Duration::from_millis(50));
    let locker = Locker::builder(store.clone())
        .ttl(TTL)
        .hand_over(limits)
        .build()
        .expect("valid settings");
    let mut epochs = Vec::new();
    let mut guard = locker.acquire("a").await.expect("an answer");
    for _ in 0..10 {
        let mut next = Box::pin(locker.acquire("a"));
        assert!(futures_util::poll!(&mut next).is_pending());
        clock.advance(Duration::from_millis(20));
        epochs.push(guard.fence().epoch());
        drop(guard);
        guard = next.await.expect("an answer");
    }
    // Handed over after 20 and 40 ms, and released to the store after 60.
    let under_one_lease = epochs.chunk_by(|a, b| a == b).map(<[u64]>::len);
    assert_eq!(under_one_lease.collect::<Vec<_>>(), [3, 3, 3, 1]);
}
