//! What an error of SQLite means for locks, and what the user should do.
//!
//! Every failed transaction is rolled back, so none of these errors has an effect on the store.

use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;

use super::STORE;
use crate::error::{Error, ErrorKind, Operation};
use crate::fence::Fence;

/// Why an operation on the file failed, without the name of the operation.
#[derive(Debug)]
pub(super) enum Failure {
    /// SQLite returned an error.
    Sql(rusqlite::Error),
    /// The fence counter has reached its end.
    FenceExhausted,
    /// The file, or the place where it lies, is not suitable for locks.
    Unusable(String),
    /// It does not work now, but may work later.
    Unavailable(String),
}

pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Failure {
    /// Returns whether another program holds a lock on the file.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        ))
    }

    /// Adds the operation, and returns the public error.
    pub(super) fn into_error(
        self,
        operation: Operation,
        path: &Path,
        busy_timeout: Duration,
    ) -> Error {
        let error = |kind, message| Error::new(kind, STORE, operation, message);
        match self {
            Self::Sql(sql) => {
                let (kind, message) = explain(&sql, path, busy_timeout);
                error(kind, message).with_source(sql)
            }
            Self::FenceExhausted => error(
                ErrorKind::FenceExhausted,
                format!(
                    "the fence counter in {path:?} has reached {}: no further lock can be fenced; use a new file \
                     and reset the fences that the protected resources have seen",
                    Fence::EPOCH_END
                ),
            ),
            Self::Unusable(message) => error(ErrorKind::Unusable, message),
            Self::Unavailable(message) => error(ErrorKind::Unavailable, message),
        }
    }
}

fn explain(sql: &rusqlite::Error, path: &Path, busy_timeout: Duration) -> (ErrorKind, String) {
    use ErrorKind::{Internal, Unavailable, Unusable};
    let Some(code) = sql.sqlite_error_code() else {
        return match sql {
            rusqlite::Error::QueryReturnedNoRows
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => (Unusable, strange_tables(path)),
            _ => (
                Internal,
                format!("an unexpected answer from {path:?}: {sql}"),
            ),
        };
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            Unavailable,
            format!(
                "{path:?}: the database is locked by another program for longer than {busy_timeout:?}: end its \
                 transaction, or give the locks a file of their own"
            ),
        ),
        ErrorCode::NotADatabase => (
            Unusable,
            format!("{path:?} is not an SQLite database: move it away, or give another path"),
        ),
        ErrorCode::DatabaseCorrupt => (
            Unusable,
            format!("the database {path:?} is damaged: move it away, and a new one is created"),
        ),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => (Unusable, read_only(path)),
        ErrorCode::DiskFull => (
            Unusable,
            format!("the disk of {path:?} is full: make room; nothing was changed"),
        ),
        ErrorCode::SystemIoFailure => (
            Unusable,
            format!(
                "reading or writing {path:?} failed ({sql}): is the disk full or faulty? Nothing was changed"
            ),
        ),
        ErrorCode::CannotOpen => (
            Unusable,
            format!(
                "{path:?}, or its companions -wal and -shm, cannot be opened: may this user write to the file and \
                 its folder?"
            ),
        ),
        ErrorCode::Unknown | ErrorCode::ConstraintViolation => (Unusable, strange_tables(path)),
        _ => (
            Internal,
            format!("an unexpected answer from {path:?}: {sql}"),
        ),
    }
}

pub(super) fn read_only(path: &Path) -> String {
    format!("{path:?} can only be read: make the file and its folder writable for this user")
}

fn strange_tables(path: &Path) -> String {
    format!(
        "the tables fencepost_… in {path:?} are not as this program made them: drop them or give another path, and \
         new ones are created"
    )
}
