//! rslock: a token under a key, polled with random pauses of up to 200 ms, its default.

use std::future::Future;
use std::time::Duration;

use rslock::LockManager;

use crate::Peer;

const TTL: Duration = Duration::from_secs(2);

pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(url: &str) -> Self {
        Self(LockManager::new(vec![url]))
    }
}

impl Peer for Rslock {
    /// All requests use one connection, and the order of service is random anyway.
    const APART: Option<Duration> = None;

    /// The first request opens its connection, which all share.
    async fn seats(&mut self, _count: usize) {}

    async fn under(&self, _seat: usize, lock: i64, inside: impl Future<Output = ()>) {
        let name = format!("rslock:{lock}");
        let guard = self.0.acquire(name.as_str(), TTL).await;
        let guard = guard.expect("it asks until it has it");
        inside.await;
        guard.release().await;
    }
}
