//! Locks in Redis (6.2 or later). Valkey should work, and is not tested.
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::redis::Redis;
//!
//! let locker = Locker::new(Arc::new(Redis::open("redis://localhost").await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A lock is a string key with the name of the lock and an expiry, as `SET name token NX PX ttl` creates it. Clients in other languages
//! that use this command and our locks exclude each other. Everything else that we need is in separate keys (see *Keys*).
//!
//! **Waiting.** Waiters stand in a line at the server, ordered by the server's clock. A release hands the lock to the first waiter that is
//! alive and notifies it with a push message. Nobody polls and nobody is woken in vain. A contended acquisition and its release cost two
//! commands, however many clients wait. A client that waits for longer sends heartbeats; all waiters of a process share one command. A
//! killed waiter is passed over at once (its connection is gone) or delays the line by at most 0.6 s; a stopped waiter delays it by less
//! than 1.2 s, and never by a TTL.
//!
//! **A lock that nobody else wants** is acquired with plain commands (`SET NX PX`, `ZADD XX INCR` and `EXISTS` in one go), which cost the
//! server half as much as a script. If one of the answers is unexpected, the script checks again, and we do not have the lock until it says
//! so.
//!
//! **Validity** counts from before we sent the request that the grant answers: the server returns the time of that request with the grant.
//! If the message was on its way for too long, the grant is not used.
//!
//! **The fence** grows by one with every grant. The first request for a name on a new connection also lifts the counter to the server's
//! time, in units of 7.8125 µs since 2024 (128,000 per second), and so does every grant that finds no counter. A restart without
//! persistence, a failover or `FLUSHALL` therefore cannot bring old epochs back, as long as time has grown faster than the number of
//! grants. A client also sends the highest epoch of the name that it has seen, and the counter is lifted past that and past the epoch in
//! the lock's own value. Epochs repeat only if the server loses its data *and* the next client that asks has not seen the last epochs *and*
//! either the name has changed hands more than 128,000 times per second for a while, or the clock of the new server is behind the old one's
//! by more than the duration of the outage. Time lifts epochs to at most 2⁴⁶, which it reaches in 2041. From then on, only the counter and
//! what clients have seen protect against data loss.
//!
//! # Keys
//! | key | holds | until |
//! |---|---|---|
//! | `NAME` | `owner epoch ttl since label` | the lease ends |
//! | `fp:{TAG}:line:NAME` | the waiters | 10 s after the last heartbeat |
//! | `fp:{TAG}:wait:NAME` | the heartbeats | 10 s after the last heartbeat |
//! | `fp:{TAG}:fence:NAME` | the last epoch, as the score of the member `2` (the layout's number) | 24 h after its last use; [`keep_fences`](RedisBuilder::keep_fences) |
//! | `fp:{TAG}:gap:NAME` | only with [`leave_gap`](RedisBuilder::leave_gap) | the next gap |
//! | `fp:{TAG}:KIND:NAME` | a record (`shares`, `runs`, `leader`): its version in 32 digits, a space, its content | 24 h after its last replacement, or longer |
//!
//! `TAG` is the `{hash tag}` in the name if there is one, and otherwise the name itself, so all keys of a lock are in one slot.
//!
//! **Records** ([`Records`]) are read and replaced by scripts. A version is 128 random bits. Their time is the server's, and the lowest epoch
//! of a grant is that time in the units of the fence, so their epochs survive a loss of data on the same conditions as those of locks. A
//! snapshot of an absent record creates nothing over a later connection, behind which there may be another server. Whoever waits for a
//! change has the server announce it (`CLIENT TRACKING`), which needs no channel per name that would have to be given up again, and also
//! tells of records that were deleted, evicted or flushed. An announcement that was lost costs a quarter of a second.
//!
//! **Versions.** This is layout 2. Earlier programs (layout 1) kept the last epoch as a string. The first request of this version converts
//! it. From then on, programs of layout 1 are refused: their `INCR` fails with `WRONGTYPE`, without effect. What they hold or have half
//! acquired at that time ends with their release or their TTL (`docs/decisions/0008-layouts-on-redis.md`). This version refuses a fence of
//! a later layout with [`ErrorKind::Unusable`](crate::ErrorKind::Unusable). Once the converted fence is gone (after
//! [`keep_fences`](RedisBuilder::keep_fences), or with the server's data), nothing refuses programs of layout 1 any more, and their fences
//! are smaller: stop them before then.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends. If the next in line is dead, too, the line waits for up to 0.6 s more.
//! - *The server restarts without its data, fails over, evicts the key or is flushed.* The lock is gone, and somebody else can acquire it.
//!   The holder is told ([`Renewal::Lost`]) as soon as its connection ends and the server can be reached again, or at its next renewal if
//!   the connection stays. Only the fence protects the data then. `fencepost doctor` checks for such settings.
//! - *The server's clock is changed.* Redis measures expiries with that clock. A step forward ends leases early, and their holders do not
//!   know it until the next renewal. After a step back, whatever nobody releases stays longer. Fences grow in either case, and waiters keep
//!   their order when the clock goes back.
//! - *Plain clients that poll starve* while our line is never empty, because it hands the lock on before they ask. See
//!   [`RedisBuilder::leave_gap`].
//! - *The user lacks permissions.* Without channels, waiters ask every 25 ms. Without `CLIENT TRACKING`, so do those who wait for a record.
//!   Without `CLIENT KILL`, a command that was sent just before a connection broke may be executed late; what it leaves behind ends after
//!   its TTL.
//! - *The server is a read-only replica, out of memory, a node of a cluster, or not Redis*:
//!   [`ErrorKind::Unusable`](crate::ErrorKind::Unusable). The error says what to do.

