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
//! A lock is the set of keys below its name. Each key is attached to its own lease. The key that was created first has the lock, and the
//! others stand in line. etcd's own `Lock` and `etcdctl lock` work the same way, so their locks and ours exclude each other.
//!
//! **Waiting.** A waiter watches the key just ahead of its own, and checks once more for that key after the watch has begun. Nobody polls,
//! nobody is woken in vain, and no event in between is missed. A lease of at most 5 s, which the waiter keeps alive, keeps its place. A
//! dead waiter therefore costs the line 5 s and the time that etcd needs to notice (one second), but never a long TTL.
//!
//! **A grant** is returned only after a read of our own key that was requested after the lease was kept alive. The read must show that the
//! key exists, that no key is ahead of it, and that the leader that kept the lease alive still leads. A waiter whose lease died while it
//! waited therefore never believes that it has the lock ([etcd#11456](https://github.com/etcd-io/etcd/issues/11456)).
//!
//! **Validity** counts from before the request that granted the lease or kept it alive, and lasts for the TTL of the claim, never longer.
//!
//! **The fence** is the revision that created our key. The revisions of a cluster only grow, across all keys, restarts and changes of
//! leader.
//!
//! **Whole seconds.** A lease of etcd has whole seconds, at least 2 (one and a half times the election timeout). Other TTLs are rounded up.
//! The holder believes in the lock for the TTL that it asked for; if it dies, others get the lock after the rounded time. With the default
//! settings of etcd that is at most `max(2 s, TTL rounded up to seconds) + 1 s`.
//!
//! # Keys
//! | key | holds | until |
//! |---|---|---|
//! | `PREFIX/NAME/NUMBER` | `owner ttl held\|waiting since label` | the lease ends |
//! | `PREFIX/\x01fencepost/KIND/NAME` | a record of another kind of lock (`shares`, `runs` or `leader`) | somebody deletes it |
//!
//! The key of a candidate in an election contains the value of the candidate alone, so that `etcdctl elect PREFIX/NAME` is the same election.
//!
//! `NUMBER` is the last 63 bits of the owner in hexadecimal. It is also the number of the lease, except while the owner waits and after its
//! lease was lengthened. `etcdctl lock PREFIX/NAME` is the same lock.
//!
//! **Records** ([`Records`]) are keys outside of the lines of all locks: no name contains a control character. Their version is the revision
//! that last changed them, which never returns, and a replacement is a transaction that compares it. It is not sent again if it may have
//! taken effect, because the second answer would be that somebody else was faster. Whoever waits for a change watches the key. etcd has no
//! time that all clients could ask for. The lowest epoch of a grant is zero: no record is lost unless the whole cluster is, and revisions
//! and fences with it.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends; see above.
//! - *One server dies or is cut off.* The store asks another server of the address. While the cluster elects a leader (1–2 s), requests
//!   wait.
//! - *The majority is lost.* Nothing can be acquired, renewed or released, and a holder's belief ends with its TTL. No lease ends at the
//!   servers in the meantime, and after an election all leases start again: the lock is free at most one TTL later.
//! - *An old leader wakes up.* Before etcd fixed [#15247](https://github.com/etcd-io/etcd/issues/15247) in 2024, a leader that was stopped
//!   for longer than a TTL could end leases that others had kept alive in the meantime. The holder watches its key and is told when the key
//!   is deleted ([`Backend::loss_bell`]). Until then, the fence or [`write_while_held`](Etcd::write_while_held) protects the data.
//! - *A backup is restored.* Revisions may go back, and fences with them. Restore with `--bump-revision` if your `etcdutl` has it, or reset
//!   the resources.
//! - *The store is full* (`mvcc: database space exceeded`): no lock can be acquired. Locks that are held can be released and
//!   renewed, but a lock that was granted after a wait ends after 5 s, because its longer lease needs room.
//! - *A lock below another.* For us, `a` and `a/b` are two locks. `etcdctl lock a` also waits for `a/b`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{ConnectOptions, GetOptions};

use crate::backend::leaders::{Leaders, Proclamation, Standing};
use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Operation, Result};

mod address;
mod builder;
mod claim_request;
mod failure;
mod held;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod hub;
mod keys;
mod leaders;
mod leases;
mod line;
mod loss_watch;
mod owners;
mod records;
mod requests;
mod rounds;
mod settings;
mod turns;
mod view;
mod waiting;
mod watch_stream;

pub use builder::EtcdBuilder;
/// The client crate, for our own programs and tests.
#[cfg(feature = "unstable-hooks")]
pub use etcd_client as client;
#[cfg(feature = "unstable-hooks")]
pub use hooks::{Borrower, Visit};

use builder::Servers;
use hub::{ANSWER_TIMEOUT, Failed, Hub};

/// The name of this store in errors, spans and metrics.
pub(crate) const STORE: &str = "etcd";

/// Locks in an etcd cluster, for all clients that can reach it. See the [module](self).
///
/// One connection to one of the servers serves everything. If it breaks, the store connects to another server. Dropping this closes the
/// connection.
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
        records: true,
        shares: false,
        lasting: true,
    };

    /// Connects with the default settings.
    ///
    /// The address is `etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]`, or the same with `etcds://` for TLS (feature
    /// `etcd-tls`). With TLS, `?ca=FILE` names an authority to trust instead of the public ones, and `cert=FILE&key=FILE` name the client's
    /// own certificate and its key (all PEM, read once). List all servers of the cluster, so that the store can use another one if one is
    /// gone.
    ///
    /// # Errors
    /// Returns the same errors as [`EtcdBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`EtcdBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`EtcdBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// Returns the settings for connecting to `address`.
    pub fn builder(address: &str) -> EtcdBuilder {
        EtcdBuilder::new(Servers::Address(address.to_owned()))
    }

    /// Returns the settings for connecting to `endpoints` with your own options, both as in [`etcd_client::Client::connect`]. List all
    /// servers of the cluster. The options are of the crate `etcd-client`, version 0.21.
    ///
    /// The store opens its own connections, to one server at a time, and always with
    /// [`with_require_leader`](ConnectOptions::with_require_leader). [The builder](EtcdBuilder::connect_timeout) limits how long connecting
    /// may take.
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

    /// Returns the addresses of the servers and the prefix of the locks, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a harmless request that needs the majority.
    async fn check_reachable(&self) -> Result<()> {
        let root = &keys::line_of(&self.hub.prefix, "");
        // The client connects no earlier than with the first request, unless it has to log in.
        let silence = ANSWER_TIMEOUT.max(self.hub.settings.connect_timeout);
        let asked = self
            .hub
            .ask(Operation::Open, silence, |mut client| async move {
                let options = GetOptions::new().with_count_only();
                client.get(root.clone(), Some(options)).await
            });
        match asked.await {
            Ok(_) => Ok(()),
            // The user may have permissions for single locks only.
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

    /// Every lease needs its own requests.
    fn renew_batch_size(&self) -> usize {
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

impl Leaders for Etcd {
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
