//! Locks in Redis (6.2 or later) or Valkey.
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
//! A lock is a string key of the lock's own name with an expiry: what `SET name token NX PX ttl` makes. Clients in other languages
//! that do just that keep us out and are kept out. What we need beyond that lives in keys of our own beside it (see
//! *Keys*).
//!
//! **Waiting.** Those who wait stand in a line at the server, ordered by its clock. A release hands the lock to the first who is alive and
//! tells it so in a push message: nobody polls, nobody is woken in vain, and a contended acquisition and its release
//! cost two commands, however many wait. Who waits for longer sends signs of life, all of a process in one command. A killed waiter
//! is passed over at once (its connection is gone) or costs 0.6 s at most, one that is stopped 1.2 s; never a TTL.
//!
//! **A lock that nobody else wants** is taken with plain commands (`SET NX PX`, `ZADD XX INCR`, `EXISTS` in one go), which cost the server half of what a
//! script does. Where an answer is not the expected one, the script looks again, and the lock is not ours before it says so.
//!
//! **Validity** is counted from before the request was sent that the grant answers: the server sends the moment of that request back with
//! the grant. A message that was on its way for too long is worth nothing, and is not taken for a lock.
//!
//! **The fence** rises by one with every grant. The first request for a name on a new connection also lifts the counter to the server's
//! time, in units of 7.8125 µs since 2024 (128,000 a second), and so does every grant that finds no counter. A restart without persistence,
//! a failover or `FLUSHALL` therefore cannot bring old epochs back, as long as time has counted faster than the grants. A client also
//! tells the server the highest epoch of the name that it has seen, and the counter is lifted past that and past the epoch in the
//! lock's own value. What remains: epochs repeat if the server loses its data *and* the next client to ask has not seen the last
//! epochs *and* either the name has changed hands more than 128,000 times a second for a while, or the new server's clock
//! is behind the old one's by more than the outage took. Time lifts epochs to 2⁴⁶ at most, which it reaches in 2041; from then on only the counter
//! and what clients have seen protect from data loss.
//!
//! # Keys
//! | key | holds | until |
//! |---|---|---|
//! | `NAME` | `owner epoch ttl since label` | the lease ends |
//! | `fp:{TAG}:line:NAME` | who waits | 10 s after the last sign of life |
//! | `fp:{TAG}:wait:NAME` | signs of life | the same |
//! | `fp:{TAG}:fence:NAME` | the last epoch, as the score of the member `2` (the layout's number) | 24 h after its last use; [`keep_fences`](RedisBuilder::keep_fences) |
//! | `fp:{TAG}:gap:NAME` | only with [`leave_gap`](RedisBuilder::leave_gap) | the next gap |
//!
//! `TAG` is the name's own `{hash tag}`, or else the name: all keys of a lock are in one slot.
//!
//! **Versions.** This is layout 2. Earlier programs (layout 1) kept the last epoch as a string. The first request of this version converts it, and programs
//! of layout 1 are refused from then on: their `INCR` fails with `WRONGTYPE`, without effect. Whatever they hold or have half taken then ends with their
//! release or their TTL (`docs/decisions/0008-layouts-on-redis.md`). A fence of a later layout is refused with [`ErrorKind::Unusable`](crate::ErrorKind::Unusable).
//! Once the converted fence is gone (after [`keep_fences`](RedisBuilder::keep_fences), or with the server's data), nothing refuses programs of layout 1, and
//! their fences are smaller: they must be gone by then.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends, or 0.6 s later at most.
//! - *The server restarts without its data, fails over, evicts the key or is flushed.* The lock is gone, and somebody else can take it: the holder is told
//!   ([`Renewal::Lost`]) as soon as the connection ends and the server can be reached again, or at its next renewal if the connection stays. What protects the data then is the fence. `fencepost doctor` looks for such settings.
//! - *The server's clock is set.* Redis keeps expiries by that clock: a step forward ends leases early, unknown to their holders until
//!   the next renewal; a step back lets what nobody gives back stay for longer. Fences rise all the same, and those who wait keep their order
//!   when it goes back.
//! - *Plain clients that poll starve* while our line is never empty: it hands the lock on before they ask. See [`RedisBuilder::leave_gap`].
//! - *The user lacks rights.* Without channels waiters ask every 25 ms; without `CLIENT KILL` a command sent just before a
//!   connection broke can be carried out late, and what it leaves ends by its TTL.
//! - *The server is a read-only replica, out of memory, a node of a cluster, or not Redis*: [`ErrorKind::Unusable`](crate::ErrorKind::Unusable), with what to do.

use std::fmt;
use std::sync::Arc;

use redis::Client;

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::Result;

mod address;
mod attendant;
mod builder;
pub(crate) mod failure;
#[cfg(feature = "unstable-hooks")]
mod hooks;
pub(crate) mod hub;
pub(crate) mod keys;
pub(crate) mod link;
pub(crate) mod names;
mod plainly;
pub(crate) mod requests;
pub(crate) mod script;
mod seat;
pub(crate) mod view;
mod watched;

pub use builder::RedisBuilder;

use builder::Server;
use hub::Hub;

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "redis";

/// Locks in a Redis server, for everybody who can reach it. See the [module](self).
///
/// One connection serves everything; it is made anew when it breaks. Dropping this closes it.
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
    };

    /// Connects with the default settings: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, the same with `rediss://` for TLS (feature
    /// `redis-tls`), or `unix:/PATH`. With TLS, `?ca=FILE` names an authority to trust instead of the public ones, and `cert=FILE&key=FILE` what is shown to
    /// the server (all PEM). The files are read once. `?keep_fences=24h` is [`keep_fences`](RedisBuilder::keep_fences).
    ///
    /// # Errors
    /// As [`RedisBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`RedisBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`RedisBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> RedisBuilder {
        RedisBuilder::new(Server::Address(address.to_owned()))
    }

    /// The settings for connecting with a client of your own: to its server and database, as its user, with its TLS settings.
    ///
    /// The store opens a connection of its own, always with RESP3. A live connection, such as a `ConnectionManager`, cannot be handed in: the
    /// store must know when a connection is new, because its first request there makes sure that fences rise.
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

    /// Where the server is, without user and password.
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

    /// One command.
    fn renewed_at_once(&self) -> usize {
        requests::RENEWED_AT_ONCE
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(requests::release(&self.hub, claim))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(view::inspect(&self.hub, name.as_str()))
    }

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.hub.losses)
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(view::list(&self.hub, pattern))
    }
}
