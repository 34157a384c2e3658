//! [`RedisBuilder`]: holds the settings, and opens the store by an address or with the user's own client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionAddr, ProtocolVersion};

use super::hub::Hub;
use super::scripts::millis;
use super::settings::{GapMs, Settings};
use super::{Redis, STORE, address, failure};
use crate::error::{Error, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

/// The settings for opening a [`Redis`]; [`Redis::builder`] and [`Redis::builder_from`] create it.
#[derive(Clone)]
#[must_use]
pub struct RedisBuilder {
    server: Server,
    connect_timeout: Duration,
    max_outage: Duration,
    gap: Option<Gap>,
    keep_fences: Option<Duration>,
    certificates: Certificates,
}

/// Leaves the lock free for `length` each time `every` has passed since the last such gap.
#[derive(Debug, Clone, Copy)]
struct Gap {
    every: Duration,
    length: Duration,
}

/// Where the server is, and how to log in.
#[derive(Clone)]
pub(super) enum Server {
    Address(String),
    /// The user's own client, which opens the connections.
    Client(Box<Client>),
}

/// The default of [`RedisBuilder::keep_fences`]. When the server has forgotten the counter of a name, the counter starts at the server's
/// time again. That is larger than before if the counter was ahead of the time by less than this. A clock that ran on local time instead of
/// UTC, and was corrected since, was wrong by at most 14 hours.
pub(crate) const KEEP_FENCES: Duration = Duration::from_secs(24 * 3600);

/// The shortest accepted value of [`RedisBuilder::keep_fences`]: one hour for a clock that was wrong and was corrected, and one hour for
/// counters that are ahead of the time because a name changed hands more than 128,000 times per second.
pub(crate) const MIN_KEEP_FENCES: Duration = Duration::from_secs(2 * 3600);

impl RedisBuilder {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            connect_timeout: Duration::from_secs(3),
            max_outage: Duration::from_secs(30),
            gap: None,
            keep_fences: None,
            certificates: Certificates::default(),
        }
    }

    /// Sets how long connecting may take. The default is 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long waiters tolerate a server that cannot be reached before they get an error. The default is 30 s.
    ///
    /// When the server is back, waiters have their old places, if the server remembers them.
    pub fn max_outage(mut self, longest: Duration) -> Self {
        self.max_outage = longest;
        self
    }

    /// Leaves a contended lock free for `length` each time `every` has passed since the last such gap, so that clients which poll with `SET
    /// NX` get a chance. Off by default, because it costs its share of the time (`length / every`).
    ///
    /// All lockers that use the same names should have the same setting: one without it ends the gap.
    pub fn leave_gap(mut self, every: Duration, length: Duration) -> Self {
        self.gap = Some(Gap { every, length });
        self
    }

    /// Sets how long the server keeps the last epoch of a name after its last use, at least 2 hours. The default is 24 hours.
    ///
    /// Each name takes about 190 bytes for that long: with 100 new names per second, 24 hours are 1.7 GB and 2 hours are 140 MB. A name
    /// that comes back later starts at the server's time. That is past its old epochs unless the server's clock was ahead by more than this
    /// when they were granted. If several programs use a name, the setting of the last one to use it counts.
    ///
    /// Takes precedence over `keep_fences` in the address (`?keep_fences=24h`).
    pub fn keep_fences(mut self, time: Duration) -> Self {
        self.keep_fences = Some(time);
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `rediss://`. Replaces all
    /// certificates of a client that was [passed in](Redis::builder_from).
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Presents this certificate to the server (both PEM). For `rediss://`. Replaces all certificates of a client that was
    /// [passed in](Redis::builder_from).
    #[cfg(feature = "redis-tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers there, and
    /// [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if the server cannot hold locks: wrong password, too old, not Redis.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed.
    pub async fn open(self) -> Result<Redis> {
        let (address, hub) = self.prepare()?;
        hub.session(Operation::Open).await?;
        Ok(Redis { address, hub })
    }

    /// Does everything except connecting. Returns the address as it may be shown, and the hub, which connects at the first request.
    pub(crate) fn prepare(self) -> Result<(String, Arc<Hub>)> {
        let gap_ms = match self.gap {
            Some(Gap { every, length }) if length.is_zero() || length >= every => {
                let message =
                    format!("a gap of {length:?} every {every:?} leaves no time for locks");
                return Err(invalid(message));
            }
            Some(Gap { every, length }) => GapMs {
                every: millis(every),
                length: millis(length),
            },
            None => GapMs::default(),
        };
        let (shown, client, keep_fences) = self.client(ProtocolVersion::RESP3)?;
        let keep_fences = self.keep_fences.or(keep_fences).unwrap_or(KEEP_FENCES);
        if keep_fences < MIN_KEEP_FENCES {
            let message = format!(
                "fences that are kept for {keep_fences:?} may be forgotten while the server's time is behind them; keep_fences must be at least 2h"
            );
            return Err(invalid(message));
        }
        let settings = Settings {
            connect_timeout: self.connect_timeout,
            max_outage: self.max_outage,
            gap_ms,
            keep_fences_ms: millis(keep_fences),
        };
        Ok((shown, Arc::new(Hub::new(client, settings))))
    }

    /// Returns whether a valid address sets `keep_fences`.
    #[cfg(feature = "redlock")]
    pub(crate) fn has_keep_fences_in_address(&self) -> bool {
        match &self.server {
            Server::Address(address) => {
                address::parse(address).is_ok_and(|(_, own)| own.keep_fences.is_some())
            }
            Server::Client(_) => false,
        }
    }

    /// Returns the address as it may be shown, the client that connects there, and the address's own `keep_fences`.
    pub(super) fn client(
        &self,
        protocol: ProtocolVersion,
    ) -> Result<(String, Client, Option<Duration>)> {
        let mut certificates = self.certificates.clone();
        let (info, keep_fences) = match &self.server {
            Server::Client(client) => (client.get_connection_info().clone(), None),
            Server::Address(address) => {
                let (info, own) = parse(address)?;
                own.files.read_into(&mut certificates).map_err(invalid)?;
                (info, own.keep_fences)
            }
        };
        let shown = show(info.addr());
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let client = secured(info.set_redis_settings(redis), certificates);
        let client = client.map_err(|cause| failure::of_connecting(Operation::Open, cause))?;
        Ok((shown, client, keep_fences))
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). The first use of
    /// the store connects again, in its own runtime.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async
    /// runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Redis> {
        blocking::open(STORE, self.open())
    }
}

