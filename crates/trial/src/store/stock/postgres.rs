//! The stock as a row in a Postgres database.

use fencepost::Fence;
use fencepost::resource::{ADMIT, Credential, Refused};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::{QueuedRequest, Settled, Stock, Ticket, Version};
use crate::protocol::Failure;
use crate::store::postgres::{Connection, StoreError};

/// A connection to the stock in a Postgres database.
pub(crate) struct PostgresStock(Connection);

impl PostgresStock {
    /// Connects to the database of an endpoint that has been prepared, `postgres://…#SCHEMA`.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }

    /// Returns the connection, for locks that belong to the same session.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.0
    }

    /// Subtracts units with this statement. Returns `None` if it found no row.
    fn take(
        &mut self,
        sql: &'static str,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, StoreError> {
        let row = self.0.ask_one(sql, &[&product, &quantity])?;
        Ok(row.map(|row| row.get(0)))
    }
}

/// Access behind the gate: checks the credential and accesses the stock in one transaction.
impl PostgresStock {
    /// Does the same as [`Stock::read`], for the holder of a credential.
    ///
    /// # Errors
    /// Returns an error if a later holder has accessed the stock, or if the server fails.
    pub(crate) fn read_fenced(
        &mut self,
        product: &str,
        credential: Credential,
    ) -> Result<i64, Failure> {
        let units = self.admitted(product, credential, |stock| stock.read(product));
        // The units are correct whether or not the server remembers the credential.
        units.map_err(Failure::definite)
    }

    /// Does the same as [`Stock::write`], for the holder of a credential.
    ///
    /// # Errors
    /// Returns an error if a later holder has accessed the stock, in which case nothing was written, or if the server fails.
    pub(crate) fn write_fenced(
        &mut self,
        product: &str,
        units: i64,
        credential: Credential,
    ) -> Result<(), Failure> {
        self.admitted(product, credential, |stock| stock.write(product, units))
    }

    fn admitted<T>(
        &mut self,
        product: &str,
        credential: Credential,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.0.run("BEGIN").map_err(StoreError::into_read_failure)?;
        self.0.pin(true);
        let done = self.admit(product, credential).and_then(|()| work(self));
        let ended = match done {
            Ok(done) => self
                .0
                .run("COMMIT")
                .map_err(StoreError::into_write_failure)
                .map(|()| done),
            Err(failure) => {
                // A session that is gone has been rolled back.
                let _ = self.0.run("ROLLBACK");
                Err(Failure::definite(failure))
            }
        };
        self.0.pin(false);
        ended
    }

    fn admit(&mut self, product: &str, credential: Credential) -> Result<(), Failure> {
        const HIGHEST: &str = "SELECT fence FROM fencepost_gate WHERE resource = $1";
        let (fence, owner) = (credential.fence.as_i64(), credential.owner.to_string());
        let admitted = self.0.change(ADMIT, &[&product, &fence, &owner]);
        if admitted.map_err(StoreError::into_read_failure)? == 1 {
            return Ok(());
        }
        let highest = self.0.ask_one(HIGHEST, &[&product]);
        let highest = highest.map_err(StoreError::into_read_failure)?;
        let highest = there(product, highest.map(|row| row.get(0)))?;
        let refused = Refused {
            offered: credential.fence,
            highest: Fence::from_i64(highest).map_err(Failure::definite)?,
        };
        Err(Failure::definite(format!(
            "the stock refused a late holder: {refused}"
        )))
    }
}

fn there<T>(product: &str, found: Option<T>) -> Result<T, Failure> {
    found.ok_or_else(|| Failure::definite(format!("there is no {product}")))
}

fn request(row: &Row) -> QueuedRequest {
    QueuedRequest {
        ticket: Ticket(row.get(0)),
        quantity: row.get(1),
    }
}

impl Stock for PostgresStock {
    fn read(&mut self, product: &str) -> Result<i64, Failure> {
        const SQL: &str = "SELECT units FROM stock WHERE product = $1";
        let row = self
            .0
            .ask_one(SQL, &[&product])
            .map_err(StoreError::into_read_failure)?;
        there(product, row.map(|row| row.get(0)))
    }

