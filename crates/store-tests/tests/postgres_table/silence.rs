//! A Postgres server with the lease table that stops answering (SIGSTOP) during each kind of operation.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Guard;
use fencepost::stores::postgres_table::PostgresTable;
use fencepost_rig::Signal;
use fencepost_store_tests::silence::SilentServer;

use crate::support::Server;

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
