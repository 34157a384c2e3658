//! A Redis server that stops answering (SIGSTOP) during each kind of operation, and connections that die silently.

use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind};
use fencepost::stores::redis::Redis;
use fencepost::{Backend, Guard};
use fencepost_rig::Signal;
use fencepost_store_tests::redis::dies_silently;
use fencepost_store_tests::silence::SilentServer;

use crate::support::{LONG, NAME, Server, eventually, kept_for, locker, open, run, soon};

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

/// A waiter whose connection dies silently, at whatever moment of its rest, asks over another one, and gets its permit.
pub(crate) fn a_dead_connection_does_not_keep_a_waiter_from_its_permit() {
    run(async {
        const WAITERS: usize = 6;
        let server = Server::start();
        let near = server.store().await;
        let held = locker(&near, LONG).semaphore(NAME, 1).unwrap();
        let held = held.acquire(1).await.unwrap();
        let mut waiting = Vec::new();
        let mut proxies = Vec::new();
        for number in 1..=WAITERS {
            let proxy = server.proxy();
            let far = locker(&open(proxy.address()).await, LONG);
            let semaphore = far.semaphore(NAME, 1).unwrap();
            waiting.push(tokio::spawn(async move {
                let permit = semaphore.acquire(1).await.unwrap();
                assert!(permit.release().await.is_released());
            }));
            eventually("a place in line", async || {
                line_length(&near).await == number
            })
            .await;
            proxies.push(proxy);
        }
        // The last one in line has woken the others, and all rest for up to three seconds now.
        for proxy in &proxies {
            tokio::time::sleep(Duration::from_millis(450)).await;
            dies_silently(proxy);
        }
        // Longer than any rest: whoever asks over the dead connection waits for the answer now.
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(held.release().await.is_released());
        for waiting in waiting {
            soon("a permit", waiting).await.unwrap();
        }
    });
}

/// Returns how many wait for permits of [`NAME`].
async fn line_length(store: &Redis) -> usize {
    let key = RecordKey {
        kind: RecordKind::Shares,
        name: NAME.try_into().unwrap(),
    };
    let seen = store.records().unwrap().read(&key).await.unwrap();
    let text = String::from_utf8(seen.value.unwrap().to_vec()).unwrap();
    let waits = text.lines().filter(|line| line.starts_with("waits "));
    waits.count()
}
