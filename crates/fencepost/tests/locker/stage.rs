//! What all tests of the locker share: a locker on a fake clock, with a store that fails on demand.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, FlakyStore};
use fencepost::{Guard, Locker};
use tokio::runtime::Runtime;

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// A locker on a fake clock, and its store.
pub(crate) struct Stage {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) memory: Arc<Memory>,
    /// The memory, with faults.
    pub(crate) store: Arc<FlakyStore>,
    pub(crate) locker: Locker,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = FakeClock::new();
        let memory = Arc::new(Memory::with_clock(clock.clone()));
        let store = FlakyStore::new(memory.clone());
        let locker = Locker::builder(store.clone())
            .ttl(TTL)
            .store_timeout(TIMEOUT);
        Self {
            locker: locker.build().expect("valid settings"),
            clock,
            memory,
            store,
        }
    }

    pub(crate) async fn take(&self, name: &str) -> Guard {
        self.locker.acquire(name).await.expect("a free lock")
    }

    /// Advances the clock in small steps, and lets all tasks act after each.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(50);
        self.clock.advance_in_steps(time, step).await;
    }

    /// Returns whether another locker can acquire the lock directly from the store, bypassing all faults.
    pub(crate) async fn is_free(&self, name: &str) -> bool {
        let rival = Locker::new(self.memory.clone());
        let guard = rival.try_acquire(name).await.expect("an answer");
        guard.is_some()
    }
}

/// Lets every task run until it is idle. There is one thread, and nothing here waits for real time.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Returns a runtime of this thread, with time.
pub(crate) fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime")
}
