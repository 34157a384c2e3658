//! Locks on several independent Redis servers, of which a majority decides: Redlock, with a fence.
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
//! A lock is the key of its name on every server, what `SET name token NX PX ttl` makes there, so that node's `redlock` and others like it
//! keep us out and are kept out. Whoever gets it on a majority (⌊N/2⌋+1) holds the lock; the others are asked, too, and may be dead, slow or silent.
//! The servers know nothing of each other: no replication, no common clock, no common counter.
//!
//! **Validity** is counted from before the first request, less a hundredth of the TTL and 2 ms, and looked at once more when all is done. A
//! server has 0.5 s to answer (or half the TTL, if that is less); who was silent before is not waited for. So a dead server does not eat the validity.
//!
//! **The fence.** Each server has a counter per name. Who gets the key there draws a count; the largest of its counts is the epoch it proposes, and every
//! server is asked to accept it. A server accepts only while the asker's key is there, and only an epoch larger than its counter, or the count that this asker drew.
//! So each server gives an epoch to one asker, and what a majority accepts is nobody else's, and larger than all before. Where a majority drew the
//! same count, as it does when nothing was amiss, that is the epoch at once, and taking a lock costs one round trip. The rules are model-checked
//! (`docs/decisions/0007-the-quorum-fence.md`).
//!
//! **Extending** needs a majority as well: of servers that have had the key all the time. A lease that a minority does not extend is kept; one that a majority
//! no longer has is [`Renewal::Lost`], is told so at once and stays lost, and keys that were taken for it in vain are given back in the background; in between it runs on,
//! and is tried again, over a new connection where the server was silent.
//!
//! **A lock that not all servers have** spreads: an extension takes the key on servers that lack it because they were away, too late to be
//! waited for, or flushed. Such a key votes from the next extension on, once an extension has succeeded without it. It is taken only if the server's counter is not larger than the
//! epoch (else somebody else may have held the lock) and the server is as old as [`restart_delay`](RedlockBuilder::restart_delay) demands. It carries a stamp from before every
//! later release, so no release leaves it behind.
//!
//! **A loss that this process hears of** is told at once, and not at the next renewal: when a connection breaks or a server is flushed, the leases are renewed
//! immediately ([`Backend::loss_bell`]).
//!
//! **Giving back** goes to every server, also to those that never answered: over one connection per server, so that a late request cannot take
//! effect after it. A server that does not confirm hears it again until the TTL has ended the key.
//!
//! **Waiting.** Servers that know nothing of each other have no common line, so there is no order among those who wait
//! ([`fifo`](Capabilities::fifo) is false). Who waits is told by a server when the key goes (`CLIENT TRACKING`), or knows from the lease when it ends, and
//! asks again after a random pause: first the first server alone, so that of all who wait one wins, instead of each getting a part.
//! All processes should name the servers in the same order.
//!
//! # Keys, on each server
//! | key | holds | until |
//! |---|---|---|
//! | `NAME` | `owner count ttl since label`; with the epoch as the count once it is accepted | the lease ends |
//! | `fp:{TAG}:quorum:NAME` | a hash: `layout` 2, and `count`, the counter | 24 h after its last use: [`keep_fences`](RedlockBuilder::keep_fences) |
//!
//! In layout 1 the counter was a string. Programs of that version are refused (`WRONGTYPE`) for names that this version has used and whose counters are still
//! kept; locks that they hold are respected, and their counters are taken over. A later layout is refused by this version.
//!
//! # What can go wrong
//! - *A minority of the servers is lost, slow or cut off.* Nothing.
//! - *A majority is.* [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), with what each server said; who waits sits out [`outage`](RedlockBuilder::outage). Holders are
//!   told when their validity ends.
//! - *A server restarts without its data*, evicts the key or is flushed, and the lock was on a bare majority: somebody else can take
//!   it, and **two hold it**. The first is told at once if its connection broke or the server was flushed, else at its next renewal. What protects the data is the fence: counters that are gone start at the
//!   server's time (in units of 7.8125 µs since 2024, 128,000 a second) or past the last epoch that the asking process was granted, if that is larger. So the second has
//!   the larger fence, unless it is another process and the clocks of the servers differ by more than the restart took, or the name changed hands more than
//!   128,000 times a second. Time lifts counters up to 2^46, which it reaches in 2041; later, a counter that is gone starts as if the server's clock were behind. Let servers keep their data (`appendonly yes`, `appendfsync always`), or keep them out after a start:
//!   [`restart_delay`](RedlockBuilder::restart_delay).
//! - *A server's clock is set forward.* Its keys end early, which is harmless on a minority.
//! - *The holder dies.* The lock is free when its lease ends.

use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::Result;

mod acquire;
mod address;
mod asking;
mod builder;
mod debts;
mod failure;
mod granted;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod requests;
mod seen;
mod server;
mod view;
mod votes;
mod waiting;

pub use builder::RedlockBuilder;

use acquire::{Manner, Outcome};
use builder::Servers;
use hub::Quorum;
use server::Node;

/// How this store calls itself in errors, spans and metrics.
const STORE: &str = "redlock";
/// Locks on several independent Redis servers. See the [module](self).
///
/// One connection to each serves everything; it is made anew when it breaks. Dropping this closes them.
pub struct Redlock {
    quorum: Arc<Quorum>,
}

impl Redlock {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: false,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `redlock://[USER:PASSWORD@]HOST[:PORT],…[/DATABASE][?restart_delay=30s&keep_fences=24h]`. The
    /// options are [`restart_delay`](RedlockBuilder::restart_delay) and [`keep_fences`](RedlockBuilder::keep_fences), in `ms`, `s`, `h` or `d`.
    ///
    /// # Errors
    /// As [`RedlockBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`RedlockBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`RedlockBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> RedlockBuilder {
        RedlockBuilder::at(address)
    }

    /// The settings for connecting to servers with an address each, as [`Redis::open`](super::redis::Redis::open) takes them: for TLS (`rediss://`), Unix sockets,
    /// or databases of different numbers.
    pub fn builder_of<'a>(servers: impl IntoIterator<Item = &'a str>) -> RedlockBuilder {
        let servers = servers.into_iter().map(str::to_owned).collect();
        RedlockBuilder::new(Servers::Addresses(servers))
    }

    /// The settings for connecting with clients of your own, one for each server; see [`Redis::builder_from`](super::redis::Redis::builder_from).
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

    /// Where the servers are, without users and passwords.
    pub fn address(&self) -> String {
        let short = |node: &Arc<Node>| {
            let address = node.address.strip_prefix("redis://");
            address.unwrap_or(&node.address).to_owned()
        };
        let all: Vec<String> = self.quorum.nodes.iter().map(short).collect();
        format!("redlock://{}", all.join(","))
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
    fn store(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.quorum.losses)
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async {
            match self.quorum.attempt(claim, Manner::AllAtOnce).await? {
                Outcome::Granted(grant) => Ok(Some(grant)),
                Outcome::Busy(_) => Ok(None),
            }
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(self.quorum.acquire(claim, wait))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.quorum.renew(claims))
    }

    /// One command for each server.
    fn renewed_at_once(&self) -> usize {
        crate::stores::redis::requests::RENEWED_AT_ONCE
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.quorum.release(claim))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(self.quorum.inspect(name))
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(self.quorum.list(pattern))
    }
}
