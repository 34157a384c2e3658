//! The same locks for programs without an async runtime of their own.
//!
//! Each [`Locker`] runs one background thread that renews leases and gives them back; calls wait on the caller's thread.
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

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::backend::Backend;
use crate::claim::{LockName, OwnerId};
use crate::clock::within;
use crate::engine::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::lease::Lost;
use crate::locker::LockerBuilder;
use crate::reaper::Errands;
use crate::resource::Credential;

/// Takes locks, and waits on the calling thread. Cheap to clone; clones share everything. Dropping the last of its handles
/// and guards waits until everything is given back, for at most the store timeout.
///
/// Call it from ordinary threads. Inside an async runtime, its blocking threads included, every call that would wait returns
/// [`ErrorKind::WrongContext`]: use [`fencepost::Locker`](crate::Locker) there.
#[derive(Debug, Clone)]
pub struct Locker {
    inner: crate::Locker,
    worker: Arc<Worker>,
}

/// A lock that is held; given back when dropped. See [`fencepost::Guard`](crate::Guard), whose contract this one shares.
#[must_use = "the lock is given back as soon as the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    inner: crate::Guard,
    worker: Arc<Worker>,
}

/// Several locks that are held together; given back when dropped. See [`fencepost::MultiGuard`](crate::MultiGuard).
#[must_use = "the locks are given back as soon as the guard is dropped"]
#[derive(Debug)]
pub struct MultiGuard {
    inner: crate::MultiGuard,
    worker: Arc<Worker>,
}

/// The background thread. Ends with the last locker and guard, after giving back what they held.
#[derive(Debug)]
struct Worker {
    runtime: Option<Runtime>,
    errands: Errands,
    /// How long the end may take.
    farewell: Duration,
}

impl Worker {
    fn start(errands: Errands, farewell: Duration) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fencepost")
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => Ok(Self {
                runtime: Some(runtime),
                errands,
                farewell,
            }),
            Err(error) => {
                let message = "cannot start the background thread";
                Err(wrong_context(message).with_source(error))
            }
        }
    }

    fn wait<F: Future>(&self, future: F) -> Result<F::Output> {
        if Handle::try_current().is_ok() {
            return Err(wrong_context(
                "a blocking call inside an async runtime would stall it; use fencepost::Locker there",
            ));
        }
        match &self.runtime {
            Some(runtime) => Ok(runtime.block_on(future)),
            None => Err(wrong_context("the background thread has ended")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        // Waiting inside an async runtime would stall it; the leases then end by their TTL.
        if Handle::try_current().is_err() {
            runtime.block_on(async {
                let done = tokio::time::timeout(self.farewell, self.errands.done());
                if done.await.is_err() {
                    tracing::warn!("ended before the store had confirmed every release");
                }
            });
        }
        runtime.shutdown_background();
    }
}

fn wrong_context(message: &'static str) -> Error {
    Error::new(
        ErrorKind::WrongContext,
        "blocking",
        Operation::Acquire,
        message,
    )
}

impl LockerBuilder<Locker> {
    /// Checks the settings, and starts the background thread.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the TTL or the store timeout is out of range or the label contains control characters, and an
    /// error if the thread cannot be started.
    pub fn build(self) -> Result<Locker> {
        let inner = self.checked()?;
        let worker = Arc::new(Worker::start(inner.errands(), inner.store_timeout())?);
        Ok(Locker { inner, worker })
    }
}

impl Locker {
    /// A locker with default settings and a background thread of its own.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        Self::builder(backend).build()
    }

    /// Settings to change before building.
    pub fn builder(backend: Arc<dyn Backend>) -> LockerBuilder<Self> {
        LockerBuilder::new(backend)
    }

    /// The store this locker takes locks in.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// Tries once. `None`: somebody else holds the lock, or waits for it.
    ///
    /// # Errors
    /// As [`fencepost::Locker::try_acquire`](crate::Locker::try_acquire).
    pub fn try_acquire<N>(&self, name: N) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let guard = self.worker.wait(self.inner.try_acquire(name))??;
        Ok(guard.map(|inner| self.guard(inner)))
    }

    /// Waits for the lock as long as it takes.
    ///
    /// # Errors
    /// As [`fencepost::Locker::acquire`](crate::Locker::acquire).
    pub fn acquire<N>(&self, name: N) -> Result<Guard>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let guard = self.worker.wait(self.inner.acquire(name))??;
        Ok(self.guard(guard))
    }

    /// Waits for the lock for at most `timeout`. `None`: it was not free in time.
    ///
    /// # Errors
    /// As [`fencepost::Locker::acquire_within`](crate::Locker::acquire_within).
    pub fn acquire_within<N>(&self, name: N, timeout: Duration) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let guard = self
            .worker
            .wait(self.inner.acquire_within(name, timeout))??;
        Ok(guard.map(|inner| self.guard(inner)))
    }

    /// Tries once for each of the names. `None`: not all of them are free; then none is held.
    ///
    /// # Errors
    /// As [`fencepost::Locker::try_acquire_all`](crate::Locker::try_acquire_all).
    pub fn try_acquire_all<I>(&self, names: I) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self.worker.wait(self.inner.try_acquire_all(names))??;
        Ok(all.map(|inner| self.multi_guard(inner)))
    }

    /// Waits for all of the names as long as it takes.
    ///
    /// # Errors
    /// As [`fencepost::Locker::acquire_all`](crate::Locker::acquire_all).
    pub fn acquire_all<I>(&self, names: I) -> Result<MultiGuard>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self.worker.wait(self.inner.acquire_all(names))??;
        Ok(self.multi_guard(all))
    }

    /// Waits for all of the names, together for at most `timeout`. `None`: they were not free in time, and none is held.
    ///
    /// # Errors
    /// As [`fencepost::Locker::acquire_all_within`](crate::Locker::acquire_all_within).
    pub fn acquire_all_within<I>(&self, names: I, timeout: Duration) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self.inner.acquire_all_within(names, timeout);
        let all = self.worker.wait(all)??;
        Ok(all.map(|inner| self.multi_guard(inner)))
    }

    /// Ends this locker: see [`fencepost::Locker::shutdown`](crate::Locker::shutdown).
    ///
    /// # Errors
    /// [`ErrorKind::WrongContext`] inside an async runtime; then nothing has been shut down.
    pub fn shutdown(&self) -> Result<()> {
        self.worker.wait(self.inner.shutdown())
    }

    fn guard(&self, inner: crate::Guard) -> Guard {
        Guard {
            inner,
            worker: self.worker.clone(),
        }
    }

    fn multi_guard(&self, inner: crate::MultiGuard) -> MultiGuard {
        MultiGuard {
            inner,
            worker: self.worker.clone(),
        }
    }
}

