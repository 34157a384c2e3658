//! Locks in etcd (3.4 or later).
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::etcd::Etcd;
//!
//! let locker = Locker::new(Arc::new(Etcd::open("etcd://one,two,three").await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A lock is the set of keys below its name, each attached to a lease of its own: the one that was created first has the lock, the others stand
//! in line. That is how etcd's own `Lock` and `etcdctl lock` do it; they keep us out and are kept out.
//!
//! **Waiting.** Who waits watches the key just before its own, and looks for it once more when the watch has begun: nobody polls, nobody is woken in vain, and
//! nothing that happens in between is missed. Its place is kept by a lease of 5 s at most, which it keeps alive: a dead waiter costs the line 5 s and what etcd
//! takes to notice (a second), never a long TTL.
//!
//! **A grant** is given only after a look at our own key that was asked for after the lease was kept alive: it exists, nobody is before it, and the
//! leader that kept the lease alive still leads. So nobody is told it has the lock whose lease died while it waited
//! ([etcd#11456](https://github.com/etcd-io/etcd/issues/11456)).
//!
//! **Validity** is counted from before the lease was asked for or kept alive, and lasts as long as the claim wants, never longer.
//!
//! **The fence** is the revision that created our key. Revisions of a cluster only grow, over all keys, restarts and changes of leader.
//!
//! **Whole seconds.** A lease of etcd has whole seconds, at least 2 (one and a half times the election timeout). A TTL in between is rounded up: the holder
//! believes in it for as long as it asked for, and when it dies, others get the lock after the rounded time. With the default settings of etcd
//! that is at most `max(2 s, TTL rounded up to seconds) + 1 s`.
//!
//! # Keys
//! | key | holds | until |
//! |---|---|---|
//! | `PREFIX/NAME/NUMBER` | `owner ttl held\|waiting since label` | the lease ends |
//!
//! `NUMBER` is the last 63 bits of the owner in hexadecimal, and also the number of the lease, except while one waits or when its lease was
//! lengthened. `etcdctl lock PREFIX/NAME` is the same lock.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends; see above.
//! - *One server dies or is cut off.* Another of the address is asked. While the cluster elects a leader (1–2 s) requests wait.
//! - *The majority is lost.* Nothing can be taken, renewed or given back; a holder's belief ends with its TTL. No lease ends at the servers meanwhile, and after
//!   an election all of them begin anew: the lock is free one TTL later at most.
//! - *An old leader wakes up.* Before etcd mended [#15247](https://github.com/etcd-io/etcd/issues/15247) in 2024, a leader that was stopped for longer than a
//!   TTL could end leases that others had kept alive meanwhile. The holder watches its key, and is told when that goes ([`Backend::loss_bell`]); what protects the data until then is the
//!   fence, or [`write_while_held`](Etcd::write_while_held).
//! - *A backup is restored.* Revisions may go back, and fences with them. Restore with `--bump-revision` where `etcdutl` has it, or reset the resources.
//! - *The store is full* (`mvcc: database space exceeded`): no lock can be taken; those held can be given back.
//! - *A lock below another.* `a` and `a/b` are two locks for us. `etcdctl lock a` also waits for `a/b`.

use std::fmt;
use std::sync::Arc;

use etcd_client::{ConnectOptions, GetOptions};

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Operation, Result};

mod address;
mod builder;
mod failure;
mod held;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod keys;
mod line;
mod loan;
mod requests;
mod rounds;
mod sessions;
mod view;
mod vigil;
mod watch;

pub use builder::EtcdBuilder;
/// The client whose conditions and operations [`Etcd::while_held`] and [`Etcd::write_while_held`] speak.
#[cfg(feature = "unstable-hooks")]
pub use etcd_client as client;
#[cfg(feature = "unstable-hooks")]
pub use hooks::{Borrower, Visit};

use builder::Servers;
use hub::{Failed, Hub, SILENCE};

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "etcd";

/// Locks in an etcd cluster, for everybody who can reach it. See the [module](self).
///
/// One connection to one of the servers serves everything; when it breaks, another server is asked. Dropping this closes it.
pub struct Etcd {
    address: String,
    hub: Arc<Hub>,
}

impl Etcd {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]`, the same with `etcds://` for TLS (feature
    /// `etcd-tls`), where `?ca=FILE` names an authority to trust instead of the public ones, and `cert=FILE&key=FILE` what is shown to the servers (all
    /// PEM, read once). Name all servers of the cluster: when one is gone, another is asked.
    ///
    /// # Errors
    /// As [`EtcdBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`EtcdBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`EtcdBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> EtcdBuilder {
        EtcdBuilder::new(Servers::Address(address.to_owned()))
    }

    /// The settings for connecting to `endpoints` with options of your own, both as [`etcd_client::Client::connect`] takes them. Name all servers of
    /// the cluster.
    ///
    /// The store opens connections of its own, one server at a time, and always with
    /// [`with_require_leader`](ConnectOptions::with_require_leader). How long connecting may take is [the builder's](EtcdBuilder::connect_timeout).
    ///
    /// ```no_run
    /// # async fn example() -> fencepost::Result<()> {
    /// use etcd_client::ConnectOptions;
    /// use fencepost::stores::etcd::Etcd;
    ///
    /// let options = ConnectOptions::new().with_user("shop", "secret");
    /// let builder = Etcd::builder_from(["one:2379", "two:2379", "three:2379"], options);
    /// let store = builder.prefix("shop").open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from(
        endpoints: impl IntoIterator<Item = impl Into<String>>,
        options: ConnectOptions,
    ) -> EtcdBuilder {
        EtcdBuilder::new(Servers::Options {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            options: Box::new(options),
        })
    }

    /// Where the servers are and below which key the locks, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks something harmless of the majority.
    async fn is_there(&self) -> Result<()> {
        let root = &keys::line_of(&self.hub.prefix, "");
        let asked = self
            .hub
            .ask(Operation::Open, SILENCE, |mut client| async move {
                let options = GetOptions::new().with_count_only();
                client.get(root.clone(), Some(options)).await
            });
        match asked.await {
            Ok(_) => Ok(()),
            // The user may have rights on single locks.
            Err(Failed::Refused { cause, .. }) if failure::is_forbidden(&cause) => Ok(()),
            Err(failed) => Err(failed.into_error(Operation::Open)),
        }
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Backend for Etcd {
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

    /// Every lease has requests of its own.
    fn renewed_at_once(&self) -> usize {
        1
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
}
