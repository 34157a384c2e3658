//! The file: how it is opened, what is made in it, and whether it is still where it was.
//!
//! A file that is removed or replaced stays as it is for whoever has it open, and nobody else sees it again. SQLite does not notice.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost::resource::SqliteGate;
use rusqlite::Connection;

use super::Fault;
use crate::storage::{StorageError, sql};

/// How long a transaction waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a checkpoint waits for another process: it comes when the service ends, and others can do it later.
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
    let mode = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    mode.map_err(Fault::from)?;
    make_tables(connection).map_err(Fault::from)?;
    SqliteGate::create(connection).map_err(|error| StorageError::Broken(error.to_string()))
}

/// Moves everything from the write-ahead log into the file that this connection has open, and empties the log. `false`: another program
/// kept it from doing all of it.
///
/// SQLite does this itself when the last connection is closed, which never happens to a process whose threads still have the file open
/// when it exits. It has to be done by a connection that was open before: at the path there may be another file by now, and a new
/// connection would write the log of the old file into it.
pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(CHECKPOINT_TIMEOUT)?;
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: bool = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(!is_busy)
}

/// Several that start at once take turns.
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

/// A file by its number, whatever it is called.
type Identity = (u64, u64);

/// Where the file was when it was opened, and which file that is.
pub(super) struct Spot {
    path: PathBuf,
    /// None in memory.
    opened: Option<Identity>,
}

impl Spot {
    /// To be taken right after the file was opened.
    pub(super) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            opened: identity(path),
        }
    }

    /// Whether the file that was opened is where it was. Looks at the folder, and may block as that does.
    pub(super) fn is_ours(&self) -> Result<(), StorageError> {
        match self.opened.is_none() || identity(&self.path) == self.opened {
            true => Ok(()),
            false => Err(StorageError::Displaced),
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
