//! Locks in Postgres (14 or later): advisory locks of a session, made leases.
//!
//! # How it works
//! A lock is `pg_advisory_lock` on a number of 64 bits that stands for the name (see *Numbers*), in a session of our own. Whoever takes
//! the same advisory lock by other means, say in `psql`, keeps us out and is kept out. No table is needed, only the two sequences that fences are drawn
//! from (see *The fence*).
//!
//! **Sessions.** Each name that is held or waited for has a connection of its own, outside any pool, [8](PostgresBuilder::connections) at most. What goes
//! beyond shares sessions: locks are then tried for again and again instead of waited for, because a statement that waits would hold up,
//! or deadlock with, the other owners of the session. Tasks of one process that want the same name need two connections, however many they are:
//! the [`Locker`](crate::Locker) lets one of them ask.
//!
//! **Waiting** is the server's own line: nobody polls, and it serves in order. Whoever has waited for [10 s](PostgresBuilder::requeue_after) goes to the end
//! of the line, because a statement that waits has a snapshot, which holds up `VACUUM` and `CREATE INDEX CONCURRENTLY`. One that is dropped keeps its place until it is
//! released; one whose process is gone is passed over. One that is stopped or cut off when its turn comes costs those behind it 1.5 s.
//!
//! **The lease.** An advisory lock lasts as long as its session. So the session gets `idle_session_timeout` = TTL: the server ends it, and the lock with
//! it, when nothing was asked of it for that long. A renewal is a question on the very connection that holds the lock; when that is
//! gone, so is the lock. A holder that is killed loses it at once; one that is stopped, cut off or silent loses it when its TTL has passed.
//! The server counts anew from *every* statement; those that are not renewals therefore set the session to end when the last of its leases does.
//!
//! **The fence** is drawn by the one who has the lock: the next number of the sequence `public.fencepost_fence`, plus that of `public.fencepost_lift`. Before
//! its first draw every session of the server lifts the second one, so that fences are past the server's time in units of 7.8125 µs since 2024: so
//! they rise after a failover to a standby that lags. A grant waits until its number is on the server's disk, and with the standbys
//! that are waited for, because a crash may otherwise give it out again. [`open`](PostgresBuilder::open) makes the sequences where they are missing; the user needs the right to
//! create in the schema `public` for that, or `USAGE, SELECT, UPDATE` on sequences that somebody else has made. With `fence=transaction-id` in the address
//! the fence is `pg_current_xact_id()` and needs neither; it repeats after a failover to a standby that lags, and is refused where the sequences exist.
//!
//! **Standbys.** Where `synchronous_standby_names` is set, a renewal is a write that they have to confirm. A primary that was replaced gets no confirmation, and its
//! holders stop believing when their TTL has passed.
//!
//! # Numbers
//! A name is the first eight bytes of its SHA-256 as a signed number, big-endian. In SQL:
//!
//! ```sql
//! select ('x' || encode(substr(sha256(convert_to('stock', 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
//! ```
//!
//! A name like `#123` is the number 123 itself. Numbers belong to a *database*: programs exclude each other only in the same one.
//! The server knows numbers only; names, owners and labels are shown by our sessions themselves, in a comment before their statements and
//! in `application_name`. `list` finds the names of all sessions of the same role; those of other roles only for superusers and members of
//! `pg_read_all_stats`, and not if `track_activities` is off. What it cannot read is listed as `#123`.
//!
//! # What can go wrong
//! - *The server restarts or fails over.* Advisory locks live in its memory: all are free, and their holders are told at once. What
//!   protects the data then is the fence. It rises over a crash, and over a failover unless the new primary's clock is behind by more than the outage took.
//! - *A primary that was replaced goes on running.* Without synchronous replication its holders go on believing; the new holders' fences are larger.
//! - *A program of an older version* takes locks in the same database: its fences cannot be compared with ours, and we refuse to lock with [`ErrorKind::Unusable`] while
//!   we see it.
//! - *The connection breaks.* The lock is lost, and the holder is told as soon as this process notices. The server notices at once, or when the TTL has passed.
//! - *A pooler.* In transaction mode, which strands locks, it is refused with [`ErrorKind::Unusable`]; in session mode it works.
//! - *A standby* has advisory locks of its own and can draw no fences: [`ErrorKind::Unusable`].
//! - *Somebody ends our session by hand* (`pg_terminate_backend`): the lock is lost, and the holder is told at once.
//! - *A standby is promoted while somebody waits*: until it is, it counts as a server that [cannot be reached](PostgresBuilder::outage).
//! - *`statement_timeout`, `lock_timeout`* and the like of a role or database do not apply: our sessions set their own.
//! - *Locks that share a session* end with it together: one that is stopped keeps them for the longest of their TTLs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::stores::kit::certificates::Certificates;

