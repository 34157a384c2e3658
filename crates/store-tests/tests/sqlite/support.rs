//! What the tests of this store share.

use std::path::PathBuf;
use std::time::Duration;

use fencepost::random::SystemRandom;
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Claim, Grant, LockName, OwnerId, Renewal, Result, Wait};
use tempfile::TempDir;

/// Longer than anything takes here; only a defect reaches it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A folder with a file of locks in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        Self { folder, path }
    }

    pub(crate) async fn open(&self) -> Sqlite {
        Sqlite::open(&self.path).await.unwrap()
    }

    /// The file as any other program sees it.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        let sql = rusqlite::Connection::open(&self.path).unwrap();
        sql.busy_timeout(LONG).unwrap();
        sql
    }

    /// How many rows there are in the tables of locks and of the line.
    pub(crate) fn rows(&self) -> (i64, i64) {
        let counts =
            "SELECT (SELECT count(*) FROM fencepost_lock), (SELECT count(*) FROM fencepost_line)";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.sql().query_row(counts, [], row).unwrap()
    }
}

/// A claim of a new owner.
pub(crate) fn claim(name: &str, ttl: Duration) -> Claim {
    let owner = OwnerId::random(&SystemRandom);
    Claim::new(LockName::new(name).unwrap(), owner, ttl).with_label(format!("test:{owner}"))
}

/// Takes a lock that must be free.
pub(crate) async fn take(store: &Sqlite, claim: &Claim) -> Grant {
    store.try_acquire(claim).await.unwrap().expect("it is free")
}

/// Renews one lease.
pub(crate) async fn renew(store: &Sqlite, claim: &Claim) -> Result<Renewal> {
    let mut renewals = store.renew(std::slice::from_ref(claim)).await;
    assert_eq!(renewals.len(), 1);
    renewals.remove(0)
}

/// Waits for a lock.
pub(crate) async fn wait_for(store: &Sqlite, claim: &Claim) -> Grant {
    let wait = Wait::default();
    tokio::time::timeout(LONG, store.acquire(claim, &wait))
        .await
        .expect("the lock comes before long")
        .unwrap()
}

/// Stands in line and then stops caring, as a frozen or killed process does.
pub(crate) async fn stand_and_freeze(store: &Sqlite, claim: &Claim) {
    let wait = Wait::default();
    let acquire = store.acquire(claim, &wait);
    tokio::select! {
        _ = acquire => panic!("the lock is not free"),
        () = until(async || wait.was_heard()) => {}
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + LONG;
    while !condition().await {
        assert!(std::time::Instant::now() < deadline, "it never happens");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until this claim's label stands in the line of its lock.
pub(crate) async fn until_waiting(store: &Sqlite, claim: &Claim) {
    until(async || {
        let record = store.inspect(&claim.name).await.unwrap();
        let is_it = |waiter: &fencepost::Waiter| waiter.label == claim.label;
        record.is_some_and(|record| record.waiting.iter().any(is_it))
    })
    .await;
}