impl MultiGuard {
    /// The fencing token of one of the names.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.inner.fence(name)
    }

    /// What a fenced [`resource`](crate::resource) asks for, of one of the names.
    pub fn credential(&self, name: &str) -> Option<Credential> {
        self.inner.guard(name).map(crate::Guard::credential)
    }

    /// How much longer nobody else can hold any of the locks, even if every renewal fails from now on.
    pub fn valid_for(&self) -> Duration {
        self.inner.valid_for()
    }

    /// Whether one of the locks is lost. Never turns false again. Ask between the steps of long work.
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// Gives all locks back and says how that went, each by itself. Inside an async runtime it goes on in the background, and the outcomes
    /// are [`Unknown`](ReleaseOutcome::Unknown).
    pub fn release(self) -> Vec<(LockName, ReleaseOutcome)> {
        let Self { inner, worker } = self;
        let names: Vec<LockName> = inner.names().cloned().collect();
        match worker.wait(inner.release()) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let unknown = |name| (name, ReleaseOutcome::Unknown(error.clone()));
                names.into_iter().map(unknown).collect()
            }
        }
    }
}

impl Guard {
    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// The fencing token of this hold.
    pub fn fence(&self) -> Fence {
        self.inner.fence()
    }

    /// Who holds the lock at the store.
    pub fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    /// What a fenced [`resource`](crate::resource) asks for.
    pub fn credential(&self) -> Credential {
        self.inner.credential()
    }

    /// How much longer nobody else can hold the lock, even if every renewal fails from now on.
    pub fn valid_for(&self) -> Duration {
        self.inner.valid_for()
    }

    /// Whether the lock is lost. Never turns false again. Ask between the steps of long work.
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// Waits until the lock is lost, at most for `timeout`. `None`: it is still held.
    ///
    /// # Errors
    /// [`ErrorKind::WrongContext`] inside an async runtime.
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<Lost>> {
        let clock = self.inner.clock();
        let until = clock.now() + timeout;
        self.worker.wait(within(&*clock, until, self.inner.lost()))
    }

    /// Makes the lease last at least `ttl` from now on.
    ///
    /// # Errors
    /// As [`fencepost::Guard::extend`](crate::Guard::extend).
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.worker.wait(self.inner.extend(ttl))?
    }

    /// Another guard of the same hold: re-entry, made explicit.
    pub fn reenter(&self) -> Self {
        Self {
            inner: self.inner.reenter(),
            worker: self.worker.clone(),
        }
    }

    /// Gives the lock back and says how that went. Inside an async runtime it goes on in the background, and the outcome
    /// is [`Unknown`](ReleaseOutcome::Unknown).
    pub fn release(self) -> ReleaseOutcome {
        let Self { inner, worker } = self;
        match worker.wait(inner.release()) {
            Ok(outcome) => outcome,
            Err(error) => ReleaseOutcome::Unknown(error),
        }
    }
}
