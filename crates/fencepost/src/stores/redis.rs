//! Locks in Redis (6.2 or later) or Valkey.
//!
//! # How it works
//! A lock is a string key of the lock's own name with an expiry: what `SET name token NX PX ttl` makes. Clients in other languages
//! that do just that keep us out and are kept out. What we need beyond that lives in keys of our own beside it (see
//! *Keys*).
//!
//! **Waiting.** Those who wait stand in a line at the server, ordered by its clock. A release hands the lock to the first who is alive and
//! tells it so in a push message: nobody polls, nobody is woken in vain, and a contended acquisition and its release
//! cost two commands, however many wait. Who waits for longer sends signs of life, all of a process in one command. A killed waiter
//! is passed over at once (its connection is gone) or costs 0.6 s at most, one that is stopped 1.2 s; never a TTL.
//!
//! **A lock that nobody else wants** is taken with plain commands (`SET NX PX`, `ZADD XX INCR`, `EXISTS` in one go), which cost the server half of what a
//! script does. Where an answer is not the expected one, the script looks again, and the lock is not ours before it says so.
//!
//! **Validity** is counted from before the request was sent that the grant answers: the server sends the moment of that request back with
//! the grant. A message that was on its way for too long is worth nothing, and is not taken for a lock.
//!
//! **The fence** rises by one with every grant. The first request for a name on a new connection also lifts the counter to the server's
//! time, in units of 7.8125 µs since 2024 (128,000 a second), and so does every grant that finds no counter. A restart without persistence,
//! a failover or `FLUSHALL` therefore cannot bring old epochs back, as long as time has counted faster than the grants. A client also
//! tells the server the highest epoch of the name that it has seen, and the counter is lifted past that and past the epoch in the
//! lock's own value. What remains: epochs repeat if the server loses its data *and* the next client to ask has not seen the last
//! epochs *and* either the name has changed hands more than 128,000 times a second for a while, or the new server's clock
//! is behind the old one's by more than the outage took. Time lifts epochs to 2⁴⁶ at most, which it reaches in 2041; from then on only the counter
//! and what clients have seen protect from data loss.
//!
//! # Keys
//! | key | holds | until |
//! |---|---|---|
//! | `NAME` | `owner epoch ttl since label` | the lease ends |
//! | `fp:{TAG}:line:NAME` | who waits | 10 s after the last sign of life |
//! | `fp:{TAG}:wait:NAME` | signs of life | the same |
//! | `fp:{TAG}:fence:NAME` | the last epoch, as the score of the member `2` (the layout's number) | 24 h after its last use; [`keep_fences`](RedisBuilder::keep_fences) |
//! | `fp:{TAG}:gap:NAME` | only with [`leave_gap`](RedisBuilder::leave_gap) | the next gap |
//!
//! `TAG` is the name's own `{hash tag}`, or else the name: all keys of a lock are in one slot.
//!
//! **Versions.** This is layout 2. Earlier programs (layout 1) kept the last epoch as a string. The first request of this version converts it, and programs
//! of layout 1 are refused from then on: their `INCR` fails with `WRONGTYPE`, without effect. Whatever they hold or have half taken then ends with their
//! release or their TTL (`docs/decisions/0008-layouts-on-redis.md`). A fence of a later layout is refused with [`ErrorKind::Unusable`].
//! Once the converted fence is gone (after [`keep_fences`](RedisBuilder::keep_fences), or with the server's data), nothing refuses programs of layout 1, and
//! their fences are smaller: they must be gone by then.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends, or 0.6 s later at most.
//! - *The server restarts without its data, fails over, evicts the key or is flushed.* The lock is gone, and somebody else can take it: the holder is told
//!   ([`Renewal::Lost`]) as soon as the connection ends and the server can be reached again, or at its next renewal if the connection stays. What protects the data then is the fence. `fencepost doctor` looks for such settings.
//! - *The server's clock is set.* Redis keeps expiries by that clock: a step forward ends leases early, unknown to their holders until
//!   the next renewal; a step back lets what nobody gives back stay for longer. Fences rise all the same, and those who wait keep their order
//!   when it goes back.
//! - *Plain clients that poll starve* while our line is never empty: it hands the lock on before they ask. See [`RedisBuilder::leave_gap`].
//! - *The user lacks rights.* Without channels waiters ask every 25 ms; without `CLIENT KILL` a command sent just before a
//!   connection broke can be carried out late, and what it leaves ends by its TTL.
//! - *The server is a read-only replica, out of memory, a node of a cluster, or not Redis*: [`ErrorKind::Unusable`], with what to do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Client, ConnectionAddr, ProtocolVersion};

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

