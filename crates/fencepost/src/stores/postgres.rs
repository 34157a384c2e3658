//! Locks in Postgres (14 or later): advisory locks of a session, made leases.
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::postgres::Postgres;
//!
//! let locker = Locker::new(Arc::new(Postgres::open("postgres://shop@localhost/shop").await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A lock is `pg_advisory_lock` on a number of 64 bits that stands for the name (see *Numbers*), in a session of our own. Whoever takes
//! the same advisory lock by other means, say in `psql`, keeps us out and is kept out. No table is needed, only the two sequences that fences are drawn
//! from (see *The fence*).
//!
//! **Sessions.** Each name that is held or waited for has a connection of its own, outside any pool, [8](PostgresBuilder::connections) at most. What goes
//! beyond shares sessions: locks are then tried for again and again instead of waited for, because a statement that waits would hold up,
//! or deadlock with, the other owners of the session. Tasks of one process that want the same name need two connections, however many they are:
//! the [`Locker`](crate::Locker) lets one of them ask.
//!
//! **Waiting** is the server's own line: nobody polls, and it serves in order. Whoever has waited for [10 s](PostgresBuilder::requeue_after) goes to the end
//! of the line, because a statement that waits has a snapshot, which holds up `VACUUM` and `CREATE INDEX CONCURRENTLY`. One that is dropped keeps its place until it is
//! released; one whose process is gone is passed over. One that is stopped or cut off when its turn comes costs those behind it 1.5 s.
//!
//! **The lease.** An advisory lock lasts as long as its session. So the session gets `idle_session_timeout` = TTL: the server ends it, and the lock with
//! it, when nothing was asked of it for that long. A renewal is a question on the very connection that holds the lock; when that is
//! gone, so is the lock. A holder that is killed loses it at once; one that is stopped, cut off or silent loses it when its TTL has passed.
//! The server counts anew from *every* statement; those that are not renewals therefore set the session to end when the last of its leases does.
//!
//! **The fence** is drawn by the one who has the lock: the next number of the sequence `public.fencepost_fence`, plus that of `public.fencepost_lift`. Before
//! its first draw every session of the server lifts the second one, so that fences are past the server's time in units of 7.8125 µs since 2024: so
//! they rise after a failover to a standby that lags. A grant waits until its number is on the server's disk, and with the standbys
//! that are waited for, because a crash may otherwise give it out again. The first lock makes the sequences where they are missing; the user needs the right to
//! create in the schema `public` for that, or `USAGE, SELECT, UPDATE` on sequences that somebody else has made. With `fence=transaction-id` in the address
//! the fence is `pg_current_xact_id()` and needs neither; it repeats after a failover to a standby that lags, and is refused where the sequences exist.
//!
//! **Standbys.** Where `synchronous_standby_names` is set, a renewal is a write that they have to confirm. A primary that was replaced gets no confirmation, and its
//! holders stop believing when their TTL has passed. This holds only if every standby that may be promoted is needed for a confirmation, as with `FIRST 2 (sa, sb)`. With `FIRST
//! 1 (sa, sb)` and `sa` promoted, `sb` goes on confirming for the old primary, which goes on granting and renewing, and whose fences can be the larger.
//!
//! # Numbers
//! A name is the first eight bytes of its SHA-256 as a signed number, big-endian. In SQL:
//!
//! ```sql
//! select ('x' || encode(substr(sha256(convert_to('stock', 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
//! ```
//!
//! A name like `#123` is the number 123 itself. Numbers belong to a *database*: programs exclude each other only in the same one.
//! The server knows numbers only; names, owners and labels are shown by our sessions themselves, in a comment before their statements and
//! in `application_name`. `list` finds the names of all sessions of the same role; those of other roles only for superusers and members of
//! `pg_read_all_stats`, and not if `track_activities` is off. What it cannot read is listed as `#123`.
//!
//! # What can go wrong
//! - *The server restarts or fails over.* Advisory locks live in its memory: all are free, and their holders are told at once. What
//!   protects the data then is the fence. It rises over a crash, and over a failover unless the new primary's clock is behind by more than the outage took.
//! - *A primary that was replaced goes on running.* Without synchronous replication its holders go on believing; the new holders' fences are larger than those
//!   from before the promotion, but not than those that the old primary grants later.
//! - *A program of an older version* takes locks in the same database: its fences cannot be compared with ours, and we refuse to lock with [`ErrorKind::Unusable`] while
//!   we see it, or a table `fencepost_tx` of an older version in any schema. One can look at its locks, and release them.
//! - *The connection breaks.* The lock is lost, and the holder is told as soon as this process notices. The server notices at once, or when the TTL has passed.
//! - *A pooler.* In transaction mode, which strands locks, it is refused with [`ErrorKind::Unusable`]; in session mode it works.
//! - *A standby* has advisory locks of its own and can draw no fences: [`ErrorKind::Unusable`].
//! - *Somebody ends our session by hand* (`pg_terminate_backend`): the lock is lost, and the holder is told at once.
//! - *A standby is promoted while somebody waits*: until it is, it counts as a server that [cannot be reached](PostgresBuilder::outage).
//! - *`statement_timeout`, `lock_timeout`* and the like of a role or database do not apply: our sessions set their own.
//! - *Locks that share a session* end with it together: one that is stopped keeps them for the longest of their TTLs.

