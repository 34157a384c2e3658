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
//! A client that wants a lock creates an ephemeral sequential node below the folder of the lock. The node with the lowest sequence number
//! holds the lock. Every other client watches the node just ahead of its own, so a release wakes one waiter, and nobody polls. Curator's
//! `InterProcessMutex` does the same in the same place, so its locks and ours exclude each other. So do the locks of kazoo's `Lock`, if it
//! is configured to look for our nodes.
//!
//! **Nodes.** The path is `BASE/NAME/_c_UUID-lock-SEQUENCE`, with the owner as UUID. The UUID lets the owner find its node if the answer to
//! the creation was lost. The data of the node are "owner ttl since label". `BASE` is the path in the address. A name is its own path,
//! except that `/`, `%`, the names `.` and `..` and characters that ZooKeeper refuses (including those beyond the basic plane) are written
//! as `%XX`, byte by byte. Folders are containers: the server removes them when they are empty, and we remove one that we created and did
//! not use for 10 s.
//!
//! **Sessions.** One [`Zookeeper`] has one session, which the client keeps alive. A node lives as long as its session, which the server
//! ends when it has not heard of it for the session timeout. Therefore:
//! - *A TTL is at most the session timeout* ([`InvalidInput`](crate::ErrorKind::InvalidInput) otherwise), so that no holder believes in its
//!   lock for longer than the server keeps others out. Belief ends a TTL after the last request that the leader answered, and not when the
//!   client learns that its session expired, which is too late.
//! - *A live process ends its leases itself* when their TTL is over without a renewal. *A dead process* costs the others its session
//!   timeout.
//! - A renewal is a transaction that a majority must confirm. A server that is cut off from the others cannot keep a lease alive.
//! - When a session has ended, its leases are [lost](Renewal::Lost), and its waiters continue in a new session, at the end of the line.
//!
//! **The fence** is the number of the transaction that created the node (czxid). It grows with every write to the whole server, in the
//! order in which the nodes of a lock are created. Its upper half counts elections of a leader: a [`Fence`](crate::Fence) has room for
//! 32,767 of them. After that, locks are refused ([`FenceExhausted`](crate::ErrorKind::FenceExhausted)).
//!
//! **Elections.** A candidate is a node below the folder of the election's name, and the value of the leader is its data: the value alone.
//! By default the nodes are those of Curator's `LeaderLatch` (`_c_UUID-latch-SEQUENCE`). With `?election=kazoo` in the address, or
//! [`election_layout`](ZookeeperBuilder::election_layout), they are those of kazoo's `Election` (`HEX__lock__SEQUENCE`). All candidates of an
//! election need the same layout, because Curator and kazoo do not see each other's nodes. Curator before 5.7.0 can have two leaders after a
//! session was lost ([CURATOR-696](https://issues.apache.org/jira/browse/CURATOR-696)).
//!
//! **Records** ([`Records`]) are below `BASE/%records`, which is the folder of no lock: in those, two hexadecimal digits follow a `%`. The
//! node of a record has one child, whose name is the version, 128 random bits, and whose data are the content, at most 1,000,000 bytes. A
//! replacement is a transaction that deletes the child of the version that was seen and creates another one. Whoever waits for a change
//! watches the children. Records of runs also have the time of the leader, which stamps a write to the node `clock`; the others have none,
//! because it would cost every read a write. The lowest epoch of a grant is zero: no record is lost unless the whole ensemble is, and fences
//! with it.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free a session timeout later, whatever its TTL. The same is true of the place of a dead waiter.
//! - *The holder is stopped or cut off.* It is told that it lost the lock when its TTL is over, before the server gives the lock away.
//! - *The server restarts, or elects a leader*, within the session timeout: nothing is lost. The session timeouts start again then.
//! - *The server loses its data or is restored from a backup.* Transaction numbers go back, and fences with them: use a new base and new
//!   fenced resources, or let the numbers grow past the old ones first.
//! - *A follower* reports to its leader every half tick which sessions it has heard of. If a process was silent for almost its session
//!   timeout and then renews, the leader may end its session nevertheless. The holder is told when its client learns of that, or at its
//!   next renewal at the latest. The fence protects the data.
//! - *Somebody deletes the node.* A holder watches its node once it has held the lock for a second, and is told ([`Backend::loss_bell`]).
//! - *Curator and kazoo together* do not see each other, with or without this library.

