//! Guards that outlive the runtime in which they were created.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fencepost::stores::sqlite::Sqlite;
use fencepost::{Guard, Locker};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::script::{NAME, Report, Role, say};
use crate::stage::{LONG, Performer, Stage, wait_for};

const TTL: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(5);

/// The part of these children: where to find the locks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RuntimePart {
    pub(crate) locks: PathBuf,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
}

fn locker(locks: &Path, ttl: Duration) -> Locker {
    let store = Arc::new(Sqlite::open_blocking(locks).unwrap());
    Locker::builder(store).ttl(ttl).build().unwrap()
}

/// Returns whether a new locker gets the lock within this time.
fn is_free_in_time(locks: &Path, name: &str, within: Duration) -> bool {
    let locker = locker(locks, TTL);
    let taken = runtime().block_on(locker.acquire_within(name, within));
    taken.unwrap().is_some()
}

/// Runs in a separate process, so that a panic in any thread shows on its standard error.
pub(crate) fn freed_with_guards_alive() {
    let stage = Stage::new();
    let part = RuntimePart {
        locks: stage.locks(),
    };
    Performer::start_silent(Role::Freed(part), &[]).assert_exited_cleanly(LONG);
}

/// Plays the child: drops a runtime with guards and waiters, and uses the same locker in the next runtime.
pub(crate) fn lose_the_runtime(part: &RuntimePart) {
    let locker = locker(&part.locks, TTL);
    let (first, second) = (runtime(), runtime());
    let other = self::locker(&part.locks, TTL);
    let held_by_other = second.block_on(other.acquire("held by another")).unwrap();
    let [dropped_later, kept, inside] = ["dropped later", "kept", "inside"]
        .map(|name| first.block_on(locker.acquire(name)).unwrap());
    let kept_since = Instant::now();
    spawn_waiter(&first, &locker, "dropped later");
    spawn_waiter(&first, &locker, "held by another");
    first.spawn(async move {
        let _inside = inside;
        std::future::pending::<()>().await
    });
    wait_for("a waiter at the store", || {
        let name = "held by another".try_into().unwrap();
        let record = second.block_on(other.backend().inspect(&name)).unwrap();
        record.is_some_and(|record| record.waiting.len() == 1)
    });

    drop(first);
    drop(dropped_later);
    second.block_on(async {
        assert!(held_by_other.release().await.is_released());
        for name in ["dropped later", "inside", "held by another"] {
            let taken = locker.acquire_within(name, TTL + GRACE).await.unwrap();
            assert!(taken.is_some(), "{name} is left for ever");
        }
        // The second runtime renews what was acquired in the first.
        tokio::time::sleep_until((kept_since + TTL + TTL / 2).into()).await;
        assert!(kept.release().await.is_released());
    });

    // Without any runtime, a guard still knows when it has expired.
    let alone = second.block_on(locker.acquire("alone")).unwrap();
    drop(second);
    wait_for("the end of a lease nobody renews", || alone.is_lost());
    assert_eq!(alone.valid_for(), Duration::ZERO);
    drop(alone);
    assert!(is_free_in_time(&part.locks, "alone", TTL + GRACE));
}

fn spawn_waiter(runtime: &Runtime, locker: &Locker, name: &'static str) {
    let locker = locker.clone();
    runtime.spawn(async move { locker.acquire(name).await });
}

/// A lock that is left by a process that exits normally is free when its TTL is over.
pub(crate) fn a_process_ends_with_a_guard_alive() {
    let stage = Stage::new();
    let part = RuntimePart {
        locks: stage.locks(),
    };
    Performer::start(Role::Quitter(part), &[]).assert_exited_cleanly(LONG);
    assert!(is_free_in_time(&stage.locks(), NAME, TTL + GRACE));
}

/// Plays the child: locker and runtime are dropped, but the guard never is.
pub(crate) fn quit_with_a_guard_alive(part: &RuntimePart) {
    static GUARD: OnceLock<Guard> = OnceLock::new();
    let runtime = runtime();
    let locker = locker(&part.locks, TTL);
    let guard = runtime.block_on(locker.acquire(NAME)).unwrap();
    GUARD.set(guard).unwrap();
    say(&Report::Ready);
}

/// The TTL is long. The lock is free soon only if it is released.
pub(crate) fn a_guard_dropped_on_a_plain_thread() {
    let stage = Stage::new();
    let runtime = runtime();
    let locker = locker(&stage.locks(), Duration::from_secs(60));
    let guard = runtime.block_on(locker.acquire(NAME)).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert!(is_free_in_time(&stage.locks(), NAME, GRACE));
}
