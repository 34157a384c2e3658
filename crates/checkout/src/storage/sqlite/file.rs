//! Opens the SQLite file, creates its tables, and detects if the file was removed or replaced.
//!
//! A process that has the file open does not notice when it is removed or replaced, and neither does SQLite: its writes would be lost to
//! everybody else.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost::resource::SqliteGate;
use rusqlite::Connection;

use super::Fault;
use crate::storage::{StorageError, sql};

/// How long a transaction waits for a write of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a checkpoint waits for another process. It happens when the service ends, and others can do it later.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

pub(super) fn prepare(connection: &Connection) -> Result<(), StorageError> {
    keep_write_ahead_log(connection)?;
    make_tables(connection).map_err(Fault::from)?;
    SqliteGate::create(connection).map_err(|error| StorageError::Broken(error.to_string()))
}

/// Makes SQLite keep a write-ahead log, with which reads and the write under way do not wait for each other.
///
/// SQLite does not report an error if WAL is impossible; it returns the journal mode that is still in use.
fn keep_write_ahead_log(connection: &Connection) -> Result<(), StorageError> {
    let mode = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    let mode = mode.map_err(Fault::from)?;
    if mode == "wal" {
        return Ok(());
    }
    let words =
        format!("SQLite cannot keep a write-ahead log here: the journal mode stays '{mode}'");
    Err(StorageError::Broken(words))
}

/// Moves everything from the write-ahead log into the file that this connection has open, and empties the log. `false` if another program
/// kept it from finishing.
///
/// SQLite does this itself when the last connection is closed, but not if the process exits while its threads still have the file open. It
/// must be done by an open connection: there may be another file at the path by now, and a new connection would write the log of the old
/// file into it.
pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(CHECKPOINT_TIMEOUT)?;
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: bool = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(!is_busy)
}

/// Creates the tables. Processes that start at the same time take turns.
fn make_tables(connection: &Connection) -> rusqlite::Result<()> {
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute_batch(sql::TABLES)?;
    if !transaction.column_exists(None, "checkout_keys", "made_ms")? {
        transaction.execute_batch(sql::ADD_KEY_TIME)?;
    }
    transaction.execute_batch(sql::KEYS_BY_TIME)?;
    transaction.commit()
}

/// The identity of a file, independent of its name: device and inode.
type Identity = (u64, u64);

/// The path and the identity of the file that was opened.
pub(super) struct OpenedFile {
    path: PathBuf,
    /// `None` for a database in memory.
    identity: Option<Identity>,
}

impl OpenedFile {
    /// Remembers the identity of the file. Call this right after opening it.
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: identity(path),
        }
    }

    /// Checks that the path still leads to the file that was opened. Reads the file system, which may block.
    pub(super) fn check_in_place(&self) -> Result<(), StorageError> {
        if self.identity.is_none() || identity(&self.path) == self.identity {
            Ok(())
        } else {
            Err(StorageError::DatabaseGone)
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_a_write_ahead_log_is_refused() {
        // A database in memory cannot have one, like a file on a system without shared memory.
        let connection = connect(Path::new(":memory:")).unwrap();
        let error = prepare(&connection).unwrap_err();
        assert!(matches!(error, StorageError::Broken(_)), "{error:?}");
        assert!(error.to_string().contains("'memory'"), "{error}");
    }
}
