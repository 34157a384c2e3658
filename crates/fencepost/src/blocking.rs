//! The same API as the crate root's, for programs without an async runtime.
//!
//! There are three differences. [`Locker::new`] and [`Locker::shutdown`] return a `Result`. `lost_within` of guards and permits waits for a
//! loss with a timeout; there is no `lost` without one. And there is no `run`, because a thread cannot be stopped from outside: check
//! `is_lost` between the steps of the work.
//!
//! A store is opened by its address with [`stores::open_blocking`](crate::stores::open_blocking) or
//! [`StoreAddress::open_with_ttl_blocking`](crate::stores::StoreAddress::open_with_ttl_blocking), and with its own settings by the
//! `open_blocking` of its builder. The following have no counterpart: the methods of [`Backend`] itself, and with them opening a store only
//! to look at its locks or to release them; elections; what a store offers beside locks (`Sqlite::checkpoint`, `RedisRegister`, writes in
//! etcd while a lock is held); and `pg_tx`, because a transaction belongs to an async client. [`FencedCell`](crate::resource::FencedCell)
//! and the gates for SQLite need no runtime.
//!
//! Each [`Locker`] runs one background thread that renews and releases leases. Calls wait on the caller's thread.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use fencepost::stores::memory::Memory;
//! use fencepost::blocking::Locker;
//!
//! let locker = Locker::new(Arc::new(Memory::new()))?;
//! let guard = locker.acquire("nightly-report")?;
//! assert!(locker.try_acquire("nightly-report")?.is_none());
//! assert!(guard.release().is_released());
//! # Ok::<(), fencepost::Error>(())
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::claim::LockName;
use crate::error::{Error, Operation, Result};

mod election;
mod guard;
mod held;
mod multi;
mod once;
mod rw_lock;
mod semaphore;
mod worker;

pub use election::{Election, Leadership, Observer};
pub use guard::Guard;
pub use multi::MultiGuard;
pub use once::{Began, Once, Run};
pub use rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
use worker::Worker;

/// Acquires locks, and waits on the calling thread. Cheap to clone; all clones share the same state. Dropping the last clone and
/// guard waits until all locks are released, for at most the store timeout; inside an async runtime, a new thread waits instead.
///
/// Call it from ordinary threads. Inside an async runtime, including its blocking threads, every call that would wait returns
/// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext); use [`fencepost::Locker`](crate::Locker) there.
#[derive(Debug, Clone)]
pub struct Locker {
    inner: crate::Locker,
    worker: Arc<Worker>,
}

/// The settings of a [`Locker`]; [`Locker::builder`] creates it.
pub type LockerBuilder = crate::LockerBuilder<Locker>;

impl LockerBuilder {
    /// Checks the settings, and starts the background thread.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the TTL or the store timeout is out of range,
    /// [`HandOver::min_valid_percent`](crate::HandOver::min_valid_percent) is over 100, or the label contains control characters, and an
    /// error if the thread cannot be started.
    pub fn build(self) -> Result<Locker> {
        let inner = self.checked()?;
        let store = inner.backend().store_name();
        let worker = Worker::start(inner.open_errands(), inner.store_timeout(), store)?;
        Ok(Locker {
            inner,
            worker: Arc::new(worker),
        })
    }
}

