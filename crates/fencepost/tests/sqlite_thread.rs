//! Tests that the thread of a SQLite store ends with it. This is a separate binary, because it counts the threads of the
//! process.
#![cfg(all(feature = "sqlite", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use fencepost::backend::Wait;
use fencepost::random::SystemRandom;
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Claim, LockName, OwnerId};

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "fencepost-db").count()
}

fn until_threads(count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while threads() != count {
        assert!(
            Instant::now() < deadline,
            "{} threads, not {count}",
            threads()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn the_thread_ends_with_its_instance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let claim = || {
        Claim::new(
            LockName::new("one").unwrap(),
            OwnerId::random(&SystemRandom),
            Duration::from_secs(60),
        )
        .with_label("test")
    };
    let mut stores = Vec::new();
    for _ in 0..5 {
        stores.push(Sqlite::open(&path).await.unwrap());
    }
    until_threads(5);
    stores[0].try_acquire(&claim()).await.unwrap().unwrap();
    // Also with claims that still wait.
    for store in &stores {
        let wait = Wait::default();
        let waiter = claim();
        let waiting = store.acquire(&waiter, &wait);
        assert!(
            tokio::time::timeout(Duration::from_millis(20), waiting)
                .await
                .is_err()
        );
    }
    drop(stores);
    until_threads(0);

    // A store that could not open its file, or whose opener was dropped, leaves no thread either.
    assert!(Sqlite::open(folder.path()).await.is_err());
    let opening = Sqlite::open(&path);
    let _ = tokio::time::timeout(Duration::ZERO, opening).await;
    until_threads(0);
}
