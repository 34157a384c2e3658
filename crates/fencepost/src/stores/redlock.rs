//! Locks on a majority of several independent Redis servers: Redlock, with a fence.
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::redlock::Redlock;
//!
//! let locker = Locker::new(Arc::new(Redlock::open("redlock://one,two,three").await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A lock is the key of its name on every server, as `SET name token NX PX ttl` creates it. Node's `redlock` and similar libraries and our
//! locks therefore exclude each other. A client that gets the key on a majority (⌊N/2⌋+1) of the servers holds the lock. It asks the other
//! servers too; they may be dead, slow or silent. The servers know nothing of each other: there is no replication, no common clock and no
//! common counter.
//!
//! **Validity** counts from before the first request, minus a hundredth of the TTL and 2 ms, and is checked again at the end. A server has
//! 0.5 s to answer (or half the TTL, if that is less), and a server that did not answer before is not waited for. A dead server therefore
//! does not use up the validity.
//!
//! **The fence.** Each server has a counter per name. A client that gets the key on a server draws a count there. It proposes the largest
//! of its counts as the epoch, and asks every server to accept it. A server accepts an epoch only while the client's key exists, and only
//! if the epoch is larger than the server's counter or is the count that this client drew. Each server thus gives an epoch to only one
//! client, and an epoch that a majority accepts belongs to nobody else and is larger than all before. If a majority drew the same count, as
//! it normally does, that count is the epoch at once, and acquiring a lock costs one round trip. The rules are model-checked
//! (`docs/decisions/0007-the-quorum-fence.md`).
//!
//! **Renewal** needs a majority as well: of servers that have had the key all the time. If a minority does not extend a lease, the lease
//! continues. If a majority no longer has the key, the lease is [`Renewal::Lost`]: the holder is told at once, the lease stays lost, and
//! keys that the renewal created in vain are released in the background. In between, the lease continues and the renewal is tried again,
//! over a new connection if the server did not answer.
//!
//! **A lock that only some servers have** spreads. A renewal creates the key on servers that lack it because they were away, were too slow
//! to be waited for, or were flushed. Such a key votes from the next renewal on, once a renewal has succeeded without it. It is created
//! only if the server's counter is not larger than the epoch (otherwise somebody else may have held the lock) and the server has been up
//! for as long as [`restart_delay`](RedlockBuilder::restart_delay) demands. It carries a stamp that is older than every later release, so a
//! release never leaves it behind.
//!
//! **Early loss.** When a connection breaks or a server is flushed, the store renews the leases immediately, so that a holder learns of a
//! loss before its next renewal ([`Backend::loss_bell`]).
//!
//! **Releasing** goes to every server, including those that never answered. All requests to a server use one connection, so a late request
//! cannot take effect after the release. If a server does not confirm, the release is repeated until the TTL has ended the key.
//!
//! **Waiting.** The servers know nothing of each other, so there is no common line and no order among waiters ([`fifo`](Capabilities::fifo)
//! is false). A waiter is notified by a server when the key goes away (`CLIENT TRACKING`), or knows from the lease when it ends. It asks
//! again after a random pause, and asks only the first server at first, so that one of the waiters wins instead of each getting some of the
//! keys. All processes should list the servers in the same order.
//!
//! # Keys, on each server
//! | key | holds | until |
//! |---|---|---|
//! | `NAME` | `owner count ttl since label`; once the epoch is accepted, it replaces the count | the lease ends |
//! | `fp:{TAG}:quorum:NAME` | a hash: `layout` 2, and `count`, the counter | 24 h after its last use: [`keep_fences`](RedlockBuilder::keep_fences) |
//!
//! In layout 1 the counter was a string. Programs of that layout are refused (`WRONGTYPE`) for names that this version has used and whose
//! counters still exist. Locks that they hold are respected, and their counters are taken over. This version refuses a later layout.
//!
//! While a majority has not accepted an epoch yet, [`inspect`](Backend::inspect) shows a holder without one.
//!
//! **No records.** [`Backend::records`] is `None`: servers that may forget what they have voted for cannot replace a value by
//! compare-and-set.
//!
//! # What can go wrong
//! - *A minority of the servers is lost, slow or cut off.* Nothing happens.
//! - *A majority is.* [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), with the errors of all servers; waiters wait for up to
//!   [`max_outage`](RedlockBuilder::max_outage). Holders are told when their validity ends.
//! - *A server restarts without its data*, evicts the key or is flushed, and the lock was on a bare majority: somebody else can acquire it,
//!   and **two clients hold it**. The first one is told at once if its connection broke or the server was flushed, and otherwise at its
//!   next renewal. Only the fence protects the data. A lost counter starts at the server's time (in units of 7.8125 µs since 2024, 128,000
//!   per second), or past the last epoch that the asking process was granted if that is larger. The second holder therefore has the larger
//!   fence, unless it is another process and the clocks of the servers differ by more than the restart took, or the name changed hands more
//!   than 128,000 times per second. Time lifts counters to at most 2^46, which it reaches in 2041; later, a lost counter starts as if the
//!   server's clock were behind. Make the servers keep their data (`appendonly yes`, `appendfsync always`), or exclude them for a while
//!   after a start: [`restart_delay`](RedlockBuilder::restart_delay).
//! - *A server's clock is set forward.* Its keys end early, which is harmless on a minority of the servers.
//! - *The holder dies.* The lock is free when its lease ends.

