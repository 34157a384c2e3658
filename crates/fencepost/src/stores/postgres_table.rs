//! Locks in a table of Postgres (14 or later): the one that ShedLock uses.
//!
//! # How it works
//! A lock is a row of `shedlock(name, lock_until, locked_at, locked_by)`, held until `lock_until` by the server's clock. Programs that use
//! ShedLock with the same table keep us out and are kept out. Every request is one statement of its own, so that no stopped or
//! dead client leaves a transaction open; one connection serves all of them.
//!
//! **Waiting.** Those who wait stand in a line beside the table. Whoever gives the lock back tells the first (`NOTIFY`), which then takes it.
//! Nobody sends signs of life: from the moment a lock becomes free, its first waiter alone may take it for half a second, after that the
//! second may, and each further one a sixteenth of a second later. So a dead waiter costs the line half a second, not a TTL; when it wakes
//! up, it gets its old place back. A holder that died tells nobody: a timer at `lock_until` wakes the first, which also looks once a second in case a
//! notice was lost. Of all waiters of this process for one lock, one has such a timer. Other programs do not know the line: they take a free lock
//! whenever they come, and tell nobody when they give it back. While one holds, the first of this process looks whenever an eighth more of the time has
//! passed that it has held (5 ms at least, a second at most).
//!
//! **Validity** is counted from before the statement was sent. `lock_until` has milliseconds, and is rounded up to them.
//!
//! **The fence** is a counter in a table of ours, so that it survives whatever happens to the row of the lock. It is raised by the statement that
//! grants, while that has the row: past the last epoch, and to the server's time in units of 62.5 µs since 2024. So it does not go back when
//! the tables are lost or put back from a copy, or when a standby takes over that missed the last grants, unless the clocks of old
//! and new server disagree by more than the outage took.
//!
//! # Tables
//! | table | holds | until |
//! |---|---|---|
//! | `shedlock` | `name`, `lock_until`, `locked_at`, `locked_by` = `owner ttl label` | for ever: clients of ShedLock expect to find a row again |
//! | `shedlock_fence` | the last epoch of a lock, its owner, its whole name | for ever |
//! | `shedlock_line` | who waits, by ticket | it leaves; at most an hour after a lock was free and nobody came |
//!
//! They are made with [`create_table`](PostgresTableBuilder::create_table), or `create=true` in the address; without, opening says what to run. The user needs `SELECT`, `INSERT` and `UPDATE`, in
//! the line also `DELETE`. A name longer than ShedLock's 64 characters is kept in full in our tables; its row has the first 31, a `~` and
//! 32 digits of its SHA-256.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends.
//! - *The server restarts.* Rows survive, and with them the locks. Those who wait come back to their places.
//! - *A standby takes over* that had not received the last commits: a lock granted just before may be granted again. The holder is told at its next
//!   renewal ([`Renewal::Lost`]). What protects the data then is the fence.
//! - *The server's clock is set.* `lock_until` is in that clock: a step forward ends leases early, unknown to their holders until the next renewal; a step
//!   back lets what nobody gives back stay for longer.
//! - *Somebody keeps a row locked* in an open transaction: [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) after half a second; who waits goes on waiting.
//! - *A standby, missing rights, missing tables, other columns*: [`ErrorKind::Unusable`](crate::ErrorKind::Unusable), with what to do.
//! - *A pooler in transaction mode in between*: it does not pass on what a session is told, and mixes up its statements. Connect to the server itself.
//! - *ShedLock of a program that takes its own clock* (without `usingDbTime`): exclusion is then as good as its clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;
use crate::stores::postgres::connect::{Address, Parameters};

mod failure;
mod hub;
mod line;
mod link;
mod names;
mod requests;
mod schema;
mod statements;
mod tables;
mod view;

use hub::Hub;
use tables::Tables;

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "postgres-table";

/// What the builder decided.
#[derive(Debug, Clone)]
struct Settings {
    connect_timeout: Duration,
    outage: Duration,
    tables: Tables,
    create: bool,
}

/// The parameters of an address that are about the table.
pub(crate) const PARAMETERS: &[&str] = &["table", "create"];

/// What an address says about the table.
#[derive(Default)]
struct InAddress {
    table: Option<String>,
    create: Option<bool>,
}

impl InAddress {
    fn read(parameters: Parameters) -> Result<Self> {
        let mut read = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "table" => read.table = Some(value),
                _ => read.create = Some(value.parse().map_err(|_| failure::neither_yes_nor_no())?),
            }
        }
        Ok(read)
    }
}

