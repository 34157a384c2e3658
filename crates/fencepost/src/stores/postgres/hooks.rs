//! What the doctor needs of this store.

use std::time::Duration;

use super::address::Address;
use super::connect::{Connection, listen};
use super::{Postgres, STORE, parameters, session};
use crate::error::{Operation, Result};
use crate::stores::kit::certificates::Certificates;
use crate::stores::postgres_table;

impl Postgres {
    /// A connection of the caller's own, made as the store makes its own, for programs that look at the server itself. Nothing is set
    /// there: it is as the role, the database and the server want it. What the address says about locks is ignored.
    ///
    /// # Errors
    /// As [`PostgresBuilder::open`](super::PostgresBuilder::open), but nothing is tried out.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn visit(address: &str, patience: Duration) -> Result<Connection> {
        let own = [parameters::NAMES, postgres_table::PARAMETERS].concat();
        let (address, _own) = Address::parse(STORE, address, &own, &Certificates::default())?;
        let program = format!("{}/2", session::STORE_PROGRAM);
        let deaf = |_| {};
        listen(STORE, Operation::Open, &address, &program, patience, deaf).await
    }
}