fn invalid(cause: String) -> Error {
    Error::invalid_settings(STORE, cause)
}

fn parse(address: &str) -> Result<(redis::ConnectionInfo, address::OwnParameters)> {
    if cfg!(not(feature = "redis-tls")) && address::is_tls(address) {
        return Err(invalid(
            "built without TLS: rediss:// needs the feature redis-tls".to_owned(),
        ));
    }
    address::parse(address).map_err(invalid)
}

#[cfg(feature = "redis-tls")]
fn secured(info: redis::ConnectionInfo, certificates: Certificates) -> redis::RedisResult<Client> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Client::open(info);
    }
    // Other code in this process may have installed a provider already; that one works as well.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    // A client that was passed in may have its own certificates.
    if certificates.is_empty() {
        return Client::open(info);
    }
    let shown = certificates
        .client
        .map(|(client_cert, client_key)| redis::ClientTlsConfig {
            client_cert,
            client_key,
        });
    let certificates = redis::TlsCertificates {
        client_tls: shown,
        root_cert: certificates.root,
    };
    Client::build_with_tls(info, certificates)
}

#[cfg(not(feature = "redis-tls"))]
fn secured(info: redis::ConnectionInfo, _: Certificates) -> redis::RedisResult<Client> {
    Client::open(info)
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("RedisBuilder")
            .field("connect_timeout", &self.connect_timeout)
            .field("max_outage", &self.max_outage)
            .field("gap", &self.gap)
            .field("keep_fences", &self.keep_fences)
            .finish_non_exhaustive()
    }
}

fn show(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) => format!("redis://{host}:{port}"),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}"),
        ConnectionAddr::Unix(path) => format!("unix:{}", path.display()),
        _ => "redis".to_owned(),
    }
}
