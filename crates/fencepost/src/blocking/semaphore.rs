//! [`Semaphore`] for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use super::Locker;
use super::held::holds;
use super::worker::Worker;
use crate::claim::LockName;
use crate::credential::Credential;
use crate::error::{Error, Operation, Result};

impl Locker {
    /// Returns the semaphore of this name. `permits` is how many permits it has if nobody has used it before. This sends nothing to the
    /// store.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let gpu = locker.semaphore("gpu", 2)?;
    /// let both = gpu.acquire(2)?;
    /// assert!(gpu.try_acquire(1)?.is_none());
    /// # drop(both);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::semaphore`](crate::Locker::semaphore).
    pub fn semaphore<N>(&self, name: N, permits: u32) -> Result<Semaphore>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Semaphore {
            inner: self.inner.semaphore(name, permits)?,
            worker: self.worker.clone(),
        })
    }
}

/// A number of permits with a common name, of which each holder has some. It has the same contract as
/// [`fencepost::Semaphore`](crate::Semaphore). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Semaphore {
    inner: crate::Semaphore,
    worker: Arc<Worker>,
}

impl Semaphore {
    /// Returns the name.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// Tries once to take `count` permits. Returns `None` if they are not free, or if somebody waits for permits that are not free.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// match locker.semaphore("gpu", 4)?.try_acquire(2)? {
    ///     Some(permit) => println!("devices {:?}", permit.slots().collect::<Vec<_>>()),
    ///     None => println!("busy"),
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    pub fn try_acquire(&self, count: u32) -> Result<Option<Permit>> {
        let permit = self.inner.try_acquire(count);
        let permit = self.worker.wait(Operation::Acquire, permit)??;
        Ok(permit.map(|inner| self.permit(inner)))
    }

    /// Waits for `count` permits without a time limit.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let permit = locker.semaphore("gpu", 4)?.acquire(2)?;
    /// drop(permit); // gives both back in the background
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Semaphore::acquire`](crate::Semaphore::acquire).
    pub fn acquire(&self, count: u32) -> Result<Permit> {
        let permit = self.inner.acquire(count);
        let permit = self.worker.wait(Operation::Acquire, permit)??;
        Ok(self.permit(permit))
    }

    /// Waits for `count` permits for at most `timeout`. Returns `None` if they did not become free in time. A timeout of zero tries once.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let permit = locker.semaphore("gpu", 4)?.acquire_within(2, Duration::from_secs(5))?;
    /// assert!(permit.is_some());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Semaphore::acquire_within`](crate::Semaphore::acquire_within).
    pub fn acquire_within(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        let permit = self.inner.acquire_within(count, timeout);
        let permit = self.worker.wait(Operation::Acquire, permit)??;
        Ok(permit.map(|inner| self.permit(inner)))
    }

    /// Returns how many permits there are, free or not.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Semaphore::permits`](crate::Semaphore::permits).
    pub fn permits(&self) -> Result<u32> {
        self.worker.wait(Operation::Inspect, self.inner.permits())?
    }

    /// Returns how many permits are free: neither held nor kept for a waiter whose turn it is.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Semaphore::available`](crate::Semaphore::available).
    pub fn available(&self) -> Result<u32> {
        self.worker
            .wait(Operation::Inspect, self.inner.available())?
    }

    /// Changes the number of permits, for everybody who uses the semaphore.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let gpus = locker.semaphore("gpu", 4)?;
    /// gpus.resize(5)?;
    /// assert_eq!((gpus.permits()?, gpus.available()?), (5, 5));
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Semaphore::resize`](crate::Semaphore::resize).
    pub fn resize(&self, permits: u32) -> Result<()> {
        let resized = self.inner.resize(permits);
        self.worker.wait(Operation::ReplaceRecord, resized)?
    }

    fn permit(&self, inner: crate::Permit) -> Permit {
        Permit {
            inner,
            worker: self.worker.clone(),
        }
    }
}

/// One or more permits of a [`Semaphore`]; dropping it gives them back. It has the same contract as [`fencepost::Permit`](crate::Permit).
#[must_use = "the permits are given back as soon as the value is dropped"]
#[derive(Debug)]
pub struct Permit {
    inner: crate::Permit,
    worker: Arc<Worker>,
}

holds!(Permit);

impl Permit {
    /// Returns how many permits these are.
    pub fn count(&self) -> u32 {
        self.inner.count()
    }

    /// Returns the numbers of the permits, the lowest first.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let permit = locker.semaphore("gpu", 4)?.acquire(2)?;
    /// assert!(permit.slots().eq([0, 1]));
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.inner.slots()
    }

    /// Returns the lowest of the [slots](Self::slots): the only one, if this is one permit.
    pub fn slot(&self) -> u32 {
        self.inner.slot()
    }

    /// Returns each slot with the credential for the resource behind it. See
    /// [`fencepost::Permit::credentials`](crate::Permit::credentials).
    pub fn credentials(&self) -> impl Iterator<Item = (u32, Credential)> + '_ {
        self.inner.credentials()
    }
}
