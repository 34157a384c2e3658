//! Lock records as rows in a SQLite file, timed by the boot clock, as in the library.

use std::path::Path;
use std::time::Duration;

use fencepost::clock::{BootClock, Clock};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::Latches;
use crate::protocol::Failure;
use crate::store::LockState;
use crate::store::stock::sqlite::connect;

/// `expires_ns` is NULL for a key that never expires.
const TABLE: &str = "CREATE TABLE latch (
    key TEXT PRIMARY KEY,
    token TEXT NOT NULL,
    expires_ns INTEGER
) WITHOUT ROWID";

/// A connection to the lock records in a SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteLatches(Connection);

/// Creates the table.
pub(crate) fn create(path: &Path) -> Result<(), Failure> {
    connect(path)?
        .execute_batch(TABLE)
        .map_err(Failure::definite)
}

impl SqliteLatches {
    /// Connects to the records of a file that has been prepared.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self(connect(path)?))
    }

    /// Executes one step in a write transaction. The clock is read inside it, when no other writer can intervene.
    fn step<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, i64) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        let transaction = self
            .0
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(Failure::definite)?;
        let done = work(&transaction, now_ns()).map_err(Failure::definite)?;
        transaction.commit().map_err(Failure::indefinite)?;
        Ok(done)
    }

    /// Returns the token and the expiry of the current record.
    fn record(&self, key: &str) -> Result<Option<(String, Option<i64>)>, Failure> {
        const SQL: &str = "SELECT token, expires_ns FROM latch
            WHERE key = ?1 AND (expires_ns IS NULL OR expires_ns > ?2)";
        let row = self.0.prepare_cached(SQL).and_then(|mut statement| {
            let parameters = params![key, now_ns()];
            let record = statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)));
            record.optional()
        });
        row.map_err(Failure::definite)
    }

    /// Returns the expiry of the library's lock with that name, if it is held.
    fn library_lock(&self, key: &str) -> Result<Option<i64>, Failure> {
        const THERE: &str = "SELECT 1 FROM sqlite_schema WHERE name = 'fencepost_lock'";
        const SQL: &str = "SELECT expires_ns FROM fencepost_lock
            WHERE name = ?1 AND owner <> '' AND expires_ns > ?2";
        let found = || -> rusqlite::Result<Option<i64>> {
            let there: Option<i64> = self.0.query_row(THERE, [], |row| row.get(0)).optional()?;
            if there.is_none() {
                return Ok(None);
            }
            let parameters = params![key, now_ns()];
            self.0
                .query_row(SQL, parameters, |row| row.get(0))
                .optional()
        };
        found().map_err(Failure::definite)
    }
}

fn now_ns() -> i64 {
    i64::try_from(BootClock.now().as_nanos()).unwrap_or(i64::MAX)
}

fn end_of(now_ns: i64, ttl: Duration) -> i64 {
    now_ns.saturating_add(i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX))
}

fn until(expires_ns: Option<i64>) -> LockState {
    let left = |end: i64| Duration::from_nanos(end.saturating_sub(now_ns()).max(0).unsigned_abs());
    LockState {
        taken: true,
        ttl_left: expires_ns.map(left),
    }
}

impl Latches for SqliteLatches {
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure> {
        const SQL: &str = "INSERT INTO latch (key, token, expires_ns) VALUES (?1, ?2, ?3)
            ON CONFLICT (key) DO UPDATE SET token = ?2, expires_ns = ?3 WHERE expires_ns <= ?4";
        // Seeing that the key is taken needs no write lock. Whether it is free is decided below.
        if self.record(key)?.is_some() {
            return Ok(false);
        }
        self.step(|transaction, now| {
            let end = ttl.map(|ttl| end_of(now, ttl));
            let parameters = params![key, token, end, now];
            Ok(transaction.prepare_cached(SQL)?.execute(parameters)? == 1)
        })
    }

    fn expire(&mut self, key: &str, ttl: Duration) -> Result<bool, Failure> {
        const SQL: &str = "UPDATE latch SET expires_ns = ?2
            WHERE key = ?1 AND (expires_ns IS NULL OR expires_ns > ?3)";
        self.step(|transaction, now| {
            let parameters = params![key, end_of(now, ttl), now];
            Ok(transaction.prepare_cached(SQL)?.execute(parameters)? == 1)
        })
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, Failure> {
        Ok(self.record(key)?.map(|(token, _)| token))
    }

    fn delete(&mut self, key: &str) -> Result<bool, Failure> {
        const SQL: &str =
            "DELETE FROM latch WHERE key = ?1 AND (expires_ns IS NULL OR expires_ns > ?2)";
        self.step(|transaction, now| {
            Ok(transaction
                .prepare_cached(SQL)?
                .execute(params![key, now])?
                == 1)
        })
    }

    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure> {
        const SQL: &str = "DELETE FROM latch
            WHERE key = ?1 AND token = ?2 AND (expires_ns IS NULL OR expires_ns > ?3)";
        self.step(|transaction, now| {
            let parameters = params![key, token, now];
            Ok(transaction.prepare_cached(SQL)?.execute(parameters)? == 1)
        })
    }

    /// Also sees the library's own locks.
    fn inspect(&mut self, key: &str) -> Result<LockState, Failure> {
        if let Some((_, expires_ns)) = self.record(key)? {
            return Ok(until(expires_ns));
        }
        let end = self.library_lock(key)?;
        Ok(end.map_or(LockState::FREE, |end| until(Some(end))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use fencepost::Locker;
    use fencepost::stores::sqlite::Sqlite;

    #[test]
    fn they_are_latches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.db");
        create(&path).unwrap();
        let open = || SqliteLatches::open(&path).unwrap();
        super::super::tests::keeps_its_promises(&mut open(), &mut open());
    }

    #[test]
    fn the_lab_also_sees_the_librarys_locks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.db");
        create(&path).unwrap();
        let mut latches = SqliteLatches::open(&path).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let locker = Locker::new(Arc::new(Sqlite::open(&path).await.unwrap()));
            assert_eq!(latches.inspect("key").unwrap(), LockState::FREE);
            let guard = locker.acquire("key").await.unwrap();
            let state = latches.inspect("key").unwrap();
            assert!(state.taken && state.ttl_left.is_some(), "{state:?}");
            assert!(guard.release().await.is_released());
            assert_eq!(latches.inspect("key").unwrap(), LockState::FREE);
        });
    }
}
