//! A Postgres connection with its prepared statements, and the parsed address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::storage::StorageError;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Session settings: the server ends long statements, long waits for row locks, and idle transactions.
const TIMEOUTS: &str =
    "-c statement_timeout=10s -c lock_timeout=5s -c idle_in_transaction_session_timeout=30s";

/// The values of a statement.
pub(super) type Values<'a> = [&'a (dyn ToSql + Sync)];

/// The parsed address of the database.
#[derive(Clone)]
pub(super) struct DatabaseAddress {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl DatabaseAddress {
    /// Parses `postgres://…`. `sslmode=require` verifies the certificate with the public authorities or those in `sslrootcert`; without it,
    /// the connection is not encrypted.
    pub(super) fn parse(text: &str) -> Result<Self, StorageError> {
        // Never quote the text in errors: it may contain a password.
        let wrong = |what: &str| StorageError::Unavailable(what.to_owned());
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut root, mut others) = ("", None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => root = Some(value),
                _ => others.push(pair),
            }
        }
        let text = if others.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", others.join("&"))
        };
        let mut config: Config = text
            .parse()
            .map_err(|_| wrong("not an address of Postgres"))?;
        let is_encrypted = match mode {
            "" | "disable" => false,
            "require" | "verify-ca" | "verify-full" => true,
            _ => return Err(wrong("sslmode must be require or disable")),
        };
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .ssl_mode(if is_encrypted {
                SslMode::Require
            } else {
                SslMode::Disable
            });
        let options = match config.get_options() {
            Some(own) => format!("{TIMEOUTS} {own}"),
            None => TIMEOUTS.to_owned(),
        };
        config.options(options);
        if config.get_application_name().is_none() {
            config.application_name("fencepost-checkout");
        }
        let tls = if is_encrypted {
            Some(connector(root).map_err(|what| wrong(&what))?)
        } else {
            None
        };
        Ok(Self { config, tls })
    }

    pub(super) async fn connect(&self) -> Result<Connection, StorageError> {
        let connecting = async {
            match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    Ok((client, tokio::spawn(connection).abort_handle()))
                }
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    Ok((client, tokio::spawn(connection).abort_handle()))
                }
            }
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok((client, driver))) => Ok(Connection {
                client,
                driver,
                statements: HashMap::new(),
            }),
            Ok(Err(error)) => Err(StorageError::Unavailable(words(&error))),
            Err(_) => Err(StorageError::Unavailable("no answer in time".into())),
        }
    }
}

fn connector(root: Option<&str>) -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    match root {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let bad = |error: &dyn std::fmt::Display| format!("sslrootcert: {error}");
            let pem = std::fs::read(path).map_err(|error| bad(&error))?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| bad(&error))?;
                roots.add(certificate).map_err(|error| bad(&error))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Returns the message of the server or the system, without the statement.
pub(super) fn words(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// A connection for exclusive use.
pub(super) struct Connection {
    client: Client,
    /// The task that drives the connection.
    driver: AbortHandle,
    statements: HashMap<&'static str, Statement>,
}

impl Connection {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Closes the connection without a goodbye, which would wait for outstanding answers.
    pub(super) fn cut(&self) {
        self.driver.abort();
    }

    /// Runs statements without parameters or rows, such as `BEGIN`.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }

    async fn prepared(&mut self, sql: &'static str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        values: &Values<'_>,
    ) -> Result<u64, Error> {
        let statement = self.prepared(sql).await?;
        self.client.execute(&statement, values).await
    }

    /// Runs a statement with several sets of parameters, sent in one batch and executed in order.
    pub(super) async fn execute_each(
        &mut self,
        sql: &'static str,
        each: &[Vec<&(dyn ToSql + Sync)>],
    ) -> Result<Vec<u64>, Error> {
        let statement = self.prepared(sql).await?;
        let all = each
            .iter()
            .map(|values| self.client.execute(&statement, values));
        try_join_all(all).await
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        values: &Values<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        self.client.query(&statement, values).await
    }

    /// Runs a query whose result is a boolean.
    pub(super) async fn query_bool(&mut self, question: &'static str) -> Result<bool, Error> {
        let rows = self.query(question, &[]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }
}
