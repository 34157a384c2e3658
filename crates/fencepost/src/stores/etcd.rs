//! Locks in etcd (3.4 or later).
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
use std::time::Duration;

use etcd_client::{ConnectOptions, GetOptions};

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

mod address;
mod failure;
mod held;
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

/// The client whose conditions and operations [`Etcd::while_held`] and [`Etcd::write_while_held`] speak.
pub use etcd_client as client;

use address::Address;
use hub::{Failed, Hub, SILENCE, Settings};

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "etcd";

/// How an [`Etcd`] is opened; made by [`Etcd::builder`].
#[derive(Clone)]
pub struct EtcdBuilder {
    address: String,
    settings: Settings,
    certificates: Certificates,
}

impl EtcdBuilder {
    /// How long connecting to one server may take. Default: 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long those who wait in line put up with a store that does not serve, before they get an error. Default: 30 s.
    ///
    /// When it is back they have their old place, unless their lease has ended meanwhile.
    #[must_use]
    pub fn outage(mut self, longest: Duration) -> Self {
        self.settings.outage = longest;
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `etcds://`.
    #[cfg(feature = "etcd-tls")]
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Shows this certificate to the servers (both PEM). For `etcds://`.
    #[cfg(feature = "etcd-tls")]
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// Connects to one of the servers.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the address is none, [`ErrorKind::Unavailable`] when no server answers or the cluster has no majority,
    /// [`ErrorKind::Unusable`] when what answers cannot hold locks: wrong password, not etcd.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn open(self) -> Result<Etcd> {
        let address = self.address()?;
        let options = self.options(&address)?;
        let hub = Hub::new(
            address.endpoints(),
            options,
            address.prefix.clone(),
            self.settings,
        );
        let store = Etcd {
            address: address.shown(),
            hub: Arc::new(hub),
        };
        store.is_there().await?;
        Ok(store)
    }

    fn address(&self) -> Result<Address> {
        // The text may contain a password: it is not quoted.
        let address = Address::parse(&self.address).ok_or_else(|| {
            invalid("not an address of etcd; expected etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX], or etcds://…[?ca=FILE][&cert=FILE&key=FILE] for TLS")
        })?;
        if cfg!(not(feature = "etcd-tls")) && address.is_tls {
            return Err(invalid(
                "built without TLS: etcds:// needs the feature etcd-tls",
            ));
        }
        if !address.is_tls && !address.files.are_none() {
            return Err(invalid("ca, cert and key are about TLS, which is etcds://"));
        }
        Ok(address)
    }

    fn options(&self, address: &Address) -> Result<ConnectOptions> {
        // A server that is cut off from the others is to say so, and not to let us wait.
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_connect_timeout(self.settings.connect_timeout);
        if let Some((user, password)) = &address.user {
            options = options.with_user(user, password);
        }
        let mut certificates = self.certificates.clone();
        let read = address.files.read_into(&mut certificates);
        read.map_err(invalid)?;
        Ok(match address.is_tls {
            true => secured(options, certificates),
            false => options,
        })
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Etcd> {
        blocking::open(STORE, self.open())
    }
}

fn invalid(cause: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        STORE,
        Operation::Open,
        cause.into(),
    )
}

#[cfg(feature = "etcd-tls")]
fn secured(options: ConnectOptions, certificates: Certificates) -> ConnectOptions {
    use client::{Certificate, Identity, TlsOptions};
    let tls = match certificates.root {
        Some(pem) => TlsOptions::new().ca_certificate(Certificate::from_pem(pem)),
        None => TlsOptions::new().with_enabled_roots(),
    };
    options.with_tls(match certificates.client {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    })
}

#[cfg(not(feature = "etcd-tls"))]
fn secured(options: ConnectOptions, _: Certificates) -> ConnectOptions {
    options
}

impl fmt::Debug for EtcdBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.debug_struct("EtcdBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Locks in an etcd cluster, for everybody who can reach it. See the [module](self).
///
/// One connection to one of the servers serves everything; when it breaks, another server is asked. Dropping this closes it.
pub struct Etcd {
    address: String,
    hub: Arc<Hub>,
}

/// The servers of an address, each with a client of its own; made by [`Etcd::visit`].
#[non_exhaustive]
pub struct Visit {
    /// `HOST:PORT` of each, as in the address, and the client, or why there is none.
    pub servers: Vec<(String, Result<client::Client>)>,
    /// What the keys of all locks begin with.
    pub prefix: String,
    /// As whom.
    pub user: Option<String>,
    /// Whether the servers are spoken to with TLS.
    pub is_tls: bool,
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.servers.iter().map(|(host, _)| host);
        f.debug_list().entries(hosts).finish()
    }
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
        EtcdBuilder {
            address: address.to_owned(),
            settings: Settings {
                connect_timeout: Duration::from_secs(3),
                outage: Duration::from_secs(30),
            },
            certificates: Certificates::default(),
        }
    }

    /// Clients of the caller's own, one for each server of `address`, for programs that look at the servers themselves. A server that is
    /// not there may be noticed only when it is asked something.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the address is none.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn visit(address: &str, patience: Duration) -> Result<Visit> {
        let builder = Self::builder(address).connect_timeout(patience);
        let address = builder.address()?;
        // A server that has no leader is to say so, and not to refuse.
        let options = builder.options(&address)?.with_require_leader(false);
        let mut servers = Vec::new();
        for (host, endpoint) in address.hosts.iter().zip(address.endpoints()) {
            let connecting = client::Client::connect([endpoint], Some(options.clone()));
            let connected = match tokio::time::timeout(patience, connecting).await {
                Ok(connected) => {
                    connected.map_err(|cause| failure::of_connecting(Operation::Open, cause))
                }
                Err(_) => Err(failure::unanswered(Operation::Open)),
            };
            servers.push((host.clone(), connected));
        }
        Ok(Visit {
            servers,
            prefix: address.prefix,
            user: address.user.map(|(name, _)| name),
            is_tls: address.is_tls,
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
