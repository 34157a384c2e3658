//! A private Postgres server, stores of the lease table on it, and an independent session that inspects the tables.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::postgres_table::{PostgresTable, PostgresTableBuilder};
use fencepost_rig::Proxy;
use fencepost_store_tests::until_nothing_is_left;
pub(crate) use fencepost_store_tests::{
    LONG, NAME, SOON, assert_error, claim, eventually, is_soak, locker, now, outlives_its_ttl,
    poll_at_most, run, run_within, soon,
};
use tokio_postgres::{Client, NoTls};

/// How long only the first in line may take a free lock.
pub(crate) const WINDOW: Duration = Duration::from_millis(500);
/// How often the first waiter of a process checks without a notification.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Returns the delay that a busy machine may add to what is promised.
pub(crate) fn grace() -> Duration {
    fencepost_store_tests::grace(Duration::from_millis(700))
}

/// A private server.
pub(crate) struct Server(pub(crate) fencepost_rig::Postgres);

impl Server {
    /// Starts a server without tables. Its data must survive a crash of the server, but not of the machine.
    pub(crate) fn bare(settings: &[&str]) -> Self {
        let settings = [&["fsync=off"], settings].concat();
        Self(fencepost_rig::Postgres::start_with(&settings).unwrap())
    }

    /// Starts a server with the tables.
    pub(crate) async fn start() -> Self {
        let server = Self::bare(&[]);
        let builder = patient(&server.0.url()).create_table(true);
        builder.open().await.unwrap();
        server
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::start(self.0.address()).unwrap()
    }

    pub(crate) async fn store(&self) -> Arc<PostgresTable> {
        open(self.0.address()).await
    }

    /// Opens a session that is independent of the store.
    pub(crate) async fn plain(&self) -> Plain {
        Plain::open(&self.0.url()).await
    }

    /// Waits until this many claims are in line.
    pub(crate) async fn wait_for_line(&self, length: i64) {
        let plain = self.plain().await;
        eventually(&format!("a line of {length}"), async || {
            plain.number("SELECT count(*) FROM shedlock_line").await == length
        })
        .await;
    }

    /// Waits until every other session has been idle for a while, so that no statement is on its way to the server any more.
    pub(crate) async fn wait_until_idle(&self) {
        const AT_WORK: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
            AND (state <> 'idle' OR state_change > clock_timestamp() - interval '300 milliseconds')";
        let plain = self.plain().await;
        eventually("idle sessions", async || plain.number(AT_WORK).await == 0).await;
    }

    /// Nothing is left but rows of free locks and their fences: nobody stands in line, no transaction is open.
    pub(crate) async fn wait_until_clean(&self) {
        let plain = self.plain().await;
        until_nothing_is_left(SOON, async || plain.left().await).await;
    }
}

pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// A session that is independent of the store.
pub(crate) struct Plain(pub(crate) Client);

impl Plain {
    pub(crate) async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    pub(crate) async fn does(&self, sql: &str) {
        self.0.batch_execute(sql).await.expect(sql);
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.0.query_one(sql, &[]).await.expect(sql).get(0)
    }

    pub(crate) async fn text(&self, sql: &str) -> String {
        self.0.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// Returns for how many milliseconds the lock is still held.
    pub(crate) async fn left_ms(&self) -> i64 {
        let sql = "SELECT coalesce((SELECT (extract(epoch FROM lock_until - timezone('utc', clock_timestamp())) * 1000)::bigint
            FROM shedlock WHERE name = 'stock'), 0)";
        self.number(sql).await
    }

    /// Frees the lock as ShedLock does, without a notification.
    pub(crate) async fn frees(&self) {
        let sql = "UPDATE shedlock SET lock_until = timezone('utc', current_timestamp) WHERE name = 'stock'";
        self.does(sql).await;
    }

    async fn left(&self) -> String {
        let sql = "SELECT coalesce(string_agg(what, ', '), '') FROM (
            SELECT 'held by ' || locked_by FROM shedlock WHERE lock_until > timezone('utc', current_timestamp)
            UNION ALL SELECT 'waiting: ' || owner FROM shedlock_line
            UNION ALL SELECT 'a transaction: ' || query FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'
        ) AS t (what)";
        self.text(sql).await
    }
}

/// Opens a store at this address.
pub(crate) async fn open(address: SocketAddr) -> Arc<PostgresTable> {
    let url = format!("postgres://fencepost@{address}/postgres");
    Arc::new(patient(&url).open().await.unwrap())
}

/// Returns a builder with a long timeout. Connecting is not what is tested, and on a busy machine it may take long.
pub(crate) fn patient(url: &str) -> PostgresTableBuilder {
    PostgresTable::builder(url).connect_timeout(LONG / 3)
}

/// Returns a locker with a short timeout.
pub(crate) fn impatient(store: &Arc<PostgresTable>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl).without_hand_over();
    let builder = builder.store_timeout(Duration::from_millis(700));
    builder.build().unwrap()
}
