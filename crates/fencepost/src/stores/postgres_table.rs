//! Locks in a Postgres table (14 or later): the table that ShedLock uses.
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::postgres_table::PostgresTable;
//!
//! let builder = PostgresTable::builder("postgres://shop@localhost/shop");
//! let locker = Locker::new(Arc::new(builder.create_table(true).open().await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A lock is a row of `shedlock(name, lock_until, locked_at, locked_by)`, held until `lock_until` on the server's clock. Programs that use
//! ShedLock with the same table and our locks exclude each other. Every request is a single statement, so that no stopped or dead client
//! leaves a transaction open. One connection serves all requests.
//!
//! **Waiting.** Waiters stand in a line in a separate table. A client that releases the lock notifies the first waiter (`NOTIFY`), which
//! then takes it. Waiters send no heartbeats. Instead, when a lock becomes free, only the first waiter may take it for half a second. After
//! that the second one may take it, and each further one a sixteenth of a second later. A dead waiter therefore costs the line half a
//! second, not a TTL. When it wakes up, it gets its old place back. A holder that died notifies nobody: a timer at `lock_until` wakes the
//! first waiter, which also checks once a second in case a notification was lost. Of all waiters of this process for one lock, only one has
//! such a timer. Other programs do not know the line: they take a free lock whenever they come, and notify nobody when they release it.
//! While one of them holds the lock, the first waiter of this process checks each time the hold has become an eighth longer (after at
//! least 5 ms and at most 1 s).
//!
//! **Validity** counts from before the statement was sent. `lock_until` has a resolution of milliseconds, and is rounded up.
//!
//! **The fence** is a counter in a separate table, so that it survives whatever happens to the row of the lock. The statement that grants
//! the lock raises it while it has the row: past the last epoch, and to the server's time in units of 62.5 µs since 2024. The fence
//! therefore does not go back when the tables are lost or restored from a copy, or when a standby that missed the last grants takes over,
//! unless the clocks of the old and the new server differ by more than the duration of the outage.
//!
//! # Tables
//! | table | holds | until |
//! |---|---|---|
//! | `shedlock` | `name`, `lock_until`, `locked_at`, `locked_by` = `owner ttl label` | for ever: clients of ShedLock expect to find a row again |
//! | `shedlock_fence` | the last epoch of a lock, its owner, its full name | for ever |
//! | `shedlock_line` | the waiters, by ticket | the waiter leaves, or at most an hour after the lock was free and nobody took it |
//! | `shedlock_record` | records of other kinds of lock: `kind`, `name`, `value`, `version` | for ever |
//!
//! [`create_table`](PostgresTableBuilder::create_table) or `create=true` in the address creates the tables. Without it, `open` returns an
//! error with the statements to run. The user needs `SELECT`, `INSERT` and `UPDATE`, and for the line also `DELETE`. If a name is longer
//! than ShedLock's 64 characters, our tables contain it in full, and the row contains its first 31 characters, a `~` and 32 digits of its
//! SHA-256.
//!
//! **Records** ([`Records`]) have their own table, which locks do without: installations of earlier programs lack it. Opening the store
//! creates it if it may, and only requests for records fail without it, with the statement to run. A version is 128 random bits. The lowest
//! epoch of a grant is the server's time in the units of the fence. A replacement notifies those who wait for a change, who also ask four
//! times a second. A snapshot of an absent record creates nothing over a later connection, behind which there may be another server.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends.
//! - *The server restarts.* Rows survive, and with them the locks. Waiters come back to their places.
//! - *A standby takes over* that had not received the last commits: a lock granted just before may be granted again. The holder is told at
//!   its next renewal ([`Renewal::Lost`]). Only the fence protects the data then.
//! - *The server's clock is changed.* `lock_until` is a time of that clock. A step forward ends leases early, and their holders do not know
//!   it until the next renewal. After a step back, whatever nobody releases stays longer.
//! - *Somebody keeps a row locked* in an open transaction: [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) after half a second. Waiters
//!   continue to wait.
//! - *A standby, missing permissions, missing tables, other columns*: [`ErrorKind::Unusable`](crate::ErrorKind::Unusable). The error says
//!   what to do.
//! - *A pooler in transaction mode* does not pass on notifications, and mixes up the statements of sessions. Connect to the server itself.
//! - *Somebody deletes the row of a held lock in the table of fences*: the lock is held as before, and shown without an epoch.
//! - *A program that uses ShedLock with its own clock* (without `usingDbTime`): exclusion is only as good as that clock.

