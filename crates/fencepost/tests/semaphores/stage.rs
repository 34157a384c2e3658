//! What the tests of semaphores and read-write locks share: a locker on a fake clock, with a store that fails on demand.

use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind, Records, Snapshot};
use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, FlakyStore};
use fencepost::{Backend, LockName, Locker, Permit, RwLock, Semaphore};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Stage {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) memory: Arc<Memory>,
    /// The memory, with faults.
    pub(crate) store: Arc<FlakyStore>,
    pub(crate) locker: Locker,
    /// A locker that bypasses all faults.
    pub(crate) rival: Locker,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = FakeClock::new();
        let memory = Arc::new(Memory::with_clock(clock.clone()));
        let store = FlakyStore::new(memory.clone());
        Self {
            locker: locker(store.clone()),
            rival: locker(memory.clone()),
            clock,
            memory,
            store,
        }
    }

    pub(crate) fn semaphore(&self, permits: u32) -> Semaphore {
        semaphore(&self.locker, permits)
    }

    /// Returns the same semaphore, bypassing all faults.
    pub(crate) fn rival(&self, permits: u32) -> Semaphore {
        semaphore(&self.rival, permits)
    }

    pub(crate) fn rw_lock(&self) -> RwLock {
        self.locker.rw_lock("a").expect("a store with records")
    }

    /// Advances the clock in small steps, and lets all tasks act after each.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(50);
        self.clock.advance_in_steps(time, step).await;
    }

    /// Returns whether the record of the name has a line of this kind: a `share` or somebody who `waits`.
    pub(crate) async fn has(&self, kind: &str) -> bool {
        let record = self.record().await;
        record
            .lines()
            .any(|line| line.starts_with(&format!("{kind} ")))
    }

    /// Returns the record of the name, as text.
    pub(crate) async fn record(&self) -> String {
        text_of(&read(&*self.memory).await)
    }
}

pub(crate) fn locker(store: Arc<dyn Backend>) -> Locker {
    let settings = Locker::builder(store).ttl(TTL).store_timeout(TIMEOUT);
    settings.build().expect("valid settings")
}

pub(crate) fn semaphore(locker: &Locker, permits: u32) -> Semaphore {
    let semaphore = locker.semaphore("a", permits);
    semaphore.expect("a store with records")
}

pub(crate) fn key() -> RecordKey {
    RecordKey {
        kind: RecordKind::Shares,
        name: LockName::new("a").expect("a valid name"),
    }
}

pub(crate) fn records(store: &dyn Backend) -> &dyn Records {
    store.records().expect("a store with records")
}

pub(crate) async fn read(store: &dyn Backend) -> Snapshot {
    records(store).read(&key()).await.expect("an answer")
}

pub(crate) fn text_of(seen: &Snapshot) -> String {
    let text = seen.value.as_deref().unwrap_or_default();
    String::from_utf8(text.to_vec()).expect("a text")
}

pub(crate) async fn take(semaphore: &Semaphore, count: u32) -> Permit {
    let permit = semaphore.try_acquire(count).await.expect("an answer");
    permit.expect("free permits")
}

/// Lets every task run until it is idle. There is one thread, and nothing here waits for real time.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