impl Locker {
    /// Creates a locker with default settings, and starts its background thread.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fencepost::blocking::Locker;
    /// use fencepost::stores::memory::Memory;
    ///
    /// let locker = Locker::new(Arc::new(Memory::new()))?;
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        Self::builder(backend).build()
    }

    /// Returns a builder, to change settings before the locker is built.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use fencepost::blocking::Locker;
    /// # use fencepost::stores::memory::Memory;
    /// let builder = Locker::builder(Arc::new(Memory::new()));
    /// let locker = builder.ttl(Duration::from_secs(30)).build()?;
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn builder(backend: Arc<dyn Backend>) -> LockerBuilder {
        LockerBuilder::new(backend)
    }

    /// Returns the label under which the store lists this locker among holders and waiters.
    pub fn label(&self) -> &str {
        self.inner.label()
    }

    /// Returns the store in which this locker takes locks.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// assert!(locker.backend().capabilities().fifo);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// Tries once to acquire the lock. Returns `None` if somebody else holds the lock or waits for it.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// match locker.try_acquire("nightly-report")? {
    ///     Some(guard) => println!("mine, fence {}", guard.fence()),
    ///     None => println!("somebody else is at it"),
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::try_acquire`](crate::Locker::try_acquire).
    pub fn try_acquire<N>(&self, name: N) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let guard = self
            .worker
            .wait(Operation::Acquire, self.inner.try_acquire(name))??;
        Ok(guard.map(|inner| self.guard(inner)))
    }

    /// Waits for the lock without a time limit.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// drop(guard); // releases the lock in the background
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::acquire`](crate::Locker::acquire).
    pub fn acquire<N>(&self, name: N) -> Result<Guard>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let guard = self
            .worker
            .wait(Operation::Acquire, self.inner.acquire(name))??;
        Ok(self.guard(guard))
    }

    /// Waits for the lock for at most `timeout`. Returns `None` if the lock did not become free in time. A timeout of zero tries once.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let first = locker.acquire("nightly-report")?;
    /// let second = locker.acquire_within("nightly-report", Duration::from_millis(10))?;
    /// assert!(second.is_none());
    /// # drop(first);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::acquire_within`](crate::Locker::acquire_within).
    pub fn acquire_within<N>(&self, name: N, timeout: Duration) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let guard = self
            .worker
            .wait(Operation::Acquire, self.inner.acquire_within(name, timeout))??;
        Ok(guard.map(|inner| self.guard(inner)))
    }

    /// Tries once to acquire each of the names. If one of them is not free, releases what it had acquired, which takes at most the store
    /// timeout, and returns `None`.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let other = locker.acquire("b")?;
    /// assert!(locker.try_acquire_all(["a", "b"])?.is_none());
    /// # drop(other);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::try_acquire_all`](crate::Locker::try_acquire_all).
    pub fn try_acquire_all<I>(&self, names: I) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self
            .worker
            .wait(Operation::Acquire, self.inner.try_acquire_all(names))??;
        Ok(all.map(|inner| self.multi_guard(inner)))
    }

    /// Waits for all of the names without a time limit.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let all = locker.acquire_all(["a", "b"])?;
    /// println!("fence of a: {}", all.fence("a").expect("one of the names"));
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::acquire_all`](crate::Locker::acquire_all).
    pub fn acquire_all<I>(&self, names: I) -> Result<MultiGuard>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self
            .worker
            .wait(Operation::Acquire, self.inner.acquire_all(names))??;
        Ok(self.multi_guard(all))
    }

    /// Waits for all of the names for at most `timeout` in total. If they did not become free in time, releases what it had acquired, which
    /// takes at most the store timeout, and returns `None`.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let all = locker.acquire_all_within(["a", "b"], Duration::from_secs(5))?;
    /// assert!(all.is_some());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::acquire_all_within`](crate::Locker::acquire_all_within).
    pub fn acquire_all_within<I>(&self, names: I, timeout: Duration) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self.inner.acquire_all_within(names, timeout);
        let all = self.worker.wait(Operation::Acquire, all)??;
        Ok(all.map(|inner| self.multi_guard(inner)))
    }

    /// Shuts down this locker and its clones, as [`fencepost::Locker::shutdown`](crate::Locker::shutdown) does.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// locker.shutdown()?;
    /// assert!(guard.is_lost());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime. The locker is not shut down then.
    pub fn shutdown(&self) -> Result<()> {
        self.worker.wait(Operation::Release, self.inner.shutdown())
    }

    fn guard(&self, inner: crate::Guard) -> Guard {
        Guard {
            inner,
            worker: self.worker.clone(),
        }
    }

    fn multi_guard(&self, inner: crate::MultiGuard) -> MultiGuard {
        MultiGuard::new(inner, self.worker.clone())
    }
}
