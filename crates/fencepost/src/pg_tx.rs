//! Locks that belong to your own Postgres transaction: the transaction acquires them, and only its end releases them.
//!
//! A lock that is released before the commit protects nothing, because the next holder reads the old data. Here the server itself ends the
//! lock, at the moment when the writes of the transaction become visible or when the transaction is rolled back, closed or lost. There is
//! no guard to drop and no lease to renew, and nobody can release the lock too early. In return, the lock lasts as long as the transaction
//! and needs its connection.
//!
//! ```no_run
//! use std::time::Duration;
//! use fencepost::pg_tx::PgTxLock;
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! PgTxLock::create_table(client).await?; // once, with your other tables
//!
//! let transaction = client.transaction().await?;
//! let lock = PgTxLock::row("stock:42")?;
//! if let Some(held) = lock.acquire_with_lock_timeout(&transaction, Duration::from_secs(2)).await? {
//!     transaction.execute("UPDATE stock SET left_over = left_over - 1 WHERE id = 42", &[]).await?;
//!     transaction.commit().await?; // the lock ends here
//!     println!("sold under fence {}", held.fence());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Two ways to lock
//! - [`PgTxLock::row`] locks the row of that name in the table `fencepost_tx`, as `SELECT … FOR UPDATE` does.
//! - [`PgTxLock::advisory`] calls `pg_advisory_xact_lock` with the number that stands for the name.
//!   [`stores::postgres`](crate::stores::postgres) uses the same number, so its locks and this one exclude each other.
//!
//! # The fence
//! The fence grows with every lock of a name. It is drawn after the lock is granted, from the same sequences that
//! [`stores::postgres`](crate::stores::postgres) uses, so the fences of both can be compared. The first draw in a session of the server
//! lifts the fence to the server's time. Sequences do not roll back: if the transaction does, its fence is never used again. The row of the
//! name in `fencepost_tx` is set to the fence.
//!
//! The writes of the transaction itself need no fence, because they vanish with it. Anything outside needs one: another database, a file, a
//! service. If a *lease* (a [`Guard`](crate::Guard) of any store) protects tables in this database, call a [`PgGate`] at the start of the
//! transaction.
//!
//! You learn the fence before the transaction is on disk. If the server crashes at that moment *and* its clock is set back at the same
//! time, the same fence may be drawn again.
//!
//! # Isolation
//! Under `READ COMMITTED`, the default of Postgres, every statement after the lock sees what the last holder has committed. Under
//! `REPEATABLE READ` and `SERIALIZABLE`, a transaction keeps seeing the data as of its first statement, and would work on stale data. Every
//! holder writes its row, so the server notices if another transaction has held the lock since then, and refuses the lock: run the
//! transaction again. A *session* that held an advisory lock in between ([`stores::postgres`](crate::stores::postgres), `pg_advisory_lock`)
//! is not noticed. If you use both, stay with `READ COMMITTED`.
//!
//! # What can go wrong
//! None of these failures leaves anything behind. After an error (but not after `None`) Postgres accepts no further statement in this
//! transaction: roll it back.
//! - *Deadlock* (40P01): two transactions want each other's locks. The server ends one of them after `deadlock_timeout` (1 s). Acquire
//!   several locks in the same order everywhere, and run the transaction again.
//! - *Serialization failure* (40001): see *Isolation*.
//! - *The `lock_timeout`* of the session or role ended: [`ErrorKind::Timeout`].
//!   [`acquire_with_lock_timeout`](PgTxLock::acquire_with_lock_timeout) has its own timeout; when it ends, the call returns `None` and the
//!   transaction continues.
//! - *A savepoint is rolled back*: that releases the locks that were acquired after it.
//! - *A pool* that changes the connection in the middle of a transaction does not work. A pool or pooler that gives each transaction one
//!   connection ("transaction mode") works.

use std::fmt;
use std::time::Duration;

use futures_util::future::join4;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, SimpleQueryMessage, Transaction};

use crate::claim::{LockName, OwnerId};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Operation, Result};
use crate::fence::Fence;
use crate::random::SystemRandom;
use crate::resource::Credential;
use crate::stores::postgres::fence::{create_sequences, in_turn, make_missing};
use crate::stores::postgres::keys::key_of;

mod draw;
mod failure;
mod gate;
mod rw_gate;

pub use gate::PgGate;
pub use rw_gate::PgRwGate;

