//! [`PostgresTableBuilder`]: holds the settings, and opens the store by an address or with the user's own configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::hub::Hub;
use super::settings::Settings;
use super::tables::{self, Tables};
use super::{PostgresTable, STORE, failure};
use crate::error::{Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::kit::certificates::Certificates;
use crate::stores::postgres::address::{Parameters, Server};

/// The parameters of an address that concern the table.
const PARAMETERS: &[&str] = &["table", "create"];

/// The values of these parameters.
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

/// The settings for opening a [`PostgresTable`]; [`PostgresTable::builder`] and [`PostgresTable::builder_from`] create it.
#[derive(Clone)]
#[must_use]
pub struct PostgresTableBuilder {
    server: Server,
    connect_timeout: Duration,
    max_outage: Duration,
    table: Option<String>,
    create: Option<bool>,
    certificates: Certificates,
}

impl PostgresTableBuilder {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            connect_timeout: Duration::from_secs(3),
            max_outage: Duration::from_secs(30),
            table: None,
            create: None,
            certificates: Certificates::default(),
        }
    }

    /// Sets the table: `TABLE` or `SCHEMA.TABLE`, as Postgres stores them (names created without quotes are in lower case). Takes
    /// precedence over `?table=` in the address. The default is `shedlock`, in the schema where the search path finds it.
    pub fn table(mut self, table: &str) -> Self {
        self.table = Some(table.to_owned());
        self
    }

    /// Sets whether opening the store creates missing tables. Takes precedence over `create=true` in the address. The default is `false`:
    /// the error then contains the statements to run.
    pub fn create_table(mut self, create: bool) -> Self {
        self.create = Some(create);
        self
    }

    /// Sets how long connecting may take. The default is 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long waiters tolerate a server that cannot be reached, or that is a standby, before they get an error. The default is 30 s.
    ///
    /// When the server is back, they have their old places.
    pub fn max_outage(mut self, longest: Duration) -> Self {
        self.max_outage = longest;
        self
    }

    /// Trusts servers whose certificate was signed by this one (PEM), instead of the public authorities. For `sslmode=require`, or
    /// `SslMode::Require` in a configuration that was [passed in](PostgresTable::builder_from).
    #[cfg(feature = "postgres-tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Presents this certificate to the server (both PEM). For `sslmode=require`, or `SslMode::Require` in a configuration that was
    /// [passed in](PostgresTable::builder_from).
    #[cfg(feature = "postgres-tls")]
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
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address or the name of the table is invalid, or `create`
    /// is neither `true` nor `false`. Returns [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers there, and
    /// [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if the server cannot hold locks: wrong password, a standby, missing tables or
    /// permissions, other columns.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed. Tables that were created stay.
    pub async fn open(self) -> Result<PostgresTable> {
        let (address, own) = self.server.parse(STORE, PARAMETERS, &self.certificates)?;
        let in_address = InAddress::read(own)?;
        let table = self.table.or(in_address.table);
        let settings = Settings {
            connect_timeout: self.connect_timeout,
            max_outage: self.max_outage,
            tables: Tables::read(table.as_deref().unwrap_or(tables::USUAL))?,
            create: self.create.or(in_address.create).unwrap_or(false),
        };
        let hub = Arc::new(Hub::new(address, settings));
        hub.session(Operation::Open).await?;
        Ok(PostgresTable { hub })
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). The first use of
    /// the store connects again, in its own runtime.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async
    /// runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<PostgresTable> {
        blocking::open(STORE, self.open())
    }
}

impl fmt::Debug for PostgresTableBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("PostgresTableBuilder")
            .field("table", &self.table)
            .field("create_table", &self.create)
            .finish_non_exhaustive()
    }
}
