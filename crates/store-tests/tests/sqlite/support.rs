//! A lock file in a temporary folder, and helpers for raw requests to the SQLite store.

use std::path::PathBuf;

use fencepost::backend::{Renewal, Wait};
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Claim, Grant, Result};
pub(crate) use fencepost_store_tests::{LONG, claim_on as claim, poll_at_most};
use fencepost_store_tests::{eventually, within};
use tempfile::TempDir;

/// A folder with a lock file.
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

    /// Opens the file as any other program would.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        let sql = rusqlite::Connection::open(&self.path).unwrap();
        sql.busy_timeout(LONG).unwrap();
        sql
    }

    /// Returns how many rows the tables of locks and of the line have.
    pub(crate) fn rows(&self) -> (i64, i64) {
        let counts =
            "SELECT (SELECT count(*) FROM fencepost_lock), (SELECT count(*) FROM fencepost_line)";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.sql().query_row(counts, [], row).unwrap()
    }
}

/// Acquires a lock that must be free.
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
    within(LONG, "the lock", store.acquire(claim, &wait))
        .await
        .unwrap()
}

/// Joins the line and then does nothing more, like a frozen or killed process.
pub(crate) async fn stand_and_freeze(store: &Sqlite, claim: &Claim) {
    let wait = Wait::default();
    let acquire = store.acquire(claim, &wait);
    tokio::select! {
        _ = acquire => panic!("the lock is not free"),
        () = until(async || wait.was_busy()) => {}
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl AsyncFnMut() -> bool) {
    eventually("what the test waits for", condition).await;
}

/// Waits until this claim's label is in the line of its lock.
pub(crate) async fn until_waiting(store: &Sqlite, claim: &Claim) {
    until(async || {
        let record = store.inspect(&claim.name).await.unwrap();
        let is_it = |waiter: &fencepost::backend::Waiter| waiter.label == claim.label;
        record.is_some_and(|record| record.waiting.iter().any(is_it))
    })
    .await;
}
