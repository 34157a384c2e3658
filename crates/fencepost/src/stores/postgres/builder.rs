//! [`PostgresBuilder`]: holds the settings, and opens the store by an address or with the user's own configuration.

use std::fmt;
use std::time::Duration;

use super::address::Server;
use super::fence::Source;
use super::hub::Hub;
use super::settings::Settings;
use super::{Postgres, STORE, parameters, suitability};
use crate::error::{Error, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;

/// The settings for opening a [`Postgres`]; [`Postgres::builder`] and [`Postgres::builder_from`] create it.
#[derive(Clone)]
#[must_use]
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
                max_connections: 8,
                idle_timeout: Duration::from_secs(10),
                max_outage: Duration::from_secs(30),
                requeue_after: Duration::from_secs(10),
                source: Source::Sequences { create: true },
                only_to_release: false,
            },
            create_sequences: true,
            requeue_after: None,
            certificates: Certificates::default(),
        }
    }

    /// Sets how long connecting may take. The default is 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets the maximum number of connections. The default is 8.
    ///
    /// Each name that is held or waited for uses one connection. Further locks share connections; they are tried every 20 to 250 ms instead
    /// of waited for in order.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.settings.max_connections = most;
        self
    }

    /// Sets how long an unused connection is kept for the next lock. The default is 10 s. After that, the server ends it.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.settings.idle_timeout = time;
        self
    }

    /// Sets how long waiters tolerate a server that cannot be reached, or that is a standby, before they get an error. The default is 30 s.
    ///
    /// When the server is back, they stand at the end of the line.
    pub fn max_outage(mut self, longest: Duration) -> Self {
        self.settings.max_outage = longest;
        self
    }

    /// Sets how long a waiter keeps its place in the server's line before it goes to the end of the line. The default is 10 s.
    /// [`Duration::MAX`] means never. Takes precedence over `requeue_after=10s` (or `500ms`, or `never`) in the address.
    ///
    /// A waiting statement has a snapshot all the time. `VACUUM` keeps every row that such a snapshot might see, and `CREATE INDEX
    /// CONCURRENTLY` waits until the snapshot is gone. This setting limits how long they are held up. In return, clients that wait for
    /// longer than this lose their order; nobody loses its place before.
    pub fn requeue_after(mut self, longest: Duration) -> Self {
        self.requeue_after = Some(longest);
        self
    }

    /// Sets whether the first lock creates the sequences for fences if they do not exist. The default is `true`. If `false`, or if the user
    /// may not create them, the error contains the statements to run. Looking at locks creates nothing.
    pub fn create_sequences(mut self, create: bool) -> Self {
        self.create_sequences = create;
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `sslmode=require`, or
    /// `SslMode::Require` in a configuration that was [passed in](Postgres::builder_from).
    #[cfg(feature = "postgres-tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Presents this certificate to the server (both PEM). For `sslmode=require`, or `SslMode::Require` in a configuration that was
    /// [passed in](Postgres::builder_from).
    #[cfg(feature = "postgres-tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// Connects, and checks that locks exclude each other there and that fences can be drawn. Creates the sequences for fences if they do
    /// not exist and [`create_sequences`](Self::create_sequences) is set.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid and
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers there. Returns
    /// [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if the server cannot hold locks (wrong password, too old, a standby, a pooler,
    /// not Postgres), if the sequences are missing and the user may not create them (the error contains the statements to run), if the
    /// sequences are not sound, or if a program of an older version takes locks there.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connections are closed. Sequences that were created stay.
    pub async fn open(self) -> Result<Postgres> {
        let postgres = self.connect().await?;
        postgres.hub.prepare(Operation::Open).await?;
        Ok(postgres)
    }

    async fn connect(self) -> Result<Postgres> {
        let hub = self.hub()?;
        let one = hub.open(Operation::Open).await?;
        let other = hub.open(Operation::Open).await?;
        suitability::check(&one, &other, hub.settings.connect_timeout).await?;
        hub.keep(one);
        Ok(Postgres { hub })
    }

    /// Connects to look at locks, with [`inspect`](crate::Backend::inspect) and [`list`](crate::Backend::list), and to
    /// [release](crate::Backend::release) them by force, whoever holds them. Acquiring a lock fails. If nothing may be released,
    /// use [`StoreAddress::open_read_only`](crate::stores::StoreAddress::open_read_only).
    ///
    /// This needs no fence. No sequence is created or has to exist, no permission on it is needed, and it works while a program of an older
    /// version takes locks.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), except those about sequences and older versions.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connections are closed.
    pub async fn open_to_release(mut self) -> Result<Postgres> {
        self.settings.only_to_release = true;
        self.connect().await
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). The first use of
    /// the store connects again, in its own runtime.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async
    /// runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Postgres> {
        blocking::open(STORE, self.open())
    }

    pub(super) fn hub(mut self) -> Result<Hub> {
        let invalid = |message| Error::invalid_settings(STORE, message);
        if self.settings.max_connections < 2 {
            return Err(invalid(
                "two connections are needed at least: one to wait with and one to stop waiting",
            ));
        }
        if self.settings.idle_timeout.is_zero() {
            return Err(invalid("connections have to be kept for some time"));
        }
        let read = self
            .server
            .parse(STORE, parameters::NAMES, &self.certificates);
        let (address, own) = read?;
        parameters::refuse_those_of_a_table(&own)?;
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
        // The address may contain a password.
        f.debug_struct("PostgresBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
