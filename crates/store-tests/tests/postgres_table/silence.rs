//! A Postgres server with the lease table that stops answering (SIGSTOP) during each kind of operation.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Guard;
use fencepost::stores::postgres_table::PostgresTable;
use fencepost_rig::Signal;
use fencepost_store_tests::silence::SilentServer;

use crate::support::{NAME, Server, eventually, locker, open, run};

impl SilentServer for Server {
    type Store = PostgresTable;
    const STORE_TIMEOUT: Duration = Duration::from_millis(700);
    const TTL: Duration = Duration::from_secs(6);

    async fn start() -> Self {
        Self::start().await
    }

    async fn store(&self) -> Arc<PostgresTable> {
        self.store().await
    }

    fn stops(&self) {
        self.0.signal(Signal::SIGSTOP).unwrap();
    }

    fn goes_on(&self) {
        self.0.signal(Signal::SIGCONT).unwrap();
    }

    async fn left_of_lease(&self, _: &Guard) -> Duration {
        let left = self.plain().await.left_ms().await;
        Duration::from_millis(left.max(0).cast_unsigned())
    }

    async fn wait_for_line(&self, length: i64) {
        self.wait_for_line(length).await;
    }

    async fn wait_until_clean(&self) {
        self.wait_until_clean().await;
    }
}

/// A renewal without an answer does not count as a lost lock. The next renewal uses another connection, in time.
pub(crate) fn a_dead_connection_does_not_lose_a_lock() {
    run(async {
        let server = Server::start().await;
        for ttl in [3000, 4000].map(Duration::from_millis) {
            let proxy = server.proxy();
            let locker = locker(&open(proxy.address()).await, ttl);
            let guard = locker.acquire(NAME).await.unwrap();
            let before = proxy.counts().connections;
            assert!(proxy.bury() > 0, "a connection was open");
            eventually("another connection", async || {
                assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
                proxy.counts().connections > before
            })
            .await;
            let enough = i64::try_from(ttl.as_millis()).unwrap() * 8 / 10;
            let plain = server.plain().await;
            eventually("a renewal", async || {
                assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
                plain.left_ms().await > enough
            })
            .await;
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}