/// How a [`PostgresTable`] is opened; made by [`PostgresTable::builder`].
#[derive(Clone)]
pub struct PostgresTableBuilder {
    address: String,
    connect_timeout: Duration,
    outage: Duration,
    table: Option<String>,
    create: Option<bool>,
    certificates: Certificates,
}

impl PostgresTableBuilder {
    /// The table: `TABLE` or `SCHEMA.TABLE`, as Postgres stores them (what was created without quotes is in small letters). Wins over
    /// `?table=` in the address. Default: `shedlock`, wherever the search path finds it.
    #[must_use]
    pub fn table(mut self, table: &str) -> Self {
        self.table = Some(table.to_owned());
        self
    }

    /// Whether tables that are missing are made when the store is opened. Wins over `create=true` in the address. Default: no, the error says
    /// how to make them.
    #[must_use]
    pub fn create_table(mut self, create: bool) -> Self {
        self.create = Some(create);
        self
    }

    /// How long connecting may take. Default: 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long those who wait in line put up with a server that cannot be reached, or that is a standby, before they get an error. Default: 30 s.
    ///
    /// When it is back they have their old place.
    #[must_use]
    pub fn outage(mut self, longest: Duration) -> Self {
        self.outage = longest;
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

    /// Connects, and checks that the tables can hold locks.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) when the address or the table's name is none, or `create` is neither `true` nor `false`,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when nobody answers there,
    /// [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) when what answers cannot hold locks: wrong password, a standby, missing tables or rights, other columns.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; tables that were made stay.
    pub async fn open(self) -> Result<PostgresTable> {
        let (address, own) = Address::parse(STORE, &self.address, PARAMETERS, &self.certificates)?;
        let in_address = InAddress::read(own)?;
        let table = self.table.or(in_address.table);
        let settings = Settings {
            connect_timeout: self.connect_timeout,
            outage: self.outage,
            tables: Tables::read(table.as_deref().unwrap_or(tables::USUAL))?,
            create: self.create.or(in_address.create).unwrap_or(false),
        };
        let hub = Arc::new(Hub::new(address, settings));
        hub.link(Operation::Open).await?;
        Ok(PostgresTable { hub })
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<PostgresTable> {
        blocking::open(STORE, self.open())
    }
}

impl fmt::Debug for PostgresTableBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.debug_struct("PostgresTableBuilder")
            .field("table", &self.table)
            .field("create_table", &self.create)
            .finish_non_exhaustive()
    }
}

/// Locks in a table of a Postgres server, shared with programs that use ShedLock. See the [module](self).
///
/// One connection serves everything; it is made anew when it breaks. Dropping this closes it.
pub struct PostgresTable {
    hub: Arc<Hub>,
}

impl PostgresTable {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Connects with the default settings: `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?table=shedlock]`, with `sslmode=require` for
    /// TLS (feature `postgres-tls`). The tables must exist, unless the address says `create=true`.
    ///
    /// # Errors
    /// As [`PostgresTableBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`PostgresTableBuilder::open`].
    pub async fn open(address: &str) -> Result<Self> {
        Self::builder(address).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`PostgresTableBuilder::open_blocking`].
    #[cfg(feature = "blocking")]
    pub fn open_blocking(address: &str) -> Result<Self> {
        Self::builder(address).open_blocking()
    }

    /// The settings for connecting to `address`.
    pub fn builder(address: &str) -> PostgresTableBuilder {
        PostgresTableBuilder {
            address: address.to_owned(),
            connect_timeout: Duration::from_secs(3),
            outage: Duration::from_secs(30),
            table: None,
            create: None,
            certificates: Certificates::default(),
        }
    }

    /// Where the server is, without user and password.
    pub fn address(&self) -> &str {
        self.hub.address.shown()
    }

    /// The table, with its schema.
    pub fn table(&self) -> String {
        self.hub.tables().to_string()
    }

    /// How many statements were sent to the server: one for each attempt, place in line and renewal, two for a release. What connecting
    /// takes is not counted.
    pub fn statements_sent(&self) -> u64 {
        self.hub.sent.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for PostgresTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTable")
            .field("address", &self.address())
            .field("table", &self.table())
            .finish_non_exhaustive()
    }
}

impl Backend for PostgresTable {
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

    /// One statement.
    fn renewed_at_once(&self) -> usize {
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
}
