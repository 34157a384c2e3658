//! Locks in ZooKeeper (3.5 or later), in the layout of Apache Curator.
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::zookeeper::Zookeeper;
//!
//! let locker = Locker::new(Arc::new(Zookeeper::open("zk://one,two,three").await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! Those who want a lock make an ephemeral sequential node below the lock's folder. The first in the order of the sequence numbers holds it,
//! everybody else watches the one just before itself: a release wakes one waiter, and nobody polls. Curator's `InterProcessMutex` does
//! the same in the same place, so that it keeps us out and is kept out; so does kazoo's `Lock`, told to look for our nodes.
//!
//! **Nodes.** `BASE/NAME/_c_UUID-lock-SEQUENCE`, with the owner as UUID: it finds the node again when the answer to its making was lost.
//! Its data are "owner ttl since label". `BASE` is the path of the address. A name is its own path, except that `/`, `%`, the
//! names `.` and `..` and characters that ZooKeeper refuses (those beyond the basic plane among them) are written `%XX` byte by
//! byte. Folders are containers: the server removes them when they are empty, and we do when we have made and not used one for 10 s.
//!
//! **Sessions.** One [`Zookeeper`] has one session, which the client keeps alive. A node lives as long as its session, and no longer than the
//! session timeout after the server has last heard of it. So:
//! - *A TTL is at most the session timeout* ([`InvalidInput`](crate::ErrorKind::InvalidInput) otherwise): no holder believes in its lock for longer than the server keeps
//!   others out. Belief ends a TTL after the last request that the leader answered, not when a client is told
//!   that its session expired: that comes too late.
//! - *A living process ends its leases itself* when their TTL is over without renewal. *A dead one* costs the others its session timeout.
//! - A renewal is a transaction that a majority must answer. A server that is cut off from the others cannot keep a lease alive.
//! - When a session has ended, its leases are [lost](Renewal::Lost), and who waits goes on in a new one, at the end of the line.
//!
//! **The fence** is the number of the transaction that made the node (czxid), which grows with every write to the whole
//! server, in the order in which the nodes of a lock are made. Its upper half counts elections of a leader: a [`Fence`](crate::Fence) has room for
//! 32,767 of them. After that locks are refused ([`FenceExhausted`](crate::ErrorKind::FenceExhausted)).
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free a session timeout later, whatever its TTL; so is the place of one that waited.
//! - *The holder is stopped, or cut off.* It is told that it lost the lock when its TTL is over, before the server gives it away.
//! - *The server restarts, or elects a leader*, within the session timeout: nothing is lost. Sessions begin anew to count then.
//! - *The server loses its data or is set back to a backup.* Transaction numbers go back, and with them fences: use a new base and new
//!   fenced resources, or let the numbers grow past the old first.
//! - *A follower* tells its leader every half tick whom it heard of. A process that was silent for almost its session timeout and then
//!   renews can be ended by the leader all the same; it is told when its client hears of that, at the latest at its next renewal. The fence holds.
//! - *Somebody deletes the node.* The holder watches its node once it has held the lock for a second, and is told ([`Backend::loss_bell`]).
//! - *Curator and kazoo together* do not see each other, with or without us.

use std::fmt;

use zookeeper_client::Connector;

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::Result;

mod address;
mod builder;
mod expiry;
mod failure;
mod folders;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod keys;
mod note;
mod place;
mod requests;
mod session;
mod standing;
mod view;
mod vigil;

pub use builder::ZookeeperBuilder;
/// The client whose sessions [`ZookeeperBuilder::visit`] makes.
#[cfg(feature = "unstable-hooks")]
pub use zookeeper_client as client;

use builder::Servers;
use hub::Hub;

/// How this store calls itself in errors, spans and metrics.
const STORE: &str = "zookeeper";

/// Locks in ZooKeeper, for everybody who can reach it. See the [module](self).
///
/// One session serves everything; a new one is made when it has ended. Dropping this closes it.
pub struct Zookeeper {
    address: String,
    hub: Hub,
}

impl Zookeeper {
    /// What this store promises. Not that leases end after their TTL: those of a dead process end with its session.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: false,
    };

    /// Connects with the default settings: `zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/BASE]`. Locks are below the node `BASE`, by
    /// default `/fencepost`. With user and password (scheme "digest"), only they may touch what is made.
    ///
    /// # Errors
    /// As [`ZookeeperBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`ZookeeperBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`ZookeeperBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> ZookeeperBuilder {
        ZookeeperBuilder::new(Servers::Address(address.to_owned()))
    }

    /// The settings for connecting to `servers`, `HOST[:PORT][,HOST[:PORT]…][/BASE]`, with a connector of your own: its authentication, TLS and SASL.
    ///
    /// The store makes sessions of its own. The session timeout is [the builder's](ZookeeperBuilder::session_timeout), and the nodes are
    /// open to everybody unless [`creator_only`](ZookeeperBuilder::creator_only) is set. [`open`](ZookeeperBuilder::open) refuses a connector
    /// with a session (`with_session`), which somebody else may end, and a detached one (`with_detached`), whose locks would outlive the store.
    ///
    /// ```no_run
    /// # async fn example() -> fencepost::Result<()> {
    /// use fencepost::stores::zookeeper::Zookeeper;
    /// use zookeeper_client::Client;
    ///
    /// let connector = Client::connector().with_auth("digest", b"shop:secret");
    /// let builder = Zookeeper::builder_from("one,two,three/shop/locks", connector);
    /// let store = builder.creator_only(true).open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from(servers: &str, connector: Connector) -> ZookeeperBuilder {
        ZookeeperBuilder::new(Servers::Connector {
            servers: servers.to_owned(),
            connector: Box::new(connector),
        })
    }

    /// Where the servers are and below which node the locks, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl fmt::Debug for Zookeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zookeeper")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Backend for Zookeeper {
    fn store(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.hub.bell)
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

    /// One transaction.
    fn renewed_at_once(&self) -> usize {
        requests::AT_ONCE
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
