//! A gate for read-write locks in an SQLite database.

use rusqlite::{Connection, Transaction, params};

use super::rw::{ADMIT_READ, ADMIT_WRITE, CREATE_RW_GATE};
use super::sqlite::failed;
use super::{Credential, FencedError, Refused};
use crate::error::Error;
use crate::fence::Fence;

const SEEN: &str = "SELECT fence FROM fencepost_rw_gate WHERE resource = ?1";
const WRITTEN: &str = "SELECT written FROM fencepost_rw_gate WHERE resource = ?1";

/// Refuses stale credentials of a read-write lock inside your own transaction, so that the check is atomic with whatever else the
/// transaction does.
///
/// ```
/// use fencepost::random::SystemRandom;
/// use fencepost::resource::{Credential, SqliteRwGate};
/// use fencepost::{Fence, OwnerId};
/// use rusqlite::TransactionBehavior::Immediate;
///
/// let mut connection = rusqlite::Connection::open_in_memory()?;
/// SqliteRwGate::create(&connection)?;
/// connection.execute_batch("CREATE TABLE config (port INTEGER); INSERT INTO config VALUES (80)")?;
///
/// let credential = Credential::new(Fence::new(41, 0)?, OwnerId::random(&SystemRandom));
/// let transaction = connection.transaction_with_behavior(Immediate)?;
/// SqliteRwGate::admit_write(&transaction, "config", credential)?;
/// transaction.execute("UPDATE config SET port = 81", [])?;
/// transaction.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SqliteRwGate;

impl SqliteRwGate {
    /// Creates the table `fencepost_rw_gate` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if SQLite does.
    pub fn create(connection: &Connection) -> Result<(), Error> {
        connection.execute_batch(CREATE_RW_GATE).map_err(failed)
    }

    /// Admits a reader to the resource of this name. Call it *first* in the transaction, and begin the transaction as `IMMEDIATE`, as with
    /// [`SqliteGate::admit`](super::SqliteGate::admit). The gate remembers the fence when the transaction commits, so a reader commits, too.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the resource was written with a higher fence, or with the same fence by another owner. Roll back
    /// then. Returns [`FencedError::Failed`] if SQLite fails.
    pub fn admit_read(
        transaction: &Transaction<'_>,
        resource: &str,
        credential: Credential,
    ) -> Result<(), FencedError> {
        admit(transaction, [ADMIT_READ, WRITTEN], resource, credential)
    }

    /// Admits a writer to the resource of this name. Otherwise it is the same as [`admit_read`](Self::admit_read).
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the gate has admitted a higher fence, or the same fence from another owner. Roll back then.
    /// Returns [`FencedError::Failed`] if SQLite fails.
    pub fn admit_write(
        transaction: &Transaction<'_>,
        resource: &str,
        credential: Credential,
    ) -> Result<(), FencedError> {
        admit(transaction, [ADMIT_WRITE, SEEN], resource, credential)
    }
}

fn admit(
    transaction: &Transaction<'_>,
    [admit, highest]: [&str; 2],
    resource: &str,
    credential: Credential,
) -> Result<(), FencedError> {
    let (fence, owner) = (credential.fence.as_i64(), credential.owner.to_string());
    let mut admit = transaction.prepare_cached(admit).map_err(failed)?;
    let parameters = params![resource, fence, owner];
    if admit.execute(parameters).map_err(failed)? == 1 {
        return Ok(());
    }
    let highest = transaction.query_row(highest, [resource], |row| row.get(0));
    let highest: i64 = highest.map_err(failed)?;
    Err(FencedError::Refused(Refused {
        offered: credential.fence,
        highest: Fence::from_i64(highest)?,
    }))
}