    fn write(&mut self, product: &str, units: i64) -> Result<(), Failure> {
        const SQL: &str = "INSERT INTO stock (product, units) VALUES ($1, $2)
            ON CONFLICT (product) DO UPDATE SET units = $2, version = stock.version + 1";
        let written = self.0.change(SQL, &[&product, &units]);
        written.map(drop).map_err(StoreError::into_write_failure)
    }

    fn decrement(&mut self, product: &str, quantity: i64) -> Result<i64, Failure> {
        const SQL: &str = "UPDATE stock SET units = units - $2, version = version + 1
            WHERE product = $1 RETURNING units";
        let left = self.take(SQL, product, quantity);
        there(product, left.map_err(StoreError::into_write_failure)?)
    }

    fn decrement_if_enough(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure> {
        const SQL: &str = "UPDATE stock SET units = units - $2, version = version + 1
            WHERE product = $1 AND units >= $2 RETURNING units";
        let left = self.take(SQL, product, quantity);
        left.map_err(StoreError::into_write_failure)
    }

    fn decrement_constrained(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure> {
        const SQL: &str =
            "UPDATE stock SET units = units - $2, version = version + 1, constrained = true
            WHERE product = $1 RETURNING units";
        match self.take(SQL, product, quantity) {
            Err(error) if error.code() == Some(&SqlState::CHECK_VIOLATION) => Ok(None),
            left => left.map_err(StoreError::into_write_failure),
        }
    }

    fn read_version(&mut self, product: &str) -> Result<(i64, Version), Failure> {
        const SQL: &str = "SELECT units, version FROM stock WHERE product = $1";
        let row = self
            .0
            .ask_one(SQL, &[&product])
            .map_err(StoreError::into_read_failure)?;
        there(product, row.map(|row| (row.get(0), Version(row.get(1)))))
    }

    fn write_version(
        &mut self,
        product: &str,
        units: i64,
        version: Version,
    ) -> Result<bool, Failure> {
        const SQL: &str = "UPDATE stock SET units = $2, version = version + 1
            WHERE product = $1 AND version = $3";
        let changed = self.0.change(SQL, &[&product, &units, &version.0]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }

    fn enqueue(&mut self, product: &str, quantity: i64) -> Result<Ticket, Failure> {
        const SQL: &str =
            "INSERT INTO request (product, quantity) VALUES ($1, $2) RETURNING ticket";
        let ticket = self.take(SQL, product, quantity);
        there(product, ticket.map_err(StoreError::into_write_failure)?).map(Ticket)
    }

    fn next_request(&mut self, product: &str) -> Result<Option<QueuedRequest>, Failure> {
        const SQL: &str = "SELECT ticket, quantity FROM request
            WHERE product = $1 AND before IS NULL ORDER BY ticket LIMIT 1";
        let row = self
            .0
            .ask_one(SQL, &[&product])
            .map_err(StoreError::into_read_failure)?;
        Ok(row.as_ref().map(request))
    }

    fn settle(&mut self, product: &str, ticket: Ticket, answer: Settled) -> Result<(), Failure> {
        // One statement is one transaction.
        const SQL: &str = "WITH sold AS (
                UPDATE stock SET units = $4, version = version + 1
                WHERE product = $1 AND $4::bigint IS NOT NULL
            )
            UPDATE request SET before = $3, after = $4 WHERE ticket = $2";
        let settled = self
            .0
            .change(SQL, &[&product, &ticket.0, &answer.before, &answer.after]);
        settled.map(drop).map_err(StoreError::into_write_failure)
    }

    fn answer(&mut self, _product: &str, ticket: Ticket) -> Result<Option<Settled>, Failure> {
        const SQL: &str =
            "SELECT before, after FROM request WHERE ticket = $1 AND before IS NOT NULL";
        let row = self
            .0
            .ask_one(SQL, &[&ticket.0])
            .map_err(StoreError::into_read_failure)?;
        Ok(row.map(|row| Settled {
            before: row.get(0),
            after: row.get(1),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::postgres;

    #[test]
    fn it_is_a_stock() {
        let Some(database) = postgres() else { return };
        let ground = database.store().ground(std::path::Path::new(""));
        ground.prepare().unwrap();
        let open = || PostgresStock::open(&ground.to_string()).unwrap();
        super::super::tests::keeps_its_promises(&mut open(), &mut open());
        ground.clear().unwrap();
    }
}
