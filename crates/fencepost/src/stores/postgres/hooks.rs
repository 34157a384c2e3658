//! What our own programs need from the Postgres store, beyond the public API: a connection for the doctor, and the parser of addresses for
//! the database of the checkout.

use std::time::Duration;

use super::address::Address;
use super::connect::{Connection, listen};
use super::{Postgres, STORE, parameters, session};
use crate::error::{Operation, Result};
use crate::stores::kit::certificates::Certificates;

impl Postgres {
    /// Opens a separate connection in the same way as the store does, for programs that look at the server itself. It sets nothing: the
    /// role, the database and the server determine the settings. Parameters of the address that concern locks are ignored.
    ///
    /// # Errors
    /// Returns the same errors as [`PostgresBuilder::open`](super::PostgresBuilder::open), but does not check whether the server can hold
    /// locks.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed.
    pub async fn visit(address: &str, connect_timeout: Duration) -> Result<Connection> {
        let (address, _own) =
            Address::parse(STORE, address, parameters::NAMES, &Certificates::default())?;
        let program = format!("{}/2", session::STORE_PROGRAM);
        let deaf = |_| {};
        listen(
            STORE,
            Operation::Open,
            &address,
            &program,
            connect_timeout,
            deaf,
        )
        .await
    }

    /// Parses an address as the store does, for programs that open their own connections: the configuration of the client, and a connector
    /// if the address asks for TLS. Parameters that concern locks are refused.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid, or one of its certificates. The
    /// message never quotes the address, which may contain a password.
    #[cfg(feature = "postgres-tls")]
    pub fn parse_address(
        address: &str,
    ) -> Result<(
        tokio_postgres::Config,
        Option<tokio_postgres_rustls::MakeRustlsConnect>,
    )> {
        let (address, _own) = Address::parse(STORE, address, &[], &Certificates::default())?;
        Ok((address.config, address.tls))
    }
}
