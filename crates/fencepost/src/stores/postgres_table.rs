//! Locks in a table of Postgres (14 or later): the one that ShedLock uses.
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
//! A lock is a row of `shedlock(name, lock_until, locked_at, locked_by)`, held until `lock_until` by the server's clock. Programs that use
//! ShedLock with the same table keep us out and are kept out. Every request is one statement of its own, so that no stopped or
//! dead client leaves a transaction open; one connection serves all of them.
//!
//! **Waiting.** Those who wait stand in a line beside the table. Whoever gives the lock back tells the first (`NOTIFY`), which then takes it.
//! Nobody sends signs of life: from the moment a lock becomes free, its first waiter alone may take it for half a second, after that the
//! second may, and each further one a sixteenth of a second later. So a dead waiter costs the line half a second, not a TTL; when it wakes
//! up, it gets its old place back. A holder that died tells nobody: a timer at `lock_until` wakes the first, which also looks once a second in case a
//! notice was lost. Of all waiters of this process for one lock, one has such a timer. Other programs do not know the line: they take a free lock
//! whenever they come, and tell nobody when they give it back. While one holds, the first of this process looks whenever an eighth more of the time has
//! passed that it has held (5 ms at least, a second at most).
//!
//! **Validity** is counted from before the statement was sent. `lock_until` has milliseconds, and is rounded up to them.
//!
//! **The fence** is a counter in a table of ours, so that it survives whatever happens to the row of the lock. It is raised by the statement that
//! grants, while that has the row: past the last epoch, and to the server's time in units of 62.5 µs since 2024. So it does not go back when
//! the tables are lost or put back from a copy, or when a standby takes over that missed the last grants, unless the clocks of old
//! and new server disagree by more than the outage took.
//!
//! # Tables
//! | table | holds | until |
//! |---|---|---|
//! | `shedlock` | `name`, `lock_until`, `locked_at`, `locked_by` = `owner ttl label` | for ever: clients of ShedLock expect to find a row again |
//! | `shedlock_fence` | the last epoch of a lock, its owner, its whole name | for ever |
//! | `shedlock_line` | who waits, by ticket | it leaves; at most an hour after a lock was free and nobody came |
//!
//! They are made with [`create_table`](PostgresTableBuilder::create_table), or `create=true` in the address; without, opening says what to run. The user needs `SELECT`, `INSERT` and `UPDATE`, in
//! the line also `DELETE`. A name longer than ShedLock's 64 characters is kept in full in our tables; its row has the first 31, a `~` and
//! 32 digits of its SHA-256.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends.
//! - *The server restarts.* Rows survive, and with them the locks. Those who wait come back to their places.
//! - *A standby takes over* that had not received the last commits: a lock granted just before may be granted again. The holder is told at its next
//!   renewal ([`Renewal::Lost`]). What protects the data then is the fence.
//! - *The server's clock is set.* `lock_until` is in that clock: a step forward ends leases early, unknown to their holders until the next renewal; a step
//!   back lets what nobody gives back stay for longer.
//! - *Somebody keeps a row locked* in an open transaction: [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) after half a second; who waits goes on waiting.
//! - *A standby, missing rights, missing tables, other columns*: [`ErrorKind::Unusable`](crate::ErrorKind::Unusable), with what to do.
//! - *A pooler in transaction mode in between*: it does not pass on what a session is told, and mixes up its statements. Connect to the server itself.
//! - *ShedLock of a program that takes its own clock* (without `usingDbTime`): exclusion is then as good as its clock.

use std::fmt;
use std::sync::Arc;

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
mod line;
mod link;
mod names;
mod requests;
mod schema;
mod statements;
mod tables;
mod view;

pub use builder::PostgresTableBuilder;

#[cfg(feature = "unstable-hooks")]
pub(crate) use builder::PARAMETERS;
use hub::Hub;

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "postgres-table";

/// Locks in a table of a Postgres server, shared with programs that use ShedLock. See the [module](self).
///
/// One connection serves everything; it is made anew when it breaks. Dropping this closes it.
pub struct PostgresTable {
    hub: Arc<Hub>,
}

impl PostgresTable {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?table=shedlock]`, with `sslmode=require` for
    /// TLS (feature `postgres-tls`). The tables must exist, unless the address says `create=true`.
    ///
    /// # Errors
    /// As [`PostgresTableBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`PostgresTableBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`PostgresTableBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> PostgresTableBuilder {
        PostgresTableBuilder::new(Server::Address(address.to_owned()))
    }

    /// The settings for connecting with a configuration of your own; see [`Postgres::builder_from`](super::postgres::Postgres::builder_from).
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

    /// Where the server is, without user and password.
    pub fn address(&self) -> &str {
        self.hub.address.shown()
    }

    /// The table, with its schema.
    pub fn table(&self) -> String {
        self.hub.tables().to_string()
    }
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
    fn store(&self) -> &'static str {
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

    /// One statement.
    fn renewed_at_once(&self) -> usize {
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
}
