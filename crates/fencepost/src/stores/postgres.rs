//! Locks in Postgres (14 or later): advisory locks of a session, turned into leases.
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
//! A lock is `pg_advisory_lock` on a 64-bit number that stands for the name (see *Numbers*), in a session of our own. A client that takes
//! the same advisory lock by other means, for example in `psql`, and our locks exclude each other. No table is needed, only the two
//! sequences from which fences are drawn (see *The fence*).
//!
//! **Sessions.** Each name that is held or waited for has its own connection, outside any pool, up to
//! [8](PostgresBuilder::max_connections). Further names share sessions. Their locks are then polled instead of waited for, because a
//! statement that waits would block the other owners of the session or deadlock with them. Tasks of one process that want the same name
//! need only two connections, however many tasks there are, because the [`Locker`](crate::Locker) lets only one of them ask.
//!
//! **Waiting** uses the server's own line: nobody polls, and waiters are served in order. A client that has waited for [10
//! s](PostgresBuilder::requeue_after) goes to the end of the line, because a waiting statement has a snapshot, which holds up `VACUUM` and
//! `CREATE INDEX CONCURRENTLY`. If the future of a waiter is dropped, the waiter keeps its place until it is released. If its process is
//! gone, it is passed over. If it is stopped or cut off when its turn comes, it delays those behind it by 1.5 s.
//!
//! **The lease.** An advisory lock lasts as long as its session. We therefore set `idle_session_timeout` of the session to the TTL: the
//! server ends the session, and the lock with it, if it receives no statement for that long. A renewal is a statement on the connection
//! that holds the lock; if the connection is gone, so is the lock. A killed holder loses the lock at once; a holder that is stopped, cut
//! off or silent loses it after its TTL. The server starts to count again with *every* statement, so a statement that is not a renewal sets
//! the session to end when the last of its leases does.
//!
//! **The fence** is drawn by the client that has the lock: the next number of the sequence `public.fencepost_fence`, plus that of
//! `public.fencepost_lift`. Before its first draw, every session lifts the second sequence, so that fences are past the server's time in
//! units of 7.8125 µs since 2024. Fences therefore grow even after a failover to a standby that lags behind. A grant waits until its number
//! is on the server's disk and on its synchronous standbys, because otherwise the number could be drawn again after a crash. The first lock
//! creates the sequences if they do not exist. For that, the user needs permission to create in the schema `public`; otherwise somebody
//! else must create them and grant `USAGE, SELECT, UPDATE`. With `fence=transaction-id` in the address, the fence is `pg_current_xact_id()`
//! and needs neither. That fence repeats after a failover to a standby that lags behind, and it is refused if the sequences exist.
//!
//! **Standbys.** If `synchronous_standby_names` is set, a renewal is a write that the standbys have to confirm. A primary that was replaced
//! gets no confirmation, and its holders stop believing after their TTL. This holds only if every standby that may be promoted is needed
//! for a confirmation, as with `FIRST 2 (sa, sb)`. With `FIRST 1 (sa, sb)`, if `sa` is promoted, `sb` continues to confirm writes of the
//! old primary, which continues to grant and renew, possibly with the larger fences.
//!
//! # Numbers
//! The number of a name is the first eight bytes of its SHA-256 as a signed big-endian integer. In SQL:
//!
//! ```sql
//! select ('x' || encode(substr(sha256(convert_to('stock', 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
//! ```
//!
//! A name like `#123` is the number 123 itself. Numbers belong to a *database*: programs exclude each other only in the same database. The
//! server knows only numbers. Our sessions publish names, owners and labels themselves, in a comment before their statements and in
//! `application_name`. `list` finds the names of all sessions of the same role. It finds those of other roles only for superusers and
//! members of `pg_read_all_stats`, and only if `track_activities` is on. A lock whose name it cannot read is listed as `#123`. So is
//! a lock for which the comment has no room, which is the case after about eight locks in one session. The owner and the epoch of such
//! a lock are known only if its session has no other lock.
//!
//! **No records.** [`Backend::records`] is `None`: advisory locks have no content. [`postgres_table`](super::postgres_table) has records.
//!
//! # What can go wrong
//! - *The server restarts or fails over.* Advisory locks are in its memory, so all of them are free, and their holders are told at once.
//!   Only the fence protects the data then. It grows across a crash, and across a failover unless the new primary's clock is behind by more
//!   than the duration of the outage.
//! - *A primary that was replaced continues to run.* Without synchronous replication, its holders continue to believe. The fences of the
//!   new holders are larger than those from before the promotion, but not necessarily larger than those that the old primary grants later.
//! - *A program of an older version* takes locks in the same database. Its fences cannot be compared with ours, so acquiring a lock fails
//!   with [`ErrorKind::Unusable`] while we see such a program, or a table `fencepost_tx` of an older version in any schema. Its locks can
//!   still be inspected and released.
//! - *The connection breaks.* The lock is lost, and the holder is told as soon as this process notices. The server notices at once, or
//!   after the TTL.
//! - *A pooler.* Transaction mode would leave locks behind, so it is refused with [`ErrorKind::Unusable`]. Session mode works.
//! - *A standby* has its own advisory locks and cannot draw fences: [`ErrorKind::Unusable`].
//! - *Somebody ends our session* (`pg_terminate_backend`): the lock is lost, and the holder is told at once.
//! - *A standby is about to be promoted while somebody waits*: until then it counts as a server that [cannot be
//!   reached](PostgresBuilder::max_outage).
//! - *`statement_timeout`, `lock_timeout`* and similar settings of a role or database do not apply: our sessions set their own.
//! - *Locks that share a session* end together with it: a stopped process keeps all of them for the longest of their TTLs.