// Redlock is a majority of Redis servers, so it uses what the Redis store has for one server: connections, scripts, keys, failures
// and the look at one server. A change of these modules concerns both stores.

use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::Result;

mod acquire;
mod asking;
mod bells;
mod builder;
mod collecting;
mod debts;
mod extension;
mod failure;
mod granted;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod listening;
mod requests;
mod scripts;
mod seen;
mod server;
mod settings;
mod view;
mod votes;
mod waiting;

pub use builder::RedlockBuilder;

use builder::Servers;
use hub::Hub;

/// The name of this store in errors, spans and metrics.
const STORE: &str = "redlock";

/// Locks on several independent Redis servers. See the [module](self).
///
/// One connection to each server serves everything. If it breaks, the store opens a new one. Dropping this closes the connections.
pub struct Redlock {
    hub: Arc<Hub>,
}

impl Redlock {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: false,
        across_processes: true,
        leases: true,
        records: false,
        lasting: true,
    };

    /// Connects with the default settings.
    ///
    /// The address is `redlock://[USER:PASSWORD@]HOST[:PORT],…[/DATABASE][?restart_delay=30s&keep_fences=24h]`. The options are
    /// [`restart_delay`](RedlockBuilder::restart_delay) and [`keep_fences`](RedlockBuilder::keep_fences), in `ms`, `s`, `m`, `h` or `d`.
    ///
    /// # Errors
    /// Returns the same errors as [`RedlockBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`RedlockBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`RedlockBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// Returns the settings for connecting to `address`.
    pub fn builder(address: &str) -> RedlockBuilder {
        RedlockBuilder::at(address)
    }

    /// Returns the settings for connecting to servers with separate addresses, in the form of [`Redis::open`](super::redis::Redis::open):
    /// for TLS (`rediss://`), Unix sockets, or different database numbers. Opening refuses `keep_fences` in an address, because it is set
    /// for all servers: [`RedlockBuilder::keep_fences`].
    pub fn builder_with_addresses<'a>(
        servers: impl IntoIterator<Item = &'a str>,
    ) -> RedlockBuilder {
        let servers = servers.into_iter().map(str::to_owned).collect();
        RedlockBuilder::new(Servers::Addresses(servers))
    }

    /// Returns the settings for connecting with your own clients, one per server; see
    /// [`Redis::builder_from`](super::redis::Redis::builder_from). The clients are of the crate `redis`, version 1.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use fencepost::stores::redlock::Redlock;
    /// use redis::Client;
    ///
    /// let clients = [
    ///     Client::open("redis://one")?,
    ///     Client::open("redis://two")?,
    ///     Client::open("redis://three")?,
    /// ];
    /// let store = Redlock::builder_from(clients).open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from(clients: impl IntoIterator<Item = redis::Client>) -> RedlockBuilder {
        RedlockBuilder::new(Servers::Clients(clients.into_iter().collect()))
    }

    /// Returns the addresses of the servers, without users and passwords.
    pub fn address(&self) -> &str {
        &self.hub.address
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl Backend for Redlock {
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

    /// All claims are renewed with one command per server.
    fn renew_batch_size(&self) -> usize {
        crate::stores::redis::for_redlock::RENEWED_AT_ONCE
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
        Some(&self.hub.loss_bell)
    }
}
