//! [`EtcdBuilder`]: holds the settings, and opens the store by an address or with the user's own options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::ConnectOptions;

use super::address::Address;
use super::hub::Hub;
use super::settings::Settings;
use super::{Etcd, STORE};
use crate::error::{Error, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

/// The settings for opening an [`Etcd`]; [`Etcd::builder`] and [`Etcd::builder_from`] create it.
#[derive(Clone)]
#[must_use]
pub struct EtcdBuilder {
    servers: Servers,
    prefix: Option<String>,
    settings: Settings,
    certificates: Certificates,
}

/// Where the servers are, and how to log in.
#[derive(Clone)]
pub(super) enum Servers {
    Address(String),
    /// The user's own options.
    Options {
        endpoints: Vec<String>,
        options: Box<ConnectOptions>,
    },
}

impl EtcdBuilder {
    pub(super) fn new(servers: Servers) -> Self {
        Self {
            servers,
            prefix: None,
            settings: Settings {
                connect_timeout: Duration::from_secs(3),
                max_outage: Duration::from_secs(30),
            },
            certificates: Certificates::default(),
        }
    }

    /// Sets the prefix of the keys of all locks: the lock `stock` is below `PREFIX/stock`. Takes precedence over the prefix in the address.
    /// The default is no prefix.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.trim_end_matches('/').to_owned());
        self
    }

    /// Sets how long connecting to one server may take. The default is 3 s.
    ///
    /// When the store is opened, the first answer, which includes the TLS handshake, must come within this time, or within 2 s if that is
    /// longer. Afterwards the store gives up a server that does not answer within 2 s, also if it has to connect for that.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets how long waiters tolerate a store that does not serve requests before they get an error. The default is 30 s.
    ///
    /// When the store is back, they have their old places, unless their leases have ended in the meantime.
    pub fn max_outage(mut self, longest: Duration) -> Self {
        self.settings.max_outage = longest;
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `etcds://`. Replaces the TLS
    /// options that were [passed in](Etcd::builder_from).
    #[cfg(feature = "etcd-tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Presents this certificate to the servers (both PEM). For `etcds://`. Replaces the TLS options that were
    /// [passed in](Etcd::builder_from).
    #[cfg(feature = "etcd-tls")]
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
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers or the cluster has no majority, and
    /// [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if the servers cannot hold locks: wrong password, not etcd.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed.
    pub async fn open(self) -> Result<Etcd> {
        let (address, endpoints, options) = self.resolved()?;
        let hub = Hub::new(endpoints, options, address.prefix.clone(), self.settings);
        let store = Etcd {
            address: address.shown(),
            hub: Arc::new(hub),
        };
        Box::pin(store.check_reachable()).await?;
        Ok(store)
    }

    /// Returns the address to show, and the endpoints and options for the client library.
    fn resolved(&self) -> Result<(Address, Vec<String>, ConnectOptions)> {
        let (mut address, endpoints, options) = match &self.servers {
            Servers::Address(text) => {
                let address = read(text)?;
                let (endpoints, options) = (address.endpoints(), self.options(&address)?);
                (address, endpoints, options)
            }
            Servers::Options { endpoints, options } => {
                let address = Address::of_endpoints(endpoints).ok_or_else(|| {
                    invalid("an endpoint is HOST:PORT, http://HOST:PORT or https://HOST:PORT, and there must be at least one")
                })?;
                let options = self.completed((**options).clone());
                (address, endpoints.clone(), options)
            }
        };
        if let Some(prefix) = &self.prefix {
            address.prefix.clone_from(prefix);
        }
        Ok((address, endpoints, options))
    }

    /// Adds what we need to the user's options.
    fn completed(&self, options: ConnectOptions) -> ConnectOptions {
        // A server that is cut off from the others must report it instead of making us wait.
        let options = options
            .with_require_leader(true)
            .with_connect_timeout(self.settings.connect_timeout);
        if self.certificates.is_empty() {
            options
        } else {
            secured(options, self.certificates.clone())
        }
    }

    pub(super) fn options(&self, address: &Address) -> Result<ConnectOptions> {
        // A server that is cut off from the others must report it instead of making us wait.
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_connect_timeout(self.settings.connect_timeout);
        if let Some((user, password)) = &address.user {
            options = options.with_user(user, password);
        }
        let mut certificates = self.certificates.clone();
        let read = address.files.read_into(&mut certificates);
        read.map_err(invalid)?;
        Ok(if address.is_tls {
            secured(options, certificates)
        } else {
            options
        })
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). The first use of
    /// the store connects again, in its own runtime.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async
    /// runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Etcd> {
        blocking::open(STORE, self.open())
    }
}

/// Parses an address. The error never quotes the address, which may contain a password.
pub(super) fn read(address: &str) -> Result<Address> {
    let address = Address::parse(address).ok_or_else(|| {
        invalid("not an address of etcd; expected etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX], or etcds://…[?ca=FILE][&cert=FILE&key=FILE] for TLS")
    })?;
    if cfg!(not(feature = "etcd-tls")) && address.is_tls {
        return Err(invalid(
            "built without TLS: etcds:// needs the feature etcd-tls",
        ));
    }
    if !address.is_tls && !address.files.is_empty() {
        return Err(invalid("ca, cert and key are about TLS, which is etcds://"));
    }
    Ok(address)
}

fn invalid(cause: impl Into<String>) -> Error {
    Error::invalid_settings(STORE, cause.into())
}

#[cfg(feature = "etcd-tls")]
fn secured(options: ConnectOptions, certificates: Certificates) -> ConnectOptions {
    use etcd_client::{Certificate, Identity, TlsOptions};
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
        // The address may contain a password.
        f.debug_struct("EtcdBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