mod book;
pub(crate) mod connect;
pub(crate) mod failure;
pub(crate) mod fence;
mod hub;
pub(crate) mod key;
mod parameters;
mod published;
mod requests;
mod seat;
mod session;
mod statement;
mod suitability;
#[cfg(feature = "postgres-tls")]
mod tls;
mod view;

pub use connect::Connection;
/// The client whose connection [`Postgres::visit`] gives.
pub use tokio_postgres as client;

use connect::Address;
use fence::Source;
use hub::{Hub, Settings};
use session::Session;

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "postgres";

/// How a [`Postgres`] is opened; made by [`Postgres::builder`].
#[derive(Clone)]
pub struct PostgresBuilder {
    address: String,
    create_sequences: bool,
    settings: Settings,
    requeue_after: Option<Duration>,
    certificates: Certificates,
}

impl PostgresBuilder {
    /// How long connecting may take. Default: 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How many connections there are at most. Default: 8.
    ///
    /// One per name that is held or waited for; locks beyond that share, and are tried for every 20 to 250 ms instead of waited for in order.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.settings.connections = most;
        self
    }

    /// How long a connection that is not needed is kept for the next lock. Default: 10 s. The server ends it then.
    #[must_use]
    pub fn keep_spare(mut self, time: Duration) -> Self {
        self.settings.spare = time;
        self
    }

    /// How long those who wait in line put up with a server that cannot be reached, or that is a standby, before they get an error. Default: 30 s.
    ///
    /// When it is back they stand at the end of the line.
    #[must_use]
    pub fn outage(mut self, longest: Duration) -> Self {
        self.settings.outage = longest;
        self
    }

    /// How long one who waits keeps its place in the server's line before it goes to the end of the line. Default: 10 s.
    /// [`Duration::MAX`] means never. Wins over `requeue_after=10s` (or `500ms`, or `never`) in the address.
    ///
    /// A statement that waits has a snapshot all the time. `VACUUM` keeps every row that such a snapshot might see, and `CREATE INDEX CONCURRENTLY`
    /// waits until the snapshot is gone. This setting bounds how long they are held up. Its cost is the order of those who wait for longer than
    /// this time; nobody loses its place before.
    #[must_use]
    pub fn requeue_after(mut self, longest: Duration) -> Self {
        self.requeue_after = Some(longest);
        self
    }

    /// Whether the sequences that fences are drawn from are made when the store is opened, where they are missing. Default: yes. Otherwise, and
    /// where the user may not make them, the error says how to.
    #[must_use]
    pub fn create_sequences(mut self, create: bool) -> Self {
        self.create_sequences = create;
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `sslmode=require`.
    #[cfg(feature = "postgres-tls")]
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Shows this certificate to the server (both PEM). For `sslmode=require`.
    #[cfg(feature = "postgres-tls")]
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// Connects, tries out whether locks exclude there, and makes the sequences for fences where they are
    /// [missing](Self::create_sequences).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the address is none, [`ErrorKind::Unavailable`] when nobody answers there,
    /// [`ErrorKind::Unusable`] when what answers cannot hold locks: wrong password, too old, a standby, a pooler, not Postgres; when the
    /// sequences are missing and the user may not make them (the error has the statements to run); and while a program of an older version
    /// takes locks there.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections; sequences that were made stay.
    pub async fn open(self) -> Result<Postgres> {
        let (hub, session) = self.connect().await?;
        session.ready(Operation::Open, hub.settings.source).await?;
        hub.keep(session);
        Ok(Postgres { hub })
    }

    /// Connects to look at locks, with [`inspect`](Backend::inspect) and [`list`](Backend::list). That needs no fence: no sequence is made or has to be
    /// there, no right on it is needed, and it works while a program of an older version takes locks. Taking a lock fails.
    ///
    /// # Errors
    /// As [`open`](Self::open), without those about sequences and older versions.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn open_to_look(mut self) -> Result<Postgres> {
        self.settings.looks_only = true;
        let (hub, session) = self.connect().await?;
        hub.keep(session);
        Ok(Postgres { hub })
    }

    async fn connect(self) -> Result<(Hub, Arc<Session>)> {
        let hub = self.hub()?;
        let one = hub.open(Operation::Open).await?;
        let other = hub.open(Operation::Open).await?;
        suitability::check(&one, &other).await?;
        Ok((hub, one))
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Postgres> {
        let wrong = |message| Error::new(ErrorKind::WrongContext, STORE, Operation::Open, message);
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(wrong(
                "a blocking call inside an async runtime would stall it; use open there",
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| wrong("cannot start a runtime").with_source(error))?;
        runtime.block_on(self.open())
    }

    fn hub(mut self) -> Result<Hub> {
        let invalid =
            |message| Error::new(ErrorKind::InvalidInput, STORE, Operation::Open, message);
        if self.settings.connections < 2 {
            return Err(invalid(
                "two connections are needed at least: one to wait with and one to stop waiting",
            ));
        }
        if self.settings.spare.is_zero() {
            return Err(invalid("connections have to be kept for some time"));
        }
        let parsed = Address::parse(STORE, &self.address, parameters::NAMES, &self.certificates);
        let (address, own) = parsed?;
        let in_address = parameters::requeue_after(&own)?;
        if let Some(longest) = self.requeue_after.or(in_address) {
            self.settings.requeue_after = longest;
        }
        if self.settings.requeue_after.is_zero() {
            return Err(invalid("a place in line has to be kept for some time"));
        }
        self.settings.source = parameters::source(&own, self.create_sequences)?;
        Ok(Hub::new(address, self.settings))
    }
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.debug_struct("PostgresBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Advisory locks in a Postgres database, for everybody who can reach it. See the [module](self).
///
/// Dropping this closes its connections, and whatever they hold is free.
pub struct Postgres {
    hub: Hub,
}

impl Postgres {
    /// What this store promises. Those who wait are served in order within the bound of [connections](PostgresBuilder::connections), and until they
    /// have waited for [10 s](PostgresBuilder::requeue_after): then they go to the end of the line.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`, with `?sslmode=require` for TLS (feature
    /// `postgres-tls`), [`requeue_after=TIME`](PostgresBuilder::requeue_after), and `fence=transaction-id` for a database without the [sequences](self).
    ///
    /// # Errors
    /// As [`PostgresBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`PostgresBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`PostgresBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> PostgresBuilder {
        PostgresBuilder {
            address: address.to_owned(),
            settings: Settings {
                connect_timeout: Duration::from_secs(3),
                connections: 8,
                spare: Duration::from_secs(10),
                outage: Duration::from_secs(30),
                requeue_after: Duration::from_secs(10),
                source: Source::Sequences { create: true },
                looks_only: false,
            },
            create_sequences: true,
            requeue_after: None,
            certificates: Certificates::default(),
        }
    }

    /// A connection of the caller's own, made as the store makes its own, for programs that look at the server itself. Nothing is set
    /// there: it is as the role, the database and the server want it. What the address says about locks is ignored.
    ///
    /// # Errors
    /// As [`PostgresBuilder::open`], but nothing is tried out.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn visit(address: &str, patience: Duration) -> Result<Connection> {
        let own = [parameters::NAMES, super::postgres_table::PARAMETERS].concat();
        let (address, _own) = Address::parse(STORE, address, &own, &Certificates::default())?;
        let program = format!("{}/2", session::STORE_PROGRAM);
        connect::connect(STORE, Operation::Open, &address, &program, patience).await
    }

    fn may_lock(&self) -> Result<()> {
        if !self.hub.settings.looks_only {
            return Ok(());
        }
        let message = "this store was opened to look at locks, not to take them";
        Err(Error::new(
            ErrorKind::Unusable,
            STORE,
            Operation::Acquire,
            message,
        ))
    }

    /// Where the server is, without user and password.
    pub fn address(&self) -> &str {
        self.hub.address.shown()
    }

    /// The number that stands for a name, for programs that take the same lock with `pg_advisory_lock`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a name like `#12`, whose digits are not a number of 64 bits.
    pub fn key_of(name: &LockName) -> Result<i64> {
        key::key_of(name)
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl Backend for Postgres {
    fn store(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            self.may_lock()?;
            requests::try_acquire(&self.hub, claim).await
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            self.may_lock()?;
            requests::acquire(&self.hub, claim, wait).await
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(requests::renew(&self.hub, claims))
    }

    /// Leases belong to sessions, and a session that is stuck must not keep the others waiting.
    fn renewed_at_once(&self) -> usize {
        1
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
        Some(self.hub.bell())
    }
}
