//! Tests of the blocking API on ordinary threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost::blocking::Locker;
use fencepost::stores::memory::Memory;
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, ErrorKind, LockName, LostReason, Operation, ReleaseOutcome};

fn locker(store: Arc<dyn Backend>, ttl: Duration) -> Locker {
    Locker::builder(store)
        .ttl(ttl)
        .build()
        .expect("valid settings")
}

#[test]
fn threads_exclude_each_other() {
    let locker = locker(Arc::new(Memory::new()), Duration::from_secs(60));
    let counter = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    let guard = locker.acquire("counter").expect("an answer");
                    let seen = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(counter.load(Ordering::Relaxed), 1_000);
}

#[test]
fn dropping_everything_gives_everything_back() {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let rival = locker(store.clone(), Duration::from_secs(60));
    for _ in 0..50 {
        let short_lived = locker(store.clone(), Duration::from_secs(60));
        let guard = short_lived.acquire("a").expect("an answer");
        assert!(rival.try_acquire("a").expect("an answer").is_none());
        drop(guard);
        drop(short_lived);
        let free = rival.try_acquire("a").expect("an answer");
        assert!(free.is_some(), "given back before the last handle was gone");
    }
}

#[test]
fn dropping_everything_gives_permits_and_read_write_locks_back() {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let rival = locker(store.clone(), Duration::from_secs(60));
    let permits = rival.semaphore("a", 2).expect("records");
    let config = rival.rw_lock("b").expect("records");
    for _ in 0..50 {
        let short_lived = locker(store.clone(), Duration::from_secs(60));
        let permit = short_lived.semaphore("a", 2).expect("records").acquire(2);
        let writer = short_lived.rw_lock("b").expect("records").write();
        let held = (permit.expect("an answer"), writer.expect("an answer"));
        assert!(permits.try_acquire(1).expect("an answer").is_none());
        assert!(config.try_read().expect("an answer").is_none());
        drop(held);
        drop(short_lived);
        let free = permits.try_acquire(2).expect("an answer");
        assert!(free.is_some(), "given back before the last handle was gone");
        assert!(config.try_write().expect("an answer").is_some());
    }
}

#[test]
fn permits_and_read_write_locks_exclude_threads() {
    let locker = locker(Arc::new(Memory::new()), Duration::from_secs(60));
    let (permits, config) = (locker.semaphore("a", 2), locker.rw_lock("b"));
    let (permits, config) = (permits.expect("records"), config.expect("records"));
    let out = AtomicU64::new(0);
    let value = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (permits, config, out, value) = (&permits, &config, &out, &value);
            scope.spawn(move || {
                for _ in 0..25 {
                    let permit = permits.acquire(1).expect("an answer");
                    assert!(permit.slot() < 2 && !permit.is_lost());
                    assert!(out.fetch_add(1, Ordering::SeqCst) < 2, "two permits");
                    std::thread::yield_now();
                    out.fetch_sub(1, Ordering::SeqCst);
                    assert!(permit.release().is_released());
                    if thread == 0 {
                        let writer = config.write().expect("an answer");
                        for one in value {
                            one.fetch_add(1, Ordering::SeqCst);
                        }
                        let reader = writer.downgrade().expect("an answer");
                        assert!(reader.release().is_released());
                    } else {
                        let reader = config.read().expect("an answer");
                        let [one, other] = value.each_ref().map(|one| one.load(Ordering::SeqCst));
                        assert_eq!(one, other, "half written");
                        let lost = reader.lost_within(Duration::ZERO);
                        assert!(lost.expect("an answer").is_none());
                    }
                }
            });
        }
    });
    assert_eq!(permits.available().expect("an answer"), 2);
}

#[test]
fn a_guard_is_kept_alive_while_its_thread_works() {
    let ttl = Duration::from_millis(500);
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let (mine, rival) = (locker(store.clone(), ttl), locker(store, ttl));
    let guard = mine.acquire("a").expect("an answer");
    let got = rival.acquire_within("a", ttl * 4).expect("an answer");
    assert!(got.is_none() || guard.is_lost());
    guard.extend(Duration::from_secs(30)).expect("still held");
    assert!(guard.valid_for() > Duration::from_secs(20));
    assert!(
        guard
            .lost_within(Duration::from_millis(1))
            .expect("an answer")
            .is_none()
    );
    let inner = guard.reenter();
    assert!(matches!(guard.release(), ReleaseOutcome::StillHeld));
    assert!(inner.release().is_released());
}

#[test]
fn a_loss_is_told() {
    let settings = Locker::builder(Arc::new(Memory::new()));
    let settings = settings.ttl(Duration::from_millis(50)).keep_alive(false);
    let locker = settings.build().expect("valid settings");
    let guard = locker.acquire("a").expect("an answer");
    let lost = guard
        .lost_within(Duration::from_secs(20))
        .expect("an answer");
    assert_eq!(lost.expect("within the time").reason(), LostReason::Expired);
    assert!(guard.is_lost());
}