use std::fmt;
use std::sync::Arc;

use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::Result;
use crate::stores::postgres::address::Server;

mod builder;
mod failure;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod keys;
mod record_statements;
mod records;
mod requests;
mod schema;
mod session;
mod settings;
mod statements;
mod tables;
mod view;
mod waiting;

pub use builder::PostgresTableBuilder;

use hub::Hub;

/// The name of this store in errors, spans and metrics.
pub(crate) const STORE: &str = "postgres_table";

/// Locks in a Postgres table, shared with programs that use ShedLock. See the [module](self).
///
/// One connection serves everything. If it breaks, the store opens a new one. Dropping this closes the connection.
pub struct PostgresTable {
    hub: Arc<Hub>,
}

impl PostgresTable {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
        records: true,
        lasting: true,
    };

    /// Connects with the default settings.
    ///
    /// The address is `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?table=shedlock]`. The tables must exist unless the address contains
    /// `create=true`. The parameters of TLS (feature `postgres-tls`) are `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, as for
    /// [`Postgres::open`](super::postgres::Postgres::open).
    ///
    /// # Errors
    /// Returns the same errors as [`PostgresTableBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`PostgresTableBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`PostgresTableBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// Returns the settings for connecting to `address`.
    pub fn builder(address: &str) -> PostgresTableBuilder {
        PostgresTableBuilder::new(Server::Address(address.to_owned()))
    }

    /// Returns the settings for connecting with your own configuration; see
    /// [`Postgres::builder_from`](super::postgres::Postgres::builder_from). The configuration is of the crate `tokio-postgres`, version
    /// 0.7.
    ///
    /// ```no_run
    /// # async fn example() -> fencepost::Result<()> {
    /// use fencepost::stores::postgres_table::PostgresTable;
    ///
    /// let mut config = tokio_postgres::Config::new();
    /// config.host("localhost").user("shop").dbname("shop");
    /// let store = PostgresTable::builder_from(config).table("jobs.shedlock").open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from(config: tokio_postgres::Config) -> PostgresTableBuilder {
        PostgresTableBuilder::new(Server::Config(Box::new(config)))
    }

    /// Returns the address of the server, without user and password.
    pub fn address(&self) -> &str {
        self.hub.address.shown()
    }

    /// Returns the name of the table, with its schema.
    pub fn table(&self) -> String {
        self.hub.tables().to_string()
    }
}

/// Connects to tables that exist, even if the address says that missing ones are to be created.
pub(super) async fn open_existing(address: &str) -> Result<PostgresTable> {
    PostgresTable::builder(address)
        .create_table(false)
        .open()
        .await
}

impl fmt::Debug for PostgresTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTable")
            .field("address", &self.address())
            .field("table", &self.table())
            .finish_non_exhaustive()
    }
}

impl Backend for PostgresTable {
    fn store_name(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(requests::try_acquire(&self.hub, claim))
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(requests::acquire(&self.hub, claim, wait))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(requests::renew(&self.hub, claims))
    }

    /// All claims are renewed with one statement.
    fn renew_batch_size(&self) -> usize {
        requests::RENEWED_AT_ONCE
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(requests::release(&self.hub, claim))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(view::inspect(&self.hub, name))
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(view::list(&self.hub, pattern))
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }
}
