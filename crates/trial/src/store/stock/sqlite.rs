//! The stock as a row in a SQLite file.

use std::path::Path;
use std::time::Duration;

use fencepost::resource::{Credential, FencedError, SqliteGate};
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};

use super::{QueuedRequest, Settled, Stock, Ticket, Version};
use crate::protocol::Failure;

/// How long a statement waits for other writers to the file before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The check applies only from the first constrained decrement on, so that strategies without a constraint can fail.
const TABLES: &str = "
CREATE TABLE stock (
    product TEXT PRIMARY KEY,
    units INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    constrained INTEGER NOT NULL DEFAULT 0,
    CHECK (units >= 0 OR NOT constrained)
);
CREATE TABLE request (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    product TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    before INTEGER,
    after INTEGER
);
CREATE INDEX request_open ON request (product, ticket) WHERE before IS NULL;
";

/// A connection to the stock in a SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteStock(Connection);

/// Creates the file and its tables, with an empty stock.
///
/// # Errors
/// Returns an error if SQLite fails.
pub(crate) fn create(path: &Path) -> Result<(), Failure> {
    let connection = connect(path)?;
    let made = connection
        .pragma_update(None, "journal_mode", "WAL")
        .and_then(|()| connection.execute_batch(TABLES));
    made.map_err(Failure::definite)?;
    SqliteGate::create(&connection).map_err(Failure::definite)
}

/// Opens the file with the settings that all connections of the lab use.
pub(crate) fn connect(path: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(path).and_then(|connection| {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // The trial does not outlive a power failure, so waiting for the disk at each commit would only slow the sale down.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(connection)
    });
    connection.map_err(|error| Failure::definite(format!("cannot open the stock: {error}")))
}

impl SqliteStock {
    /// Connects to a stock that has been created.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self(connect(path)?))
    }

    /// Does the same as [`Stock::read`], for the holder of a credential. Checks the credential and reads in one transaction.
    ///
    /// # Errors
    /// Returns an error if a later holder has accessed the stock, or if SQLite fails.
    pub(crate) fn read_fenced(
        &mut self,
        product: &str,
        credential: Credential,
    ) -> Result<i64, Failure> {
        let transaction = self.admitted(product, credential)?;
        let units = units(&transaction, product).map_err(Failure::definite)?;
        transaction.commit().map_err(Failure::definite)?;
        Ok(units)
    }

    /// Does the same as [`Stock::write`], for the holder of a credential. Checks the credential and writes in one transaction.
    ///
    /// # Errors
    /// Returns an error if a later holder has accessed the stock, in which case nothing was written, or if SQLite fails.
    pub(crate) fn write_fenced(
        &mut self,
        product: &str,
        units: i64,
        credential: Credential,
    ) -> Result<(), Failure> {
        let transaction = self.admitted(product, credential)?;
        set(&transaction, product, units).map_err(Failure::definite)?;
        transaction.commit().map_err(write_failure)
    }

    fn admitted(
        &mut self,
        product: &str,
        credential: Credential,
    ) -> Result<Transaction<'_>, Failure> {
        let transaction = self.begin()?;
        SqliteGate::admit(&transaction, product, credential).map_err(|error| match error {
            FencedError::Refused(refused) => {
                Failure::definite(format!("the stock refused a late holder: {refused}"))
            }
            other => Failure::definite(other),
        })?;
        Ok(transaction)
    }

    fn begin(&mut self) -> Result<Transaction<'_>, Failure> {
        let begun = self
            .0
            .transaction_with_behavior(TransactionBehavior::Immediate);
        begun.map_err(Failure::definite)
    }

    fn change(&self, sql: &str, product: &str, quantity: i64) -> rusqlite::Result<Option<i64>> {
        let mut statement = self.0.prepare_cached(sql)?;
        statement
            .query_row(params![product, quantity], |row| row.get(0))
            .optional()
    }
}

fn units(connection: &Connection, product: &str) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("SELECT units FROM stock WHERE product = ?1")?;
    statement.query_row([product], |row| row.get(0))
}

fn set(connection: &Connection, product: &str, units: i64) -> rusqlite::Result<()> {
    const UPSERT: &str = "INSERT INTO stock (product, units) VALUES (?1, ?2)
        ON CONFLICT (product) DO UPDATE SET units = ?2, version = version + 1";
    connection
        .prepare_cached(UPSERT)?
        .execute(params![product, units])?;
    Ok(())
}

/// Converts the failure of a write. A writer that timed out waiting for its turn has written nothing.
fn write_failure(error: rusqlite::Error) -> Failure {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Failure::definite(error),
        _ => Failure::indefinite(error),
    }
}

impl Stock for SqliteStock {
    fn read(&mut self, product: &str) -> Result<i64, Failure> {
        units(&self.0, product).map_err(Failure::definite)
    }

    fn write(&mut self, product: &str, units: i64) -> Result<(), Failure> {
        set(&self.0, product, units).map_err(write_failure)
    }

    fn decrement(&mut self, product: &str, quantity: i64) -> Result<i64, Failure> {
        const SQL: &str =
            "UPDATE stock SET units = units - ?2, version = version + 1 WHERE product = ?1
            RETURNING units";
        let left = self.change(SQL, product, quantity).map_err(write_failure)?;
        left.ok_or_else(|| Failure::definite(format!("there is no {product}")))
    }

