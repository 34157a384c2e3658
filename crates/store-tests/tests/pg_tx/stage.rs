//! A database with the tables for transaction locks, sessions on it, and queries about what the server has locked.

use std::time::Duration;

use fencepost::pg_tx::{PgGate, PgTxLock};
use fencepost_store_tests::eventually;
pub(crate) use fencepost_store_tests::{LONG, soon};
use tokio_postgres::{Client, NoTls};

use fencepost_store_tests::database::Database;

/// The timeout for a lock that stays taken.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// The number that `advisory("stock")` locks. Any program can compute it.
pub(crate) const STOCK: i64 = 631_669_616_440_530_472;

pub(crate) struct Stage {
    database: Database,
    /// A separate session for inspection and preparation.
    pub(crate) eye: Client,
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let database = Database::make().await;
        let eye = connect(database.url()).await;
        PgTxLock::create_table(&eye).await.unwrap();
        PgGate::create(&eye).await.unwrap();
        let stock =
            "CREATE TABLE stock (left_over bigint NOT NULL); INSERT INTO stock VALUES (100)";
        eye.batch_execute(stock).await.unwrap();
        Self { database, eye }
    }

    pub(crate) async fn session(&self) -> Client {
        connect(self.database.url()).await
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.eye.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Waits until this many sessions of the database wait for a lock.
    pub(crate) async fn until_waiting(&self, count: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("they wait", || async { self.number(sql).await == count }).await;
    }

    /// Waits until nobody has an advisory lock or an open transaction.
    pub(crate) async fn until_nothing_is_left(&self) {
        let sql =
            "SELECT (SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
                   WHERE l.locktype = 'advisory' AND d.datname = current_database())
               + (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                  AND pid <> pg_backend_pid() AND state <> 'idle')";
        eventually("nothing is left", || async { self.number(sql).await == 0 }).await;
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns both ways to lock the same name.
pub(crate) fn both() -> [PgTxLock; 2] {
    [
        PgTxLock::row("stock").unwrap(),
        PgTxLock::advisory("stock").unwrap(),
    ]
}
