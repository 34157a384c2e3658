//! Locks that are held, for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use super::worker::Worker;
use crate::claim::{LockName, OwnerId};
use crate::clock::within;
use crate::engine::ReleaseOutcome;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::lease::Lost;
use crate::resource::Credential;

/// A lock that is held; given back when dropped. See [`fencepost::Guard`](crate::Guard), whose contract this one shares.
#[must_use = "the lock is given back as soon as the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    pub(super) inner: crate::Guard,
    pub(super) worker: Arc<Worker>,
}

/// Several locks that are held together; given back when dropped. See [`fencepost::MultiGuard`](crate::MultiGuard).
#[must_use = "the locks are given back as soon as the guard is dropped"]
#[derive(Debug)]
pub struct MultiGuard {
    pub(super) inner: crate::MultiGuard,
    pub(super) worker: Arc<Worker>,
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
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// for (name, outcome) in locker.acquire_all(["a", "b"])?.release() {
    ///     assert!(outcome.is_released(), "{name}: {outcome:?}");
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// assert_eq!(guard.name().as_str(), "nightly-report");
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// The fencing token of this hold.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// println!("fence {}", guard.fence());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn fence(&self) -> Fence {
        self.inner.fence()
    }

    /// Whether somebody else had the lock when it was asked for.
    pub fn was_contended(&self) -> bool {
        self.inner.was_contended()
    }

    /// How many renewals in a row have failed so far, and what the last one said; `None` while they succeed.
    pub fn renewal_trouble(&self) -> Option<(u32, Error)> {
        self.inner.renewal_trouble()
    }

    /// Who holds the lock at the store.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// println!("{} at the store", guard.owner());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    /// What a fenced [`resource`](crate::resource) asks for.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use fencepost::resource::{FencedCell, FencedResource};
    ///
    /// let stock = FencedCell::new(3);
    /// let guard = locker.acquire("nightly-report")?;
    /// stock.write(guard.credential(), 2).expect("the largest fence so far");
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn credential(&self) -> Credential {
        self.inner.credential()
    }

    /// How much longer nobody else can hold the lock, even if every renewal fails from now on.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// println!("{:?} left", guard.valid_for());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn valid_for(&self) -> Duration {
        self.inner.valid_for()
    }

    /// Whether the lock is lost. Never turns false again. Ask between the steps of long work.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// for page in 1..=3 {
    ///     if guard.is_lost() {
    ///         break;
    ///     }
    ///     println!("page {page}");
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// Waits until the lock is lost, at most for `timeout`. Returns `None` if it is still held.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let guard = locker.acquire("nightly-report")?;
    /// assert!(guard.lost_within(Duration::from_millis(10))?.is_none());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<Lost>> {
        let clock = self.inner.clock();
        let until = clock.now() + timeout;
        self.worker.wait(within(&*clock, until, self.inner.lost()))
    }

    /// Makes the lease last at least `ttl` from now on.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let guard = locker.acquire("nightly-report")?;
    /// guard.extend(Duration::from_secs(60))?;
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`fencepost::Guard::extend`](crate::Guard::extend).
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.worker.wait(self.inner.extend(ttl))?
    }

    /// Another guard of the same hold: re-entry, made explicit.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// let inner = guard.reenter();
    /// drop(guard);
    /// assert!(inner.release().is_released());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn reenter(&self) -> Self {
        Self {
            inner: self.inner.reenter(),
            worker: self.worker.clone(),
        }
    }

    /// Gives the lock back and says how that went. Inside an async runtime it goes on in the background, and the outcome
    /// is [`Unknown`](ReleaseOutcome::Unknown).
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// assert!(guard.release().is_released());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn release(self) -> ReleaseOutcome {
        let Self { inner, worker } = self;
        match worker.wait(inner.release()) {
            Ok(outcome) => outcome,
            Err(error) => ReleaseOutcome::Unknown(error),
        }
    }
}
