//! A common interface for the locks that the hand-over benchmark compares.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use fencepost::stores::memory::Memory;
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Guard, LockName, Locker};
use tokio::sync::{Mutex, MutexGuard};

/// A lock with a waiting line that is released by dropping its guard.
pub(crate) trait Lock: Clone + Send + Sync + 'static {
    type Guard<'a>: Send
    where
        Self: 'a;

    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send;
}

/// Our lock, with the default settings.
#[derive(Clone)]
pub(crate) struct Ours {
    locker: Locker,
    name: LockName,
}

impl Ours {
    pub(crate) fn in_memory() -> Self {
        Self::new(Locker::new(Arc::new(Memory::new())))
    }

    pub(crate) fn in_file(path: &Path) -> Self {
        let store = Sqlite::open_blocking(path).expect("a new file in a new folder");
        Self::new(Locker::new(Arc::new(store)))
    }

    fn new(locker: Locker) -> Self {
        let name = LockName::new("bench:one-name").expect("a good name");
        Self { locker, name }
    }
}

impl Lock for Ours {
    type Guard<'a> = Guard;

    async fn lock(&self) -> Guard {
        let guard = self.locker.acquire(&self.name).await;
        guard.expect("the store works")
    }
}

/// Tokio's mutex.
#[derive(Clone, Default)]
pub(crate) struct Theirs(Arc<Mutex<()>>);

impl Lock for Theirs {
    type Guard<'a> = MutexGuard<'a, ()>;

    async fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().await
    }
}

/// A lock that is never granted and holds nothing: measures the weight of a task by itself.
#[derive(Clone)]
pub(crate) struct Nothing;

impl Lock for Nothing {
    type Guard<'a> = ();

    async fn lock(&self) {
        std::future::pending().await
    }
}
