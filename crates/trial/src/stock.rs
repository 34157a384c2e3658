//! The stock of a sale: one row in the store under test.
//!
//! Reading and writing are two statements, each a transaction of its own. Nothing here protects the time between
//! them: that is the job of the strategy on trial.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

/// How long a statement waits for other writers to the file, before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the stock.
#[derive(Debug)]
pub struct Stock(Connection);

impl Stock {
    /// Makes the file and the table, with nothing in stock.
    ///
    /// # Errors
    /// SQLite's.
    pub fn create(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.execute_batch(
            "CREATE TABLE stock (product TEXT PRIMARY KEY, units INTEGER NOT NULL)",
        )?;
        Self::ready(connection)
    }

    /// Connects to a stock that was created before.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        Self::ready(Connection::open(path)?)
    }

    fn ready(connection: Connection) -> rusqlite::Result<Self> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // The trial outlives no power failure: waiting for the disk at each commit would only slow the race down.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(Self(connection))
    }

    /// The units left.
    ///
    /// # Errors
    /// SQLite's; also when the product was never written.
    pub fn read(&self, product: &str) -> rusqlite::Result<i64> {
        let mut statement = self
            .0
            .prepare_cached("SELECT units FROM stock WHERE product = ?1")?;
        statement.query_row([product], |row| row.get(0))
    }

    /// Sets the units left, whatever they were.
    ///
    /// # Errors
    /// SQLite's.
    pub fn write(&self, product: &str, units: i64) -> rusqlite::Result<()> {
        let upsert =
            "INSERT INTO stock VALUES (?1, ?2) ON CONFLICT (product) DO UPDATE SET units = ?2";
        self.0
            .prepare_cached(upsert)?
            .execute(params![product, units])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_connection_writes_another_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stock.db");
        let lab = Stock::create(&path).unwrap();
        assert!(lab.read("product_A").is_err(), "never written");
        lab.write("product_A", 3).unwrap();
        let buyer = Stock::open(&path).unwrap();
        buyer.write("product_A", 2).unwrap();
        assert_eq!(lab.read("product_A").unwrap(), 2);
    }
}
