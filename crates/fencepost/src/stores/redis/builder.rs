//! How a store is opened: by an address or with the user's own client, and with which settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionAddr, ProtocolVersion};

use super::hub::{Gap, Hub, Settings};
use super::{Redis, STORE, address, failure};
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

/// How a [`Redis`] is opened; made by [`Redis::builder`] or [`Redis::builder_from`].
#[derive(Clone)]
pub struct RedisBuilder {
    server: Server,
    settings: Settings,
    keep_fences: Option<Duration>,
    certificates: Certificates,
}

/// Where the server is, and who we are there.
#[derive(Clone)]
pub(super) enum Server {
    Address(String),
    /// The user's own client, which opens the connections.
    Client(Box<Client>),
}

/// How long a fence is kept after its last use, unless the user wants otherwise. When the server has forgotten a name's counter, the
/// counter starts at the server's time again. That is a larger number than before as long as the counter was ahead of the time by less
/// than this: a clock that ran on local time instead of UTC, and was corrected since, was wrong by 14 hours at most.
const KEEP_FENCES: Duration = Duration::from_secs(24 * 3600);

/// The shortest life of a fence that is accepted: an hour for a clock that was wrong and was set right, and an hour for counters that
/// are ahead of the time because a name changed hands more than 128,000 times a second.
const KEEP_FENCES_AT_LEAST: Duration = Duration::from_secs(2 * 3600);

impl RedisBuilder {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            settings: Settings {
                connect_timeout: Duration::from_secs(3),
                outage: Duration::from_secs(30),
                gap: None,
                keep_fences: KEEP_FENCES,
            },
            keep_fences: None,
            certificates: Certificates::default(),
        }
    }

    /// How long connecting may take. Default: 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long those who wait in line put up with a server that cannot be reached, before they get an error. Default: 30 s.
    ///
    /// When it is back they have their old place, as far as the server remembers.
    #[must_use]
    pub fn outage(mut self, longest: Duration) -> Self {
        self.settings.outage = longest;
        self
    }

    /// Lets a lock that is wanted lie free for `length` when `every` has passed since the last such gap, so that clients which
    /// poll with `SET NX` get a chance. Off by default: it costs its share of the time (`length / every`).
    ///
    /// All clients of ours that use the same names should have the same setting: one that has none ends the gap.
    #[must_use]
    pub fn leave_gap(mut self, every: Duration, length: Duration) -> Self {
        self.settings.gap = Some(Gap { every, length });
        self
    }

    /// How long the server keeps the last epoch of a name after its last use, at least 2 hours. Default: 24 hours.
    ///
    /// Each name takes about 190 bytes for that long: with 100 new names a second, 24 hours are 1.7 GB and 2 hours 140 MB. A name
    /// that comes back later starts at the server's time, which is past its old epochs unless the server's clock was ahead by
    /// more than this when they were given. Also in the address: `?keep_fences=24h`, which wins. Of several programs that use a name,
    /// the last one to use it decides.
    #[must_use]
    pub fn keep_fences(mut self, time: Duration) -> Self {
        self.keep_fences = Some(time);
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `rediss://`. Replaces all
    /// certificates of a client that was [handed in](Redis::builder_from).
    #[cfg(feature = "redis-tls")]
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Shows this certificate to the server (both PEM). For `rediss://`. Replaces all certificates of a client that was
    /// [handed in](Redis::builder_from).
    #[cfg(feature = "redis-tls")]
    #[must_use]
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
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, [`ErrorKind::Unavailable`] if nobody answers there, and
    /// [`ErrorKind::Unusable`] if what answers cannot hold locks: wrong password, too old, not Redis.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn open(self) -> Result<Redis> {
        let (address, hub) = self.prepare()?;
        hub.link(Operation::Open).await?;
        Ok(Redis { address, hub })
    }

    /// Everything but connecting: the address as it may be shown, and what connects when it is first asked.
    pub(crate) fn prepare(mut self) -> Result<(String, Arc<Hub>)> {
        if let Some(Gap { every, length }) = self.settings.gap
            && (length.is_zero() || length >= every)
        {
            let message = format!("a gap of {length:?} every {every:?} leaves no time for locks");
            return Err(invalid(message));
        }
        let (shown, client, keep_fences) = self.client(ProtocolVersion::RESP3)?;
        let keep_fences = keep_fences.or(self.keep_fences).unwrap_or(KEEP_FENCES);
        if keep_fences < KEEP_FENCES_AT_LEAST {
            let message = format!(
                "fences that are kept for {keep_fences:?} may be forgotten while the server's time is behind them; keep_fences must be at least 2h"
            );
            return Err(invalid(message));
        }
        self.settings.keep_fences = keep_fences;
        Ok((shown, Arc::new(Hub::new(client, self.settings))))
    }

    /// The address as it may be shown, what connects there, and how long the address wants fences to be kept.
    pub(super) fn client(
        &self,
        protocol: ProtocolVersion,
    ) -> Result<(String, Client, Option<Duration>)> {
        let mut certificates = self.certificates.clone();
        let (info, keep_fences) = match &self.server {
            Server::Client(client) => (client.get_connection_info().clone(), None),
            Server::Address(address) => {
                let (info, ours) = read(address)?;
                ours.files.read_into(&mut certificates).map_err(invalid)?;
                (info, ours.keep_fences)
            }
        };
        let shown = show(info.addr());
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let client = secured(info.set_redis_settings(redis), certificates);
        let client = client.map_err(|cause| failure::of_connecting(Operation::Open, cause))?;
        Ok((shown, client, keep_fences))
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Redis> {
        blocking::open(STORE, self.open())
    }
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorKind::InvalidInput, STORE, Operation::Open, cause)
}

fn read(address: &str) -> Result<(redis::ConnectionInfo, address::Ours)> {
    if cfg!(not(feature = "redis-tls")) && address.starts_with("rediss:") {
        return Err(invalid(
            "built without TLS: rediss:// needs the feature redis-tls".to_owned(),
        ));
    }
    address::read(address).map_err(invalid)
}

#[cfg(feature = "redis-tls")]
fn secured(info: redis::ConnectionInfo, certificates: Certificates) -> redis::RedisResult<Client> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Client::open(info);
    }
    // Somebody else in this process may have chosen one already: that one is as good.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    // A client that was handed in may have certificates of its own.
    if certificates.are_none() {
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
        // The address may carry a password.
        f.debug_struct("RedisBuilder")
            .field("settings", &self.settings)
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
