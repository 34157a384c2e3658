//! Locks inside a transaction of your own, on Postgres: taken in it, and given back by its end and nothing else.
//!
//! A lock that is released before the commit protects nothing: the next holder reads what was there before. Here the server itself ends the lock, at
//! the moment in which the transaction's writes become visible, or in which it is rolled back, closed or lost. There is no guard to drop, no lease to
//! renew and nobody to release too early. In return the lock lasts as long as the transaction and needs its connection.
//!
//! ```no_run
//! use std::time::Duration;
//! use fencepost::pg_tx::PgTxLock;
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! PgTxLock::create_table(client).await?; // once, with your other tables
//!
//! let transaction = client.transaction().await?;
//! let lock = PgTxLock::row("stock:42")?;
//! if let Some(held) = lock.acquire_within(&transaction, Duration::from_secs(2)).await? {
//!     transaction.execute("UPDATE stock SET left_over = left_over - 1 WHERE id = 42", &[]).await?;
//!     transaction.commit().await?; // the lock ends here
//!     println!("sold under fence {}", held.fence());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Two ways to lock
//! - [`PgTxLock::row`]: the row of that name in the table `fencepost_tx`, as `SELECT … FOR UPDATE` locks it.
//! - [`PgTxLock::advisory`]: `pg_advisory_xact_lock` with the number that stands for the name, the same that
//!   [`stores::postgres`](crate::stores::postgres) uses: its locks and this one exclude each other.
//!
//! # The fence
//! Rises with every lock of a name. It is drawn once the lock is granted, from the sequences that [`stores::postgres`](crate::stores::postgres) draws
//! from, so the fences of both can be compared; its first draw in a session of the server lifts it to the server's time. A sequence does not roll back:
//! a transaction that does leaves a fence that nobody gets again. The row of the name in `fencepost_tx` is set to the fence.
//!
//! The writes of the transaction itself need no fence, as they vanish with it. What does is whatever lies outside:
//! another database, a file, a service. For tables here that a *lease* protects (a [`Guard`](crate::Guard) of any store), put a [`PgGate`] in front of the
//! transaction's work.
//!
//! A fence is told before the transaction is on the disk. If the server crashes in that moment *and* its clock is set back meanwhile, the
//! same fence may be drawn again.
//!
//! # Isolation
//! Under `READ COMMITTED`, Postgres' default, every statement after the lock sees what the last holder has committed. Under `REPEATABLE READ` and
//! `SERIALIZABLE` a transaction goes on to see the world as it was at its first statement, and would work on what is long past. As every holder writes its row,
//! the server notices when another transaction has held it since, and the lock is refused: run the transaction again. A *session* that has held an advisory lock
//! ([`stores::postgres`](crate::stores::postgres), `pg_advisory_lock`) has not counted: where both are used, stay with `READ COMMITTED`.
//!
//! # What can go wrong
//! All of these leave nothing behind. After an error (not after `None`), Postgres takes no further statement in this transaction: roll it back.
//! - *Deadlock* (40P01): two transactions want each other's locks. The server ends one after `deadlock_timeout` (1 s). Take several locks in
//!   the same order everywhere, and run the transaction again.
//! - *Serialization* (40001): see above.
//! - *`lock_timeout`* of the session or role: [`ErrorKind::Timeout`]. [`acquire_within`](PgTxLock::acquire_within) has its own, says `None`, and
//!   the transaction goes on.
//! - *A savepoint that is rolled back* gives back the locks that were taken after it.
//! - *A pool* that hands out a connection in the middle of a transaction. One that gives each transaction a connection to itself is fine, also in front of
//!   the server ("transaction mode").

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

pub use gate::PgGate;

/// How errors name this.
const STORE: &str = "postgres-transaction";

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)::text";

/// The row, if it is missing. A fence is only drawn once the row is locked.
const MAKE: &str =
    "INSERT INTO fencepost_tx (name, fence) VALUES ($1, 1) ON CONFLICT (name) DO NOTHING";

/// Locks the row. A statement of its own: what is drawn after it is drawn by the holder.
const LOCK_ROW: &str = "SELECT 1 FROM fencepost_tx WHERE name = $1 FOR UPDATE";

/// Whether the table is one of programs before the sequences, which must not use it any more: they would count on from its rows alone.
const IS_OLD: &str = "EXISTS (SELECT 1 FROM pg_catalog.pg_attribute
    WHERE attrelid = to_regclass('fencepost_tx') AND attname = 'epoch' AND NOT attisdropped)";

/// The shortest time Postgres can be told to wait.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A lock that belongs to a transaction of yours. See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgTxLock {
    name: LockName,
    /// The number of an advisory lock; `None`: the row is the lock.
    key: Option<i64>,
}