use std::fmt;
use std::time::Duration;

use zookeeper_client::Connector;

use crate::backend::leaders::{Leaders, Proclamation, Standing};
use crate::backend::records::Records;
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
mod layout;
mod leaders;
mod line;
mod loss_watch;
mod note;
mod owners;
mod records;
mod requests;
mod session;
mod settings;
mod view;

pub use builder::ZookeeperBuilder;
pub use layout::ElectionLayout;
/// The client crate whose sessions [`ZookeeperBuilder::visit`] creates.
#[cfg(feature = "unstable-hooks")]
pub use zookeeper_client as client;

use builder::Servers;
use hub::Hub;

/// The name of this store in errors, spans and metrics.
const STORE: &str = "zookeeper";

/// Locks in ZooKeeper, for all clients that can reach it. See the [module](self).
///
/// One session serves everything. If it ends, the store creates a new one. Dropping this closes the session.
pub struct Zookeeper {
    address: String,
    hub: Hub,
}

impl Zookeeper {
    /// What this store promises. It does not promise that leases end after their TTL, because those of a dead process end with its session.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: false,
        records: true,
        shares: false,
        lasting: false,
    };

    /// Connects with the default settings.
    ///
    /// The address is `zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/BASE]`. Locks are below the node `BASE`, by default `/fencepost`.
    /// If the address contains a user and password (scheme "digest"), only that user can access the nodes that this store creates.
    ///
    /// # Errors
    /// Returns the same errors as [`ZookeeperBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`ZookeeperBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`ZookeeperBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// Returns the settings for connecting to `address`.
    pub fn builder(address: &str) -> ZookeeperBuilder {
        ZookeeperBuilder::new(Servers::Address(address.to_owned()))
    }

    /// Returns the settings for connecting to `servers`, `HOST[:PORT][,HOST[:PORT]…][/BASE]`, with your own connector: its authentication,
    /// TLS and SASL. The connector is of the crate `zookeeper-client`, version 0.11.
    ///
    /// The store creates its own sessions. The session timeout is [the builder's](ZookeeperBuilder::session_timeout), and everybody can
    /// access the nodes unless [`creator_only`](ZookeeperBuilder::creator_only) is set. [`open`](ZookeeperBuilder::open) refuses a
    /// connector with a session (`with_session`), because somebody else may end it, and a detached one (`with_detached`), because its locks
    /// would outlive the store.
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

    /// Returns the addresses of the servers and the node of the locks, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Connects for locks with this TTL. They end with the session, so it has to last as long.
pub(super) async fn open_with_ttl(address: &str, ttl: Duration) -> Result<Zookeeper> {
    let builder = Zookeeper::builder(address).session_timeout(ttl);
    builder.open().await
}

/// Does the same, and blocks the calling thread.
#[cfg(feature = "blocking")]
pub(super) fn open_with_ttl_blocking(address: &str, ttl: Duration) -> Result<Zookeeper> {
    let builder = Zookeeper::builder(address).session_timeout(ttl);
    builder.open_blocking()
}

impl fmt::Debug for Zookeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zookeeper")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Backend for Zookeeper {
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

    fn max_outage(&self) -> Duration {
        self.hub.settings.max_outage
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(requests::renew(&self.hub, claims))
    }

    /// A renewal is one transaction.
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

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.hub.loss_bell)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn leaders(&self) -> Option<&dyn Leaders> {
        Some(self)
    }
}

impl Leaders for Zookeeper {
    fn proclaim<'a>(
        &'a self,
        claim: &'a Claim,
        epoch: u64,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Proclamation>> {
        Box::pin(leaders::proclaim(&self.hub, claim, epoch, value))
    }

    fn leader<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(leaders::leader(&self.hub, name))
    }

    fn changed<'a>(&'a self, name: &'a LockName, seen: &'a Standing) -> BoxFuture<'a, ()> {
        Box::pin(leaders::changed(&self.hub, name, seen))
    }
}
