//! A Redis server that stops answering (SIGSTOP) during each kind of operation, and connections that die silently.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Guard;
use fencepost::stores::redis::Redis;
use fencepost_rig::Signal;
use fencepost_store_tests::redis::dies_silently;
use fencepost_store_tests::silence::SilentServer;

use crate::support::{LONG, NAME, Server, eventually, kept_for, locker, open, run};

impl SilentServer for Server {
    type Store = Redis;
    const STORE_TIMEOUT: Duration = Duration::from_secs(1);
    const TTL: Duration = Duration::from_secs(5);

    async fn start() -> Self {
        Self::start()
    }

    async fn store(&self) -> Arc<Redis> {
        self.store().await
    }

    fn stops(&self) {
        self.0.signal(Signal::SIGSTOP).unwrap();
        assert!(self.0.wait_stopped(LONG));
    }

    fn goes_on(&self) {
        self.0.signal(Signal::SIGCONT).unwrap();
    }

    async fn left_of_lease(&self, guard: &Guard) -> Duration {
        kept_for(&mut self.plain(), guard.owner())
    }

    async fn wait_for_line(&self, length: i64) {
        self.wait_for_line(NAME, length).await;
        self.wait_for_heartbeats(NAME, length).await;
    }

    async fn wait_until_clean(&self) {
        self.wait_until_clean().await;
    }
}

/// A renewal without an answer does not count as a lost lock. The next renewal uses another connection, in time.
pub(crate) fn a_dead_connection_does_not_lose_a_lock() {
    run(async {
        let server = Server::start();
        for ttl in [3000, 4000].map(Duration::from_millis) {
            let proxy = server.proxy();
            let locker = locker(&open(proxy.address()).await, ttl);
            let guard = locker.acquire(NAME).await.unwrap();
            dies_silently(&proxy);
            eventually("another connection", async || {
                assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
                proxy.counts().connections == 2
            })
            .await;
            let mut plain = server.plain();
            eventually("a renewal", async || {
                assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
                kept_for(&mut plain, guard.owner()) > ttl * 8 / 10
            })
            .await;
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}