use std::fmt;

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Error, ErrorKind, Operation, Result};

pub(crate) mod address;
mod builder;
pub(crate) mod connect;
pub(crate) mod failure;
pub(crate) mod fence;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
pub(crate) mod keys;
mod parameters;
mod published;
mod requests;
mod rows;
mod seat;
mod session;
mod session_pool;
mod settings;
mod statements;
mod suitability;
#[cfg(feature = "postgres-tls")]
mod tls;
mod view;

pub use builder::PostgresBuilder;
#[cfg(feature = "unstable-hooks")]
pub use connect::Connection;
/// The client whose connection [`Postgres::visit`] returns.
#[cfg(feature = "unstable-hooks")]
pub use tokio_postgres as client;

use address::Server;
use hub::Hub;

/// The name of this store in errors, spans and metrics.
pub(crate) const STORE: &str = "postgres";

/// Advisory locks in a Postgres database, for all clients that can reach it. See the [module](self).
///
/// Dropping this closes its connections, which frees all locks that they hold.
pub struct Postgres {
    hub: Hub,
}

impl Postgres {
    /// What this store promises. Waiters are served in order within the limit of [connections](PostgresBuilder::max_connections), and until
    /// they have waited for [10 s](PostgresBuilder::requeue_after); then they go to the end of the line.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
        records: false,
        lasting: false,
    };

    /// Connects with the default settings.
    ///
    /// The address is `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`. Its parameters are
    /// [`requeue_after=TIME`](PostgresBuilder::requeue_after), `fence=transaction-id` for a database without the [sequences](self), those of
    /// [`tokio_postgres::Config`], and those of TLS (feature `postgres-tls`):
    ///
    /// - `sslmode=require` encrypts the connection and checks the certificate and the name of the server, and so do `verify-ca` and
    ///   `verify-full`. Without it, nothing is encrypted. `prefer` and `allow` are refused.
    /// - `sslrootcert=FILE` names an authority to trust instead of the public ones, and `sslcert=FILE&sslkey=FILE` name the client's own
    ///   certificate and its key (all PEM). The files are read once.
    ///
    /// # Errors
    /// Returns the same errors as [`PostgresBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`PostgresBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`PostgresBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// Returns the settings for connecting to `address`.
    pub fn builder(address: &str) -> PostgresBuilder {
        PostgresBuilder::new(Server::Address(address.to_owned()))
    }

    /// Returns the settings for connecting with your own configuration: its hosts, user, database and parameters.
    /// The configuration is of the crate `tokio-postgres`, version 0.7.
    ///
    /// With `SslMode::Require`, the store connects with TLS (feature `postgres-tls`), checks the server's certificate, and trusts the
    /// authorities that the builder names. With any other mode, including `Prefer`, the default of [`tokio_postgres::Config`], it connects
    /// without TLS. The store opens its own connections. You cannot pass in a connection or a pool, because a lock belongs to the session
    /// in which it was taken.
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

    /// Returns the address of the server, without user and password.
    pub fn address(&self) -> &str {
        self.hub.address.shown()
    }

    /// Returns the number that stands for a name, for programs that take the same lock with `pg_advisory_lock`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the name is like `#12` but its digits are not a 64-bit number.
    pub fn key_of(name: &LockName) -> Result<i64> {
        keys::key_of(name)
    }

    /// Returns an error if the store was opened only to look at locks and to release them.
    fn check_may_lock(&self) -> Result<()> {
        if !self.hub.settings.only_to_release {
            return Ok(());
        }
        let message = "this store was opened only to look at locks and to release them; open it with `open` for more";
        Err(Error::new(
            ErrorKind::Unusable,
            STORE,
            Operation::Acquire,
            message,
        ))
    }
}

/// Connects to look at locks and to release them.
pub(super) async fn open_to_release(address: &str) -> Result<Postgres> {
    Postgres::builder(address).open_to_release().await
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl Backend for Postgres {
    fn store_name(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            self.check_may_lock()?;
            requests::try_acquire(&self.hub, claim).await
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            self.check_may_lock()?;
            requests::acquire(&self.hub, claim, wait).await
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(requests::renew(&self.hub, claims))
    }

    /// Leases belong to sessions, and a session that is stuck must not delay the others. Renewals of one session share statements.
    fn renew_batch_size(&self) -> usize {
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
        Some(self.hub.loss_bell())
    }
}
