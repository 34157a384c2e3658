//! A Postgres connection with its prepared statements, and the parsed address.

use std::collections::HashMap;
use std::time::Duration;

use fencepost::stores::postgres::Postgres;
use futures_util::future::try_join_all;
use tokio::task::AbortHandle;
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
    /// Parses `postgres://…` by the rules of the library's store: `sslmode=require` verifies the certificate with the public authorities or
    /// those in `sslrootcert`; without `sslmode`, the connection is not encrypted, and certificates are refused.
    ///
    /// # Errors
    /// The message does not quote the text, which may contain a password.
    pub(super) fn parse(text: &str) -> fencepost::Result<Self> {
        let (mut config, tls) = Postgres::parse_address(text)?;
        config.connect_timeout(CONNECT_TIMEOUT);
        let options = match config.get_options() {
            Some(own) => format!("{TIMEOUTS} {own}"),
            None => TIMEOUTS.to_owned(),
        };
        config.options(options);
        if config.get_application_name().is_none() {
            config.application_name("fencepost-checkout");
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(address: &str) -> String {
        match DatabaseAddress::parse(address) {
            Ok(_) => panic!("accepted: {address}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn certificates_without_tls_are_refused_and_never_dropped() {
        let said = refusal("postgres://shop:secret@db/shop?sslrootcert=/nowhere/ca.pem");
        assert!(said.contains("say sslmode=require"), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn the_path_of_a_certificate_is_decoded() {
        let said =
            refusal("postgres://db/shop?sslmode=require&sslrootcert=%2Fnowhere%2Four%20ca.pem");
        assert!(said.contains("/nowhere/our ca.pem"), "{said}");
    }

    #[test]
    fn only_an_address_that_asks_for_tls_gets_it() {
        let address = |text| DatabaseAddress::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert!(address("postgres://shop@db/shop").tls.is_none());
        assert!(
            address("postgres://shop@db/shop?sslmode=disable")
                .tls
                .is_none()
        );
        let encrypted = address("postgres://shop@db/shop?sslmode=require&options=-cwork_mem%3D8MB");
        assert!(encrypted.tls.is_some());
        let options = encrypted.config.get_options();
        assert!(
            options.is_some_and(|all| all.starts_with(TIMEOUTS) && all.ends_with("-cwork_mem=8MB"))
        );
    }
}