mod address;
mod attendant;
pub(crate) mod failure;
pub(crate) mod hub;
pub(crate) mod keys;
pub(crate) mod link;
pub(crate) mod names;
mod plainly;
pub(crate) mod requests;
pub(crate) mod script;
mod seat;
pub(crate) mod view;
mod watched;

use hub::{Gap, Hub, Settings};

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "redis";

/// How a [`Redis`] is opened; made by [`Redis::builder`].
#[derive(Clone)]
pub struct RedisBuilder {
    address: String,
    settings: Settings,
    keep_fences: Option<Duration>,
    certificates: Certificates,
}

/// How long a fence is kept after its last use, unless the user wants otherwise. When the server has forgotten a name's counter, the
/// counter starts at the server's time again. That is a larger number than before as long as the counter was ahead of the time by less
/// than this: a clock that ran on local time instead of UTC, and was corrected since, was wrong by 14 hours at most.
const KEEP_FENCES: Duration = Duration::from_secs(24 * 3600);

/// The shortest life of a fence that is accepted: an hour for a clock that was wrong and was set right, and an hour for counters that
/// are ahead of the time because a name changed hands more than 128,000 times a second.
const KEEP_FENCES_AT_LEAST: Duration = Duration::from_secs(2 * 3600);

impl RedisBuilder {
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

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `rediss://`.
    #[cfg(feature = "redis-tls")]
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Shows this certificate to the server (both PEM). For `rediss://`.
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
    /// [`ErrorKind::InvalidInput`] when the address is none, [`ErrorKind::Unavailable`] when nobody answers there,
    /// [`ErrorKind::Unusable`] when what answers cannot hold locks: wrong password, too old, not Redis.
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
        let invalid =
            |cause: String| Error::new(ErrorKind::InvalidInput, STORE, Operation::Open, cause);
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
    fn client(&self, protocol: ProtocolVersion) -> Result<(String, Client, Option<Duration>)> {
        let invalid =
            |cause: String| Error::new(ErrorKind::InvalidInput, STORE, Operation::Open, cause);
        if cfg!(not(feature = "redis-tls")) && self.address.starts_with("rediss:") {
            return Err(invalid(
                "built without TLS: rediss:// needs the feature redis-tls".to_owned(),
            ));
        }
        let (info, ours) = address::read(&self.address).map_err(invalid)?;
        let mut certificates = self.certificates.clone();
        ours.files.read_into(&mut certificates).map_err(invalid)?;
        let shown = show(info.addr());
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let client = secured(info.set_redis_settings(redis), certificates);
        let client = client.map_err(|cause| failure::of_connecting(Operation::Open, cause))?;
        Ok((shown, client, ours.keep_fences))
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

#[cfg(feature = "redis-tls")]
fn secured(info: redis::ConnectionInfo, certificates: Certificates) -> redis::RedisResult<Client> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Client::open(info);
    }
    // Somebody else in this process may have chosen one already: that one is as good.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
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

/// Locks in a Redis server, for everybody who can reach it. See the [module](self).
///
/// One connection serves everything; it is made anew when it breaks. Dropping this closes it.
pub struct Redis {
    address: String,
    pub(crate) hub: Arc<Hub>,
}

impl Redis {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, the same with `rediss://` for TLS (feature
    /// `redis-tls`), or `unix:/PATH`. With TLS, `?ca=FILE` names an authority to trust instead of the public ones, and `cert=FILE&key=FILE` what is shown to
    /// the server (all PEM). The files are read once. `?keep_fences=24h` is [`keep_fences`](RedisBuilder::keep_fences).
    ///
    /// # Errors
    /// As [`RedisBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`RedisBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`RedisBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> RedisBuilder {
        RedisBuilder {
            address: address.to_owned(),
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

    /// A client of the caller's own for the server of `address`, for programs that look at the server itself. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the address is none, or names files that hold no certificates.
    pub fn visit(address: &str, protocol: ProtocolVersion) -> Result<Client> {
        let (_, client, _) = Self::builder(address).client(protocol)?;
        Ok(client)
    }

    /// Where the server is, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many commands were sent to the server: one for each attempt (three when nobody else seems to want the lock), place in line,
    /// sign of life, renewal, release or access to
    /// a resource. What connecting takes is not counted.
    pub fn commands_sent(&self) -> u64 {
        self.hub.sent.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Backend for Redis {
    fn store(&self) -> &'static str {
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

    /// One command.
    fn renewed_at_once(&self) -> usize {
        requests::RENEWED_AT_ONCE
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(requests::release(&self.hub, claim))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(view::inspect(&self.hub, name.as_str()))
    }

    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.hub.losses)
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(view::list(&self.hub, pattern))
    }
}