use std::fmt;
use std::sync::Arc;

use redis::Client;

use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::Result;

mod address;
mod builder;
mod connecting;
mod failure;
#[cfg(feature = "redlock")]
pub(crate) mod for_redlock;
mod heartbeats;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod keys;
mod names;
mod records;
pub(crate) mod register;
mod requests;
mod scripts;
mod session;
mod settings;
mod view;
mod waiting;
mod watched;

pub use builder::RedisBuilder;

use builder::Server;
use hub::Hub;

/// The name of this store in errors, spans and metrics.
pub(crate) const STORE: &str = "redis";

/// Locks on a Redis server, for all clients that can reach it. See the [module](self).
///
/// One connection serves everything. If it breaks, the store opens a new one. Dropping this closes the connection.
pub struct Redis {
    address: String,
    pub(crate) hub: Arc<Hub>,
}

impl Redis {
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
    /// The address is `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, the same with `rediss://` for TLS (feature `redis-tls`), or
    /// `unix:/PATH[?db=DATABASE&user=USER&pass=PASSWORD]`. With TLS, `?ca=FILE` names an authority to trust instead of the public ones, and
    /// `cert=FILE&key=FILE` name the client's own certificate and its key (all PEM). The files are read once. `?keep_fences=24h` sets
    /// [`keep_fences`](RedisBuilder::keep_fences). Unknown parameters are refused.
    ///
    /// # Errors
    /// Returns the same errors as [`RedisBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`RedisBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`RedisBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// Returns the settings for connecting to `address`.
    pub fn builder(address: &str) -> RedisBuilder {
        RedisBuilder::new(Server::Address(address.to_owned()))
    }

    /// Returns the settings for connecting with your own client: to its server and database, as its user, with its TLS settings.
    /// The client is of the crate `redis`, version 1.
    ///
    /// The store opens its own connection, always with RESP3. You cannot pass in a live connection, such as a `ConnectionManager`: the
    /// store must know when a connection is new, because the first request on it makes sure that fences grow.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use fencepost::stores::redis::Redis;
    ///
    /// let client = redis::Client::open("redis://localhost/3")?;
    /// let store = Redis::builder_from(client).open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from(client: Client) -> RedisBuilder {
        RedisBuilder::new(Server::Client(Box::new(client)))
    }

    /// Returns the address of the server, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Backend for Redis {
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

    /// All claims are renewed with one command.
    fn renew_batch_size(&self) -> usize {
        requests::RENEWED_AT_ONCE
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(requests::release(&self.hub, claim))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(view::inspect(&self.hub, name.as_str()))
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(view::list(&self.hub, pattern))
    }

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.hub.loss_bell)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }
}
