//! [`Guard`] for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use super::worker::Worker;
use crate::claim::{LockName, OwnerId};
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::{Operation, Result};
use crate::fence::Fence;
use crate::lease::{FailedRenewals, Lost};

/// A lock that is held; dropping it releases the lock. It has the same contract as [`fencepost::Guard`](crate::Guard).
#[must_use = "the lock is released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    pub(super) inner: crate::Guard,
    pub(super) worker: Arc<Worker>,
}

impl Guard {
    /// Returns the name of the lock.
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

    /// Returns the fencing token of this hold.
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

    /// Returns whether somebody else had the lock when this thread asked for it.
    pub fn was_contended(&self) -> bool {
        self.inner.was_contended()
    }

    /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.inner.failed_renewals()
    }

    /// Returns the owner of the lease at the store.
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

    /// Returns the fence and the owner, which a fenced [`resource`](crate::resource) checks.
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

    /// Returns how much longer the lock is held if every renewal fails from now on. Nobody else can hold it during this time, unless the
    /// store loses its data or somebody releases the lock by force; then only the [fence](Self::fence) protects the resource. Returns zero
    /// if the lock is lost.
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

    /// Returns whether the lock is lost. Once this returns `true`, it stays `true`. Check it between the steps of long work.
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

    /// Waits until the lock is lost, for at most `timeout`. Returns `None` if it is still held.
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
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<Lost>> {
        let clock = self.inner.clock();
        self.worker
            .wait_for_loss(&*clock, timeout, self.inner.lost())
    }

    /// Extends the lease so that it lasts at least `ttl` from now on.
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
    /// Returns the same errors as [`fencepost::Guard::extend`](crate::Guard::extend).
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.worker.wait(Operation::Renew, self.inner.extend(ttl))?
    }

    /// Returns another guard of the same hold (explicit re-entry).
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

    /// Stops renewing the lock, and leaves it to end by itself. See [`Guard::leave`](crate::Guard::leave).
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let guard = locker.acquire("nightly-report")?;
    /// guard.leave();
    /// assert!(locker.try_acquire("nightly-report")?.is_none());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn leave(self) {
        self.inner.leave();
    }

    /// Releases the lock, and returns the outcome. Inside an async runtime, the release continues in the background and the outcome
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
        match worker.wait(Operation::Release, inner.release()) {
            Ok(outcome) => outcome,
            Err(error) => ReleaseOutcome::Unknown(error),
        }
    }
}