/// The name of the store in errors.
const STORE: &str = "postgres_transaction";

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)::text";

/// Creates the row if it does not exist. A fence is drawn only after the row is locked.
const MAKE: &str =
    "INSERT INTO fencepost_tx (name, fence) VALUES ($1, 1) ON CONFLICT (name) DO NOTHING";

/// Locks the row. This is a separate statement, so that a fence drawn after it is drawn by the holder.
const LOCK_ROW: &str = "SELECT 1 FROM fencepost_tx WHERE name = $1 FOR UPDATE";

/// Whether the table belongs to a version before the sequences. Such programs must not use it any more: they would count only from its
/// rows.
const IS_OLD: &str = "EXISTS (SELECT 1 FROM pg_catalog.pg_attribute
    WHERE attrelid = to_regclass('fencepost_tx') AND attname = 'epoch' AND NOT attisdropped)";

/// The shortest `lock_timeout` of Postgres.
const IMMEDIATE: Duration = Duration::from_millis(1);

/// A lock that belongs to your own transaction. See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgTxLock {
    name: LockName,
    /// The number of the advisory lock, or `None` if the row is the lock.
    key: Option<i64>,
}

impl PgTxLock {
    /// The statements that create the table and the sequences for fences, for your migrations. These are three statements: run them as a
    /// script.
    pub const CREATE_TABLE: &'static str = concat!(
        "\
CREATE TABLE IF NOT EXISTS fencepost_tx (
    name TEXT PRIMARY KEY,
    fence BIGINT NOT NULL CHECK (fence > 0 AND fence < 140737488355328)
);
",
        create_sequences!()
    );

    /// The statement that upgrades a table of an older version, for your migrations. Programs of the older version fail with an error from
    /// then on, because their fences cannot be compared with those of this version.
    pub const UPGRADE_TABLE: &'static str = "ALTER TABLE fencepost_tx RENAME COLUMN epoch TO fence";

    /// Creates the table `fencepost_tx` and the sequences if they do not exist, and [upgrades](Self::UPGRADE_TABLE) a table of an older
    /// version.
    ///
    /// If everything exists, this creates nothing and needs no permission to create. Several programs can call it at the same time.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unusable`] if something is missing and the user may not create it; the error contains the statements to run.
    /// Returns an error if the server does.
    ///
    /// # Cancel safety
    /// If the future is dropped, either everything or nothing may have been created.
    pub async fn create_table(client: &Client) -> Result<()> {
        let (create, _sequences) = Self::CREATE_TABLE.split_once(';').unwrap_or_default();
        let upgrade = Self::UPGRADE_TABLE;
        let table = format!(
            "IF to_regclass('fencepost_tx') IS NULL THEN {create}; ELSIF {IS_OLD} THEN {upgrade}; END IF;"
        );
        let make = in_turn(&(table + &make_missing()));
        match client.batch_execute(&make).await {
            Err(cause) if failure::is_missing_right(&cause) => {
                let user = client.query_one("SELECT quote_ident(current_user)", &[]);
                let user = user.await.map(|row| row.get(0)).ok();
                Err(failure::not_made(cause, user))
            }
            made => made.map_err(|cause| failure::of_statement(Operation::Open, cause)),
        }
    }

    /// Creates a lock that is the row of this name in the table `fencepost_tx`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the name is invalid.
    pub fn row<N>(name: N) -> Result<Self>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into().map_err(Error::from)?;
        Ok(Self { name, key: None })
    }

    /// Creates an advisory lock, with the number that stands for the name in [`stores::postgres`](crate::stores::postgres), or with the
    /// given number if the name is `#NUMBER`. It also locks the row of the name in the table `fencepost_tx`, so it and [`row`](Self::row)
    /// of the same name exclude each other.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the name is invalid.
    pub fn advisory<N>(name: N) -> Result<Self>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into().map_err(Error::from)?;
        let key = Some(key_of(&name)?);
        Ok(Self { name, key })
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Waits until the transaction has the lock, for as long as the session's `lock_timeout` allows.
    ///
    /// A transaction that already has the lock gets it again, with a new fence.
    ///
    /// # Errors
    /// Returns an error if the server does; the transaction can then only be rolled back. Run it again if the kind is
    /// [`ErrorKind::Unavailable`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may continue to wait, and the transaction may get the lock: roll it back.
    pub async fn acquire(&self, transaction: &Transaction<'_>) -> Result<PgTxHeld> {
        // The statements are sent together. The server runs them one after the other, and stops at the first that fails.
        let name: &[(&(dyn ToSql + Sync), Type)] = &[(&self.name.as_str(), Type::TEXT)];
        let lock = async {
            match self.key {
                Some(key) => ask(transaction, LOCK, &[(&key, Type::INT8)]).await,
                None => Ok(Vec::new()),
            }
        };
        let draw = draw::draw_statement();
        let make = ask(transaction, MAKE, name);
        let lock_row = ask(transaction, LOCK_ROW, name);
        let draw = ask(transaction, &draw, name);
        let (locked, made, row_locked, drawn) = join4(lock, make, lock_row, draw).await;
        let drawn = locked.and(made).and(row_locked).and(drawn)?;
        let fence = draw::finish(self, transaction, drawn).await?;
        Ok(PgTxHeld {
            name: self.name.clone(),
            credential: Credential::new(fence, OwnerId::random(&SystemRandom)),
        })
    }

    /// Acquires the lock if nobody has it. Returns `None` if somebody has it; the transaction then continues without the lock.
    ///
    /// # Errors
    /// Returns the same errors as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// The same as for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, transaction: &Transaction<'_>) -> Result<Option<PgTxHeld>> {
        self.acquire_with_lock_timeout(transaction, IMMEDIATE).await
    }

    /// Waits for the lock, with this `lock_timeout` of Postgres (in whole milliseconds, at least one). Returns `None` if one wait took
    /// longer. The transaction then continues without the lock, and keeps its other locks and its work.
    ///
    /// This is not a limit in total, as it is for [`Locker::acquire_within`](crate::Locker::acquire_within): the server applies the
    /// timeout to each of its waits, and there is one for each transaction that is ahead in its line.
    ///
    /// # Errors
    /// Returns the same errors as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// The same as for [`acquire`](Self::acquire).
    pub async fn acquire_with_lock_timeout(
        &self,
        transaction: &Transaction<'_>,
        timeout: Duration,
    ) -> Result<Option<PgTxHeld>> {
        let limit = timeout.max(IMMEDIATE).as_millis().min(i32::MAX as u128);
        let begin = format!(
            "SAVEPOINT fencepost_lock; SELECT current_setting('lock_timeout'); SET LOCAL lock_timeout = {limit}"
        );
        let was = batch(transaction, &begin).await?.unwrap_or_default();
        match self.acquire(transaction).await {
            Ok(held) => {
                let was = was.replace('\'', "''");
                let go_on =
                    format!("SET LOCAL lock_timeout = '{was}'; RELEASE SAVEPOINT fencepost_lock");
                batch(transaction, &go_on).await?;
                Ok(Some(held))
            }
            // This undoes everything since the savepoint, including the time limit.
            Err(error) if failure::is_too_late(&error) => {
                let undo = "ROLLBACK TO SAVEPOINT fencepost_lock; RELEASE SAVEPOINT fencepost_lock";
                batch(transaction, undo).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Runs one statement without preparing it, because the connection is not ours. The statement is sent at the first poll.
async fn ask(
    transaction: &Transaction<'_>,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>> {
    let rows = transaction.query_typed(statement, parameters).await;
    rows.map_err(|cause| failure::of_statement(Operation::Acquire, cause))
}

/// Runs several statements without parameters, and returns the first value of the first row.
async fn batch(transaction: &Transaction<'_>, statements: &str) -> Result<Option<String>> {
    let messages = transaction.simple_query(statements).await;
    let messages = messages.map_err(|cause| failure::of_statement(Operation::Acquire, cause))?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// The record that a transaction acquired the lock, with its fence. Dropping it does nothing: the lock ends with the transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct PgTxHeld {
    name: LockName,
    credential: Credential,
}

impl PgTxHeld {
    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the fence, which is larger than every earlier fence of the name.
    pub fn fence(&self) -> Fence {
        self.credential.fence
    }

    /// Returns the fence and the owner, for a fenced [`resource`](crate::resource) outside of this transaction.
    pub fn credential(&self) -> Credential {
        self.credential
    }
}

impl fmt::Debug for PgTxHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgTxHeld")
            .field("name", &self.name)
            .field("fence", &self.credential.fence)
            .finish()
    }
}