#[test]
fn a_shutdown_ends_it() {
    let locker = locker(Arc::new(Memory::new()), Duration::from_secs(60));
    let guard = locker.acquire("a").expect("an answer");
    locker.shutdown().expect("outside a runtime");
    assert!(guard.is_lost());
    assert_eq!(
        locker.acquire("a").expect_err("closed").kind(),
        ErrorKind::Closed
    );
}

#[tokio::test]
async fn inside_a_runtime_there_is_an_error_not_a_panic() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Sqlite::open(folder.path().join("locks.db"))
        .await
        .expect("a new file");
    let locker = locker(Arc::new(store), Duration::from_secs(60));
    let error = locker.acquire("a").expect_err("inside a runtime");
    let refused = (ErrorKind::WrongContext, Operation::Acquire);
    assert_eq!((error.kind(), error.operation()), refused);
    let thread = {
        let locker = locker.clone();
        std::thread::spawn(move || locker.acquire("a").expect("an answer"))
    };
    let guard = thread.join().expect("no panic");
    let error = guard.extend(Duration::from_secs(60));
    let error = error.expect_err("inside a runtime");
    assert_eq!(error.operation(), Operation::Renew);
    let error = guard.lost_within(Duration::ZERO);
    let error = error.expect_err("inside a runtime");
    assert_eq!(error.operation(), Operation::Renew);
    // Both may also be dropped here.
    drop(guard);
    drop(locker);
}

#[tokio::test]
async fn the_last_guard_that_ends_inside_a_runtime_releases_its_lock() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("locks.db");
    let rival = fencepost::Locker::new(Arc::new(Sqlite::open(&path).await.expect("a new file")));
    for is_released in [true, false] {
        let store = Sqlite::open(&path).await.expect("the same file");
        let locker = locker(Arc::new(store), Duration::from_secs(600));
        let thread = std::thread::spawn(move || locker.acquire("a").expect("free"));
        let guard = thread.join().expect("no panic");
        if is_released {
            let outcome = guard.release();
            assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
        } else {
            drop(guard);
        }
        let timeout = Duration::from_secs(60);
        let next = rival.acquire_within("a", timeout).await.expect("an answer");
        drop(next.expect("the lock is free long before its lease is over"));
    }
}

#[test]
fn several_names_are_taken_together_or_not_at_all() {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let ttl = Duration::from_secs(60);
    let (ours, rival) = (locker(store.clone(), ttl), locker(store, ttl));
    let all = ours.acquire_all(["b", "a"]).expect("free");
    assert!(all.fence("a").is_some() && all.credential("b").is_some() && !all.is_lost());
    assert!(all.names().map(LockName::as_str).eq(["a", "b"]));
    assert!(
        all.guards()
            .iter()
            .map(|guard| guard.name())
            .eq(all.names())
    );
    let moment = Duration::from_millis(1);
    assert!(all.lost_within(moment).expect("no runtime here").is_none());
    let timeout = Duration::from_millis(200);
    assert!(
        rival
            .try_acquire_all(["0", "a"])
            .expect("an answer")
            .is_none()
    );
    let late = rival.acquire_all_within(["0", "b"], timeout);
    assert!(late.expect("an answer").is_none());
    assert!(rival.try_acquire("0").expect("an answer").is_some());
    let outcomes = all.release();
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_released()));
    // Whatever the rival's late attempt was granted meanwhile is released by itself.
    let theirs = rival.acquire_all(["a", "b"]).expect("free");
    rival.shutdown().expect("no runtime here");
    let lost = theirs.lost_within(ttl).expect("no runtime here");
    assert_eq!(lost.map(|lost| lost.reason()), Some(LostReason::Shutdown));
}

#[test]
fn one_of_several_locks_can_be_used_alone() {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let ttl = Duration::from_secs(60);
    let (ours, rival) = (locker(store.clone(), ttl), locker(store, ttl));
    let all = ours.acquire_all(["b", "a"]).expect("free");
    assert!(all.guard("c").is_none());
    let b = all.guard("b").expect("one of the names");
    assert_eq!(Some(b.fence()), all.fence("b"));
    b.extend(ttl * 10).expect("held");
    assert!(b.valid_for() > ttl * 5 && all.valid_for() <= ttl);
    all.extend(ttl * 20).expect("both are held");
    assert!(
        all.valid_for() > ttl * 15,
        "the one with the least time counts"
    );
    let inner = b.reenter();
    let outcomes = all.release();
    assert!(
        matches!(
            outcomes.as_slice(),
            [(a, ReleaseOutcome::Released), (b, ReleaseOutcome::StillHeld)] if a.as_str() == "a" && b.as_str() == "b"
        ),
        "{outcomes:?}"
    );
    assert!(rival.try_acquire("b").expect("an answer").is_none());
    assert!(inner.release().is_released());
    assert!(
        rival
            .try_acquire_all(["a", "b"])
            .expect("an answer")
            .is_some()
    );
}
