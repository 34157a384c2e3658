//! What the doctor needs from the Postgres store, beyond the public API.

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
}
