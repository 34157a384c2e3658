//! Semaphores and read-write locks: what a store that fails, is silent or is slow does to those who wait, hold and release.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost::clock::Clock;
use fencepost::testing::{FakeClock, Fault};
use fencepost::{
    Backend, Effect, ErrorKind, Locker, LostReason, Operation, Permit, ReleaseOutcome, RwLock,
    Semaphore,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::odd_store::OddStore;
use crate::stage::{Stage, TTL};

const FAULTS: [Fault; 4] = [
    Fault::Refuse,
    Fault::LoseAnswer,
    Fault::Swallow,
    Fault::SwallowAnswer,
];
/// What a semaphore and a read-write lock ask of their store.
const REQUESTS: [Operation; 2] = [Operation::ReadRecord, Operation::ReplaceRecord];

fn semaphore(stage: &Stage) -> Semaphore {
    stage.locker().semaphore("gpu", 1).unwrap()
}

fn rw_lock(stage: &Stage) -> RwLock {
    stage.locker().rw_lock("config").unwrap()
}

/// Another process, whose requests never fail.
fn rival(stage: &Stage) -> Locker {
    let settings = Locker::builder(stage.memory.clone());
    settings.ttl(TTL).build().unwrap()
}

/// Takes the permit by the rival, and lets somebody wait for it.
async fn somebody_waits(
    stage: &Stage,
) -> (Permit, tokio::task::JoinHandle<fencepost::Result<Permit>>) {
    let held = rival(stage).semaphore("gpu", 1).unwrap().acquire(1).await;
    let waiter = semaphore(stage);
    let waiting = tokio::spawn(async move { waiter.acquire(1).await });
    stage.pass(Duration::from_secs(1)).await;
    (held.unwrap(), waiting)
}

/// Checks that somebody else can have everything at once, and that nobody is in the way.
async fn assert_free(stage: &Stage) {
    let rival = rival(stage);
    let permit = rival
        .semaphore("gpu", 1)
        .unwrap()
        .try_acquire(1)
        .await
        .unwrap();
    let writer = rival.rw_lock("config").unwrap().try_write().await.unwrap();
    assert!(permit.is_some() && writer.is_some(), "something is left");
}

#[tokio::test]
async fn a_waiter_outlasts_any_failure_of_one_request() {
    for operation in REQUESTS {
        for fault in FAULTS {
            let stage = Stage::new();
            let (held, waiting) = somebody_waits(&stage).await;
            stage.store.fail_next(operation, fault);
            assert!(held.release().await.is_released());
            let permit = stage.in_time(waiting).await.unwrap();
            let permit = permit.unwrap_or_else(|error| panic!("{operation:?} {fault:?}: {error}"));
            assert_eq!(permit.slot(), 0);
            assert!(stage.in_time(permit.release()).await.is_released());
            assert_free(&stage).await;
        }
    }
}

#[tokio::test]
async fn a_waiter_sits_out_a_store_that_is_silent_and_gets_its_turn() {
    let stage = Stage::new();
    let (held, waiting) = somebody_waits(&stage).await;
    stage
        .store
        .fail_every(Operation::ReadRecord, Fault::Swallow);
    stage.pass(Duration::from_secs(20)).await;
    assert!(!waiting.is_finished());
    // What was sent before stays unanswered.
    stage.store.heal();
    assert!(held.release().await.is_released());
    let granted = stage.clock.now();
    let permit = stage.in_time(waiting).await.unwrap();
    let took = stage.clock.now().saturating_duration_since(granted);
    assert!(permit.is_ok() && took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test]
async fn a_waiter_gives_up_after_an_outage_of_the_time_of_the_store() {
    for fault in [Fault::Refuse, Fault::Swallow] {
        let stage = Stage::new();
        let (held, waiting) = somebody_waits(&stage).await;
        stage.store.fail_every(Operation::ReadRecord, fault);
        let began = stage.clock.now();
        let error = stage.in_time(waiting).await.unwrap().unwrap_err();
        let took = stage.clock.now().saturating_duration_since(began);
        let longest = stage.store.max_outage();
        assert_eq!(longest, Duration::from_secs(30));
        // The outage begins with the next request, at most three seconds later.
        let expected = longest..longest + Duration::from_secs(8);
        assert!(expected.contains(&took), "{fault:?}: {took:?}");
        assert_eq!(error.effect(), Effect::Maybe, "it may stand in line");
        let kind = if fault == Fault::Refuse {
            ErrorKind::Unavailable
        } else {
            ErrorKind::Timeout
        };
        assert_eq!(error.kind(), kind, "{error}");
        stage.store.heal();
        drop(held);
        stage.pass(TTL).await;
        assert_free(&stage).await;
    }
}

#[tokio::test]
async fn a_renewal_that_fails_is_repeated_before_anything_is_lost() {
    for operation in REQUESTS {
        for fault in FAULTS {
            let stage = Stage::new();
            let permit = semaphore(&stage).acquire(1).await.unwrap();
            let writer = rw_lock(&stage).write().await.unwrap();
            for _ in 0..2 {
                stage.store.fail_next(operation, fault);
            }
            stage.pass(TTL * 3).await;
            assert!(
                !permit.is_lost() && !writer.is_lost(),
                "{operation:?} {fault:?}"
            );
            assert!(stage.in_time(permit.release()).await.is_released());
            assert!(stage.in_time(writer.release()).await.is_released());
            assert_free(&stage).await;
        }
    }
}

#[tokio::test]
async fn a_release_that_fails_is_repeated_until_nothing_is_left() {
    for operation in REQUESTS {
        for fault in FAULTS {
            let stage = Stage::new();
            let permit = semaphore(&stage).acquire(1).await.unwrap();
            let reader = rw_lock(&stage).read().await.unwrap();
            for _ in 0..2 {
                stage.store.fail_next(operation, fault);
            }
            let both = async { tokio::join!(permit.release(), reader.release()) };
            let (one, other) = stage.in_time(both).await;
            for outcome in [one, other] {
                assert!(
                    matches!(outcome, ReleaseOutcome::Unknown(_)),
                    "{operation:?} {fault:?}: {outcome:?}"
                );
            }
            stage.pass(Duration::from_secs(2)).await;
            assert_free(&stage).await;
        }
    }
}

#[tokio::test]
async fn a_downgrade_that_fails_leaves_neither_a_writer_nor_a_reader() {
    for operation in REQUESTS {
        for fault in FAULTS {
            let stage = Stage::new();
            let writer = rw_lock(&stage).write().await.unwrap();
            stage.store.fail_next(operation, fault);
            let reader = stage.in_time(writer.downgrade()).await;
            let error = reader.expect_err("told to fail");
            assert!(error.is_transient(), "{operation:?} {fault:?}: {error}");
            stage.pass(Duration::from_secs(2)).await;
            assert_free(&stage).await;
        }
    }
}

#[tokio::test]
async fn a_name_that_everybody_changes_costs_no_other_name_its_permits() {
    let clock = FakeClock::new();
    let store = OddStore::new(clock.clone());
    for store_timeout in [TTL, TTL / 10] {
        let settings = Locker::builder(store.clone()).ttl(TTL);
        let locker = settings.store_timeout(store_timeout).build().unwrap();
        let hot = locker
            .semaphore("hot", 2)
            .unwrap()
            .acquire(1)
            .await
            .unwrap();
        let calm = locker.semaphore("calm", 2).unwrap().acquire(1).await;
        let calm = calm.unwrap();
        store.is_hot.store(true, Ordering::SeqCst);
        let step = Duration::from_millis(100);
        clock.advance_in_steps(TTL * 3, step).await;
        assert_eq!(hot.lost().await.reason(), LostReason::Expired);
        assert!(!calm.is_lost(), "with a store timeout of {store_timeout:?}");
        store.is_hot.store(false, Ordering::SeqCst);
        drop(hot);
        assert!(calm.release().await.is_released());
    }
}

#[tokio::test]
async fn a_downgrade_is_not_reported_as_a_loss() {
    let clock = FakeClock::new();
    let store = OddStore::new(clock.clone());
    let recorder = DebuggingRecorder::new();
    let recorded = recorder.snapshotter();
    let lock = metrics::with_local_recorder(&recorder, || {
        let settings = Locker::builder(store.clone()).ttl(TTL);
        settings.build().unwrap().rw_lock("config").unwrap()
    });
    let writer = lock.write().await.unwrap();
    clock
        .advance_in_steps(TTL / 10, Duration::from_millis(100))
        .await;
    // The store answers late. In the meantime, the keeper has reason to ask about what it believes to be held.
    store.late_ms.store(2_000, Ordering::SeqCst);
    let downgrade = tokio::spawn(writer.downgrade());
    for _ in 0..30 {
        store.bell.ring_all();
        clock
            .advance_in_steps(Duration::from_millis(100), Duration::from_millis(100))
            .await;
    }
    let reader = downgrade.await.unwrap().unwrap();
    assert!(!reader.is_lost());
    let all = recorded.snapshot().into_vec();
    let lost = all.into_iter().filter_map(|(key, _, _, value)| {
        let is_loss = key.key().name() == "fencepost_lost_total";
        (is_loss && value != DebugValue::Counter(0)).then_some(key)
    });
    assert_eq!(lost.count(), 0, "nobody has lost anything");
}
