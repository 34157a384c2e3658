//! How a store is opened: by an address or with the user's own configuration, and with which settings.

use std::fmt;
use std::time::Duration;

use super::address::Server;
use super::fence::Source;
use super::hub::{Hub, Settings};
use super::{Postgres, STORE, parameters, suitability};
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

/// How a [`Postgres`] is opened; made by [`Postgres::builder`] or [`Postgres::builder_from`].
#[derive(Clone)]
pub struct PostgresBuilder {
    server: Server,
    create_sequences: bool,
    settings: Settings,
    requeue_after: Option<Duration>,
    certificates: Certificates,
}

impl PostgresBuilder {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
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

    /// Whether the first lock makes the sequences that fences are drawn from, where they are missing. Default: yes. Otherwise, and
    /// where the user may not make them, the error says how to. Looking at locks makes nothing.
    #[must_use]
    pub fn create_sequences(mut self, create: bool) -> Self {
        self.create_sequences = create;
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `sslmode=require`, or
    /// `SslMode::Require` in a configuration that was [handed in](Postgres::builder_from).
    #[cfg(feature = "postgres-tls")]
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Shows this certificate to the server (both PEM). For `sslmode=require`, or `SslMode::Require` in a configuration that was
    /// [handed in](Postgres::builder_from).
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

    /// Connects, and tries out whether locks exclude there and whether fences can be drawn. Makes the sequences for fences where they are missing, if that is
    /// [wanted](Self::create_sequences).
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, [`ErrorKind::Unavailable`] if nobody answers there, and
    /// [`ErrorKind::Unusable`] if what answers cannot hold locks: wrong password, too old, a standby, a pooler, not Postgres; the sequences are missing and the user may
    /// not make them (the error has the statements to run), or are not sound; or a program of an older version takes locks there.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections. Sequences that were made stay.
    pub async fn open(self) -> Result<Postgres> {
        let postgres = self.connect().await?;
        postgres.hub.prepare(Operation::Open).await?;
        Ok(postgres)
    }

    async fn connect(self) -> Result<Postgres> {
        let hub = self.hub()?;
        let one = hub.open(Operation::Open).await?;
        let other = hub.open(Operation::Open).await?;
        suitability::check(&one, &other).await?;
        hub.keep(one);
        Ok(Postgres { hub })
    }

    /// Connects to look at locks, with [`inspect`](crate::Backend::inspect) and [`list`](crate::Backend::list), and to [release](crate::Backend::release) those of others. That needs no fence: no
    /// sequence is made or has to be there, no right on it is needed, and it works while a program of an older version takes locks. Taking a lock fails.
    ///
    /// # Errors
    /// As [`open`](Self::open), without those about sequences and older versions.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn open_to_look(mut self) -> Result<Postgres> {
        self.settings.looks_only = true;
        self.connect().await
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Postgres> {
        blocking::open(STORE, self.open())
    }

    pub(super) fn hub(mut self) -> Result<Hub> {
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
        let read = self
            .server
            .read(STORE, parameters::NAMES, &self.certificates);
        let (address, own) = read?;
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
