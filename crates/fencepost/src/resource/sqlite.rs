//! Fenced resources in an SQLite database: a gate for your own transactions, and a value behind such a gate.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::types::{FromSql, ToSql};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};

use super::{ADMIT, CREATE_GATE, Credential, FencedError, FencedResource, Refused};
use crate::error::{Effect, Error, ErrorKind, Operation};
use crate::fence::Fence;

const STORE: &str = "sqlite";

/// Refuses stale credentials inside your own transaction, so that the check is atomic with whatever else the transaction does.
///
/// ```
/// use fencepost::random::SystemRandom;
/// use fencepost::resource::{Credential, SqliteGate};
/// use fencepost::{Fence, OwnerId};
/// use rusqlite::TransactionBehavior::Immediate;
///
/// let mut connection = rusqlite::Connection::open_in_memory()?;
/// SqliteGate::create(&connection)?;
/// connection.execute_batch("CREATE TABLE stock (left_over INTEGER); INSERT INTO stock VALUES (3)")?;
///
/// let credential = Credential::new(Fence::new(41, 0)?, OwnerId::random(&SystemRandom));
/// let transaction = connection.transaction_with_behavior(Immediate)?;
/// SqliteGate::admit(&transaction, "stock", credential)?;
/// transaction.execute("UPDATE stock SET left_over = left_over - 1", [])?;
/// transaction.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SqliteGate;

impl SqliteGate {
    /// Creates the table `fencepost_gate` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if SQLite does.
    pub fn create(connection: &Connection) -> Result<(), Error> {
        connection.execute_batch(CREATE_GATE).map_err(failed)
    }

    /// Admits a credential to the resource of this name. The gate remembers the fence when the transaction commits.
    ///
    /// Call it *first* in the transaction, for reads as well as for writes: from then on the transaction has SQLite's write lock, so it
    /// reads the latest data. Begin the transaction as `IMMEDIATE`. A deferred transaction is just as safe, but fails at once
    /// (`SQLITE_BUSY`) where an immediate one waits for its turn.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the gate has admitted a higher fence, or the same fence from another owner. Roll back then.
    /// Returns [`FencedError::Failed`] if SQLite fails.
    pub fn admit(
        transaction: &Transaction<'_>,
        resource: &str,
        credential: Credential,
    ) -> Result<(), FencedError> {
        let parameters = params![
            resource,
            credential.fence.as_i64(),
            credential.owner.to_string()
        ];
        let mut admit = transaction.prepare_cached(ADMIT).map_err(failed)?;
        if admit.execute(parameters).map_err(failed)? == 1 {
            return Ok(());
        }
        let highest: i64 = transaction
            .query_row(
                "SELECT fence FROM fencepost_gate WHERE resource = ?1",
                [resource],
                |row| row.get(0),
            )
            .map_err(failed)?;
        Err(FencedError::Refused(Refused {
            offered: credential.fence,
            highest: Fence::from_i64(highest)?,
        }))
    }
}

/// A value in an SQLite file that several processes share and only the holder of a lock can access. Blocks while others write.
///
/// `T` is a type that SQLite stores in one column: `i64`, `f64`, `String`, `Vec<u8>`, or an `Option` of these.
pub struct SqliteRegister<T> {
    connection: Mutex<Connection>,
    resource: String,
    // A register holds no value, so it can be shared whatever `T` is.
    value: PhantomData<fn(T) -> T>,
}

impl<T: FromSql + ToSql> SqliteRegister<T> {
    /// Opens the file, and creates the file and the value named `resource` (with the value `initial`) if they do not exist.
    ///
    /// # Errors
    /// Returns an error if SQLite does.
    pub fn open(path: impl AsRef<Path>, resource: &str, initial: &T) -> Result<Self, Error> {
        let connection = Connection::open(path).map_err(failed)?;
        let register = Self {
            connection: Mutex::new(connection),
            resource: resource.to_owned(),
            value: PhantomData,
        };
        register.prepare(initial).map_err(failed)?;
        Ok(register)
    }

    fn prepare(&self, initial: &T) -> rusqlite::Result<()> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connection.busy_timeout(Duration::from_secs(5))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(CREATE_GATE)?;
        transaction.execute_batch(
            "CREATE TABLE IF NOT EXISTS fencepost_register (resource TEXT PRIMARY KEY, value)",
        )?;
        transaction.execute(
            "INSERT INTO fencepost_register (resource, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![self.resource, initial],
        )?;
        transaction.commit()
    }

    /// Replaces the value with the result of `work`, in one transaction.
    ///
    /// # Errors
    /// Returns the same errors as [`FencedResource::read`]. After an error, `work` was not called or its result was discarded.
    pub fn update(
        &self,
        credential: Credential,
        work: impl FnOnce(T) -> T,
    ) -> Result<(), FencedError> {
        self.admitted(credential, |transaction| {
            let new = work(self.get(transaction)?);
            self.set(transaction, &new)
        })
    }

    fn admitted<R>(
        &self,
        credential: Credential,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<R>,
    ) -> Result<R, FencedError> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        SqliteGate::admit(&transaction, &self.resource, credential)?;
        let done = work(&transaction).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }

    fn get(&self, transaction: &Transaction<'_>) -> rusqlite::Result<T> {
        let sql = "SELECT value FROM fencepost_register WHERE resource = ?1";
        transaction.query_row(sql, [&self.resource], |row| row.get(0))
    }

    fn set(&self, transaction: &Transaction<'_>, value: &T) -> rusqlite::Result<()> {
        let sql = "UPDATE fencepost_register SET value = ?2 WHERE resource = ?1";
        transaction.execute(sql, params![self.resource, value])?;
        Ok(())
    }
}

impl<T: FromSql + ToSql> FencedResource for SqliteRegister<T> {
    type Value = T;

    fn read(&self, credential: Credential) -> Result<T, FencedError> {
        self.admitted(credential, |transaction| self.get(transaction))
    }

    fn write(&self, credential: Credential, value: T) -> Result<(), FencedError> {
        self.admitted(credential, |transaction| self.set(transaction, &value))
    }
}

impl<T> fmt::Debug for SqliteRegister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteRegister")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

/// Returns the error of a statement. A failed one has no effect, because its transaction is rolled back.
pub(super) fn failed(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Unavailable,
        _ => ErrorKind::Unusable,
    };
    Error::new(kind, STORE, Operation::Resource, error.to_string())
        .with_effect(Effect::None)
        .with_source(error)
}