    fn decrement_if_enough(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure> {
        const SQL: &str = "UPDATE stock SET units = units - ?2, version = version + 1
            WHERE product = ?1 AND units >= ?2 RETURNING units";
        self.change(SQL, product, quantity).map_err(write_failure)
    }

    fn decrement_constrained(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure> {
        const SQL: &str =
            "UPDATE stock SET units = units - ?2, version = version + 1, constrained = 1
            WHERE product = ?1 RETURNING units";
        match self.change(SQL, product, quantity) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Ok(None)
            }
            left => left.map_err(write_failure),
        }
    }

    fn read_version(&mut self, product: &str) -> Result<(i64, Version), Failure> {
        const SQL: &str = "SELECT units, version FROM stock WHERE product = ?1";
        let row = self.0.prepare_cached(SQL).and_then(|mut statement| {
            statement.query_row([product], |row| Ok((row.get(0)?, Version(row.get(1)?))))
        });
        row.map_err(Failure::definite)
    }

    fn write_version(
        &mut self,
        product: &str,
        units: i64,
        version: Version,
    ) -> Result<bool, Failure> {
        const SQL: &str = "UPDATE stock SET units = ?2, version = version + 1
            WHERE product = ?1 AND version = ?3";
        let changed = self
            .0
            .prepare_cached(SQL)
            .and_then(|mut statement| statement.execute(params![product, units, version.0]));
        Ok(changed.map_err(write_failure)? == 1)
    }

    fn enqueue(&mut self, product: &str, quantity: i64) -> Result<Ticket, Failure> {
        const SQL: &str = "INSERT INTO request (product, quantity) VALUES (?1, ?2)";
        let put = self
            .0
            .prepare_cached(SQL)
            .and_then(|mut statement| statement.insert(params![product, quantity]));
        put.map(Ticket).map_err(write_failure)
    }

    fn next_request(&mut self, product: &str) -> Result<Option<QueuedRequest>, Failure> {
        const SQL: &str = "SELECT ticket, quantity FROM request
            WHERE product = ?1 AND before IS NULL ORDER BY ticket LIMIT 1";
        let row = self.0.prepare_cached(SQL).and_then(|mut statement| {
            let request = statement.query_row([product], |row| {
                Ok(QueuedRequest {
                    ticket: Ticket(row.get(0)?),
                    quantity: row.get(1)?,
                })
            });
            request.optional()
        });
        row.map_err(Failure::definite)
    }

    fn settle(&mut self, product: &str, ticket: Ticket, answer: Settled) -> Result<(), Failure> {
        const SQL: &str = "UPDATE request SET before = ?2, after = ?3 WHERE ticket = ?1";
        let transaction = self.begin()?;
        let written = (|| {
            if let Some(units) = answer.after {
                set(&transaction, product, units)?;
            }
            let parameters = params![ticket.0, answer.before, answer.after];
            transaction.prepare_cached(SQL)?.execute(parameters)
        })();
        written.map_err(Failure::definite)?;
        transaction.commit().map_err(write_failure)
    }

    fn answer(&mut self, _product: &str, ticket: Ticket) -> Result<Option<Settled>, Failure> {
        const SQL: &str =
            "SELECT before, after FROM request WHERE ticket = ?1 AND before IS NOT NULL";
        let row = self.0.prepare_cached(SQL).and_then(|mut statement| {
            let answer = statement.query_row([ticket.0], |row| {
                Ok(Settled {
                    before: row.get(0)?,
                    after: row.get(1)?,
                })
            });
            answer.optional()
        });
        row.map_err(Failure::definite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost::random::SystemRandom;
    use fencepost::{Fence, OwnerId};

    fn two() -> (tempfile::TempDir, SqliteStock, SqliteStock) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.db");
        create(&path).unwrap();
        let open = || SqliteStock::open(&path).unwrap();
        let (lab, buyer) = (open(), open());
        (folder, lab, buyer)
    }

    #[test]
    fn it_is_a_stock() {
        let (_folder, mut lab, mut buyer) = two();
        super::super::tests::keeps_its_promises(&mut lab, &mut buyer);
    }

    #[test]
    fn a_late_holder_neither_reads_nor_writes() {
        let (_folder, mut lab, mut buyer) = two();
        lab.write("product_A", 5).unwrap();
        let credential = |epoch| {
            Credential::new(
                Fence::new(epoch, 0).unwrap(),
                OwnerId::random(&SystemRandom),
            )
        };
        let (early, late) = (credential(1), credential(2));
        assert_eq!(buyer.read_fenced("product_A", early).unwrap(), 5);
        assert_eq!(buyer.read_fenced("product_A", late).unwrap(), 5);
        let refused = buyer.write_fenced("product_A", 4, early).unwrap_err();
        assert!(
            refused.definite && refused.message.contains("late holder"),
            "{refused}"
        );
        assert!(buyer.read_fenced("product_A", early).is_err());
        assert_eq!(lab.read("product_A").unwrap(), 5);
        buyer.write_fenced("product_A", 4, late).unwrap();
        assert_eq!(lab.read("product_A").unwrap(), 4);
    }
}