impl PgTxLock {
    /// What makes the table, and the sequences that fences are drawn from; for your migrations. Three statements: run them as a script.
    pub const CREATE_TABLE: &'static str = concat!(
        "\
CREATE TABLE IF NOT EXISTS fencepost_tx (
    name TEXT PRIMARY KEY,
    fence BIGINT NOT NULL CHECK (fence > 0 AND fence < 140737488355328)
);
",
        create_sequences!()
    );

    /// What turns a table of an older version into one of this version; for your migrations. Programs of the older version fail from then on,
    /// with an error: their fences cannot be compared with those of this one.
    pub const UPGRADE_TABLE: &'static str = "ALTER TABLE fencepost_tx RENAME COLUMN epoch TO fence";

    /// Makes the table `fencepost_tx` and the sequences where they are missing, and [upgrades](Self::UPGRADE_TABLE) a table of an older version. Nothing is
    /// created, and no right to create is needed, where all is there. Programs that do this at the same time take turns.
    ///
    /// # Errors
    /// [`ErrorKind::Unusable`] when something is missing and the user may not create it; the error has the statements to run. Otherwise what the
    /// server says.
    ///
    /// # Cancel safety
    /// When dropped, everything may have been made, or nothing.
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

    /// The lock is the row of this name in the table `fencepost_tx`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is no name for a lock.
    pub fn row<N>(name: N) -> Result<Self>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into().map_err(Error::from)?;
        Ok(Self { name, key: None })
    }

    /// The lock is an advisory one, with the number that stands for the name in
    /// [`stores::postgres`](crate::stores::postgres), or with the number itself when the name is `#NUMBER`. The row of the name in the table
    /// `fencepost_tx` is locked as well, so this one and [`row`](Self::row) of the same name exclude each other, too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is no name for a lock.
    pub fn advisory<N>(name: N) -> Result<Self>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into().map_err(Error::from)?;
        let key = Some(key_of(&name)?);
        Ok(Self { name, key })
    }

    /// The name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Waits until the transaction has the lock, for as long as the session's `lock_timeout` allows.
    ///
    /// A transaction that has the lock already gets it again, with a new fence.
    ///
    /// # Errors
    /// The server's, explained; the transaction can only be rolled back then. [`ErrorKind::Unavailable`]: run it again.
    ///
    /// # Cancel safety
    /// When dropped, the server may go on waiting, and the transaction may get the lock: roll it back.
    pub async fn acquire(&self, transaction: &Transaction<'_>) -> Result<PgTxHeld> {
        // Sent together; the server does not begin one before it is done with the one before, and none after one that failed.
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

    /// Takes the lock if nobody has it. `None`: somebody has, and the transaction goes on without.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, transaction: &Transaction<'_>) -> Result<Option<PgTxHeld>> {
        self.acquire_within(transaction, AT_ONCE).await
    }

    /// Waits for the lock, but not for longer than `patience` (milliseconds; at least one) for each of those who are before this transaction in the server's
    /// own line. `None`: that was too long, and the transaction goes on without the lock. Its other locks and its work stay.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(
        &self,
        transaction: &Transaction<'_>,
        patience: Duration,
    ) -> Result<Option<PgTxHeld>> {
        let limit = patience.max(AT_ONCE).as_millis().min(i32::MAX as u128);
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
            // What failed after the savepoint is undone, the limit with it.
            Err(error) if failure::is_too_late(&error) => {
                let undo = "ROLLBACK TO SAVEPOINT fencepost_lock; RELEASE SAVEPOINT fencepost_lock";
                batch(transaction, undo).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// One statement that leaves nothing prepared on a connection that is not ours. It is sent when this is polled for the first time.
async fn ask(
    transaction: &Transaction<'_>,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>> {
    let rows = transaction.query_typed(statement, parameters).await;
    rows.map_err(|cause| failure::of_statement(Operation::Acquire, cause))
}

/// Several statements without parameters; the first value of the first row.
async fn batch(transaction: &Transaction<'_>, statements: &str) -> Result<Option<String>> {
    let messages = transaction.simple_query(statements).await;
    let messages = messages.map_err(|cause| failure::of_statement(Operation::Acquire, cause))?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// Says that a transaction had the lock, and under which fence. Dropping it does nothing: the lock ends with the transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct PgTxHeld {
    name: LockName,
    credential: Credential,
}

impl PgTxHeld {
    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Larger than every earlier fence of the name.
    pub fn fence(&self) -> Fence {
        self.credential.fence
    }

    /// What to show to a [`resource`](crate::resource) outside of this transaction.
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