use std::fmt;

use super::address::has_parameter;
use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Error, ErrorKind, Operation, Result};

pub(crate) mod address;
mod book;
mod builder;
pub(crate) mod connect;
pub(crate) mod failure;
pub(crate) mod fence;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
pub(crate) mod key;
mod parameters;
mod published;
mod requests;
mod seat;
mod session;
mod statement;
mod suitability;
#[cfg(feature = "postgres-tls")]
mod tls;
mod view;

pub use builder::PostgresBuilder;
#[cfg(feature = "unstable-hooks")]
pub use connect::Connection;
/// The client whose connection [`Postgres::visit`] gives.
#[cfg(feature = "unstable-hooks")]
pub use tokio_postgres as client;

use address::Server;
use hub::Hub;

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "postgres";

/// Advisory locks in a Postgres database, for everybody who can reach it. See the [module](self).
///
/// Dropping this closes its connections, and whatever they hold is free.
pub struct Postgres {
    hub: Hub,
}

impl Postgres {
    /// What this store promises. Those who wait are served in order within the bound of [connections](PostgresBuilder::connections), and until they
    /// have waited for [10 s](PostgresBuilder::requeue_after): then they go to the end of the line.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`, with `?sslmode=require` for TLS (feature
    /// `postgres-tls`), [`requeue_after=TIME`](PostgresBuilder::requeue_after), and `fence=transaction-id` for a database without the [sequences](self).
    ///
    /// # Errors
    /// As [`PostgresBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`PostgresBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`PostgresBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> PostgresBuilder {
        PostgresBuilder::new(Server::Address(address.to_owned()))
    }

    /// The settings for connecting with a configuration of your own: its hosts, user, database and parameters.
    ///
    /// With `SslMode::Require` the store connects with TLS (feature `postgres-tls`), checks the server's certificate and trusts whom the
    /// builder says. With any other mode, also with `Prefer`, which is the default of [`tokio_postgres::Config`], it connects without TLS. The store
    /// opens connections of its own: a connection or a pool cannot be handed in, because a lock belongs to the session it was taken in.
    ///
    /// ```no_run
    /// # async fn example() -> fencepost::Result<()> {
    /// use fencepost::stores::postgres::Postgres;
    ///
    /// let mut config = tokio_postgres::Config::new();
    /// config.host("localhost").user("shop").dbname("shop");
    /// let store = Postgres::builder_from(config).open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from(config: tokio_postgres::Config) -> PostgresBuilder {
        PostgresBuilder::new(Server::Config(Box::new(config)))
    }

    fn may_lock(&self) -> Result<()> {
        if !self.hub.settings.looks_only {
            return Ok(());
        }
        let message = "this store was opened to look at locks, not to take them";
        Err(Error::new(
            ErrorKind::Unusable,
            STORE,
            Operation::Acquire,
            message,
        ))
    }

    /// Where the server is, without user and password.
    pub fn address(&self) -> &str {
        self.hub.address.shown()
    }

    /// The number that stands for a name, for programs that take the same lock with `pg_advisory_lock`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a name like `#12`, whose digits are not a number of 64 bits.
    pub fn key_of(name: &LockName) -> Result<i64> {
        key::key_of(name)
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// Opens the database that an address names.
pub(super) async fn open_address(address: &str) -> Result<Postgres> {
    without_table(address)?;
    Postgres::open(address).await
}

/// The same, to look at its locks.
pub(super) async fn look_at_address(address: &str) -> Result<Postgres> {
    without_table(address)?;
    Postgres::builder(address).open_to_look().await
}

fn without_table(address: &str) -> Result<()> {
    if !has_parameter(address, "create") {
        return Ok(());
    }
    let message =
        "create is about the table, and the address names none: ?table=shedlock&create=true";
    Err(Error::new(
        ErrorKind::InvalidInput,
        STORE,
        Operation::Open,
        message,
    ))
}

impl Backend for Postgres {
    fn store(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            self.may_lock()?;
            requests::try_acquire(&self.hub, claim).await
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            self.may_lock()?;
            requests::acquire(&self.hub, claim, wait).await
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(requests::renew(&self.hub, claims))
    }

    /// Leases belong to sessions, and a session that is stuck must not keep the others waiting. Renewals of one session share statements.
    fn renewed_at_once(&self) -> usize {
        1
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

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(self.hub.bell())
    }
}
