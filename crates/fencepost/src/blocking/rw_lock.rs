//! [`RwLock`] for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use super::Locker;
use super::held::holds;
use super::worker::Worker;
use crate::claim::LockName;
use crate::credential::Credential;
use crate::error::{Error, Operation, Result};

impl Locker {
    /// Returns the read-write lock of this name. This sends nothing to the store.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let config = locker.rw_lock("config")?;
    /// let (one, other) = (config.read()?, config.read()?);
    /// assert!(config.try_write()?.is_none());
    /// # drop((one, other));
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::Locker::rw_lock`](crate::Locker::rw_lock).
    pub fn rw_lock<N>(&self, name: N) -> Result<RwLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(RwLock {
            inner: self.inner.rw_lock(name)?,
            worker: self.worker.clone(),
        })
    }
}

/// A lock that many readers can hold at the same time, or one writer alone. It has the same contract as
/// [`fencepost::RwLock`](crate::RwLock). Cheap to clone.
#[derive(Debug, Clone)]
pub struct RwLock {
    inner: crate::RwLock,
    worker: Arc<Worker>,
}

impl RwLock {
    /// Returns the name.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// Waits until this thread may read, without a time limit.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::RwLock::read`](crate::RwLock::read).
    pub fn read(&self) -> Result<ReadGuard> {
        let guard = self.worker.wait(Operation::Acquire, self.inner.read())??;
        Ok(self.reading(guard))
    }

    /// Tries once to read. Returns `None` if somebody writes, or waits in order to write.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::RwLock::try_read`](crate::RwLock::try_read).
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        let guard = self
            .worker
            .wait(Operation::Acquire, self.inner.try_read())??;
        Ok(guard.map(|guard| self.reading(guard)))
    }

    /// Waits until this thread may read, for at most `timeout`. Returns `None` if that is not long enough. A timeout of zero tries once.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::RwLock::read_within`](crate::RwLock::read_within).
    pub fn read_within(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        let guard = self.inner.read_within(timeout);
        let guard = self.worker.wait(Operation::Acquire, guard)??;
        Ok(guard.map(|guard| self.reading(guard)))
    }

    /// Waits until this thread may write, without a time limit.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::RwLock::write`](crate::RwLock::write).
    pub fn write(&self) -> Result<WriteGuard> {
        let guard = self.worker.wait(Operation::Acquire, self.inner.write())??;
        Ok(self.writing(guard))
    }

    /// Tries once to write. Returns `None` if somebody reads or writes, or waits.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::RwLock::try_write`](crate::RwLock::try_write).
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        let guard = self
            .worker
            .wait(Operation::Acquire, self.inner.try_write())??;
        Ok(guard.map(|guard| self.writing(guard)))
    }

    /// Waits until this thread may write, for at most `timeout`. Returns `None` if that is not long enough. A timeout of zero tries once.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let config = locker.rw_lock("config")?;
    /// let reader = config.read()?;
    /// assert!(config.write_within(Duration::from_millis(10))?.is_none());
    /// # drop(reader);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::RwLock::write_within`](crate::RwLock::write_within).
    pub fn write_within(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        let guard = self.inner.write_within(timeout);
        let guard = self.worker.wait(Operation::Acquire, guard)??;
        Ok(guard.map(|guard| self.writing(guard)))
    }

    fn reading(&self, inner: crate::ReadGuard) -> ReadGuard {
        ReadGuard {
            inner,
            worker: self.worker.clone(),
        }
    }

    fn writing(&self, inner: crate::WriteGuard) -> WriteGuard {
        WriteGuard {
            inner,
            worker: self.worker.clone(),
        }
    }
}

/// Holds an [`RwLock`] for reading; dropping it releases it. It has the same contract as [`fencepost::ReadGuard`](crate::ReadGuard).
#[must_use = "the lock is released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct ReadGuard {
    inner: crate::ReadGuard,
    worker: Arc<Worker>,
}

holds!(ReadGuard);

/// Holds an [`RwLock`] for writing; dropping it releases it. It has the same contract as [`fencepost::WriteGuard`](crate::WriteGuard).
#[must_use = "the lock is released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct WriteGuard {
    inner: crate::WriteGuard,
    worker: Arc<Worker>,
}

holds!(WriteGuard);

impl ReadGuard {
    /// Returns the fence and the owner, with which a fenced [`resource`](crate::resource) lets this holder read.
    pub fn credential(&self) -> Credential {
        self.inner.credential()
    }
}

impl WriteGuard {
    /// Returns the fence and the owner, with which a fenced [`resource`](crate::resource) lets this holder read and write.
    pub fn credential(&self) -> Credential {
        self.inner.credential()
    }

    /// Becomes a reader without a moment in which somebody else could write.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let config = locker.rw_lock("config")?;
    /// let reader = config.write()?.downgrade()?;
    /// assert!(config.try_read()?.is_some());
    /// assert!(reader.release().is_released());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    pub fn downgrade(self) -> Result<ReadGuard> {
        let Self { inner, worker } = self;
        let inner = worker.wait(Operation::Acquire, inner.downgrade())??;
        Ok(ReadGuard { inner, worker })
    }
}
