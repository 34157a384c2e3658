//! [`RwLock`]: many readers, or one writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::held::holds;
use crate::backend::Backend;
use crate::claim::{LockName, Part};
use crate::clock::Moment;
use crate::credential::Credential;
use crate::engine::Wanted;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::line::Manner;
use crate::locker::Locker;
use crate::shares::Shares;

impl Locker {
    /// Returns the read-write lock of this name. This sends nothing to the store.
    ///
    /// A lock and a read-write lock of the same name have nothing to do with each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let config = locker.rw_lock("config")?;
    /// let (one, other) = (config.read().await?, config.read().await?);
    /// assert!(config.try_write().await?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the name is invalid, and
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store keeps no records.
    pub fn rw_lock<N>(&self, name: N) -> Result<RwLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let (locker, shares) = self.shares()?;
        Ok(RwLock {
            locker,
            shares,
            name,
        })
    }
}

/// A lock that many readers can hold at the same time, or one writer alone. Cheap to clone.
///
/// Readers and writers are served in order of arrival, across all tasks and processes: a reader does not overtake a writer that waits, and
/// readers that come one after the other are let in together. So neither side starves. A reader cannot become a writer: two of them would
/// wait for each other.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
/// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
/// let config = locker.rw_lock("config")?;
/// let writer = config.write().await?;
/// println!("alone, fence {}", writer.fence());
/// let reader = writer.downgrade().await?;
/// println!("reading what was written, fence {}", reader.fence());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RwLock {
    locker: Locker,
    shares: Arc<Shares>,
    name: LockName,
}

impl RwLock {
    /// Returns the name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Waits until this task may read, without a time limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let reader = locker.rw_lock("config")?.read().await?;
    /// drop(reader); // releases it in the background
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store fails while waiting, gives no first answer within the store timeout, or has no clock that its clients
    /// can ask ([`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)). Returns
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the name is that of a semaphore.
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The locker takes the task out of the line in the background, and releases what the store may
    /// have granted.
    pub async fn read(&self) -> Result<ReadGuard> {
        let guard = self.ask(Part::Read, Manner::Wait, Moment::FAR).await?;
        let guard = guard.ok_or_else(|| self.locker.unanswered())?;
        Ok(ReadGuard { guard })
    }

    /// Tries once to read. Returns `None` if somebody writes, or waits in order to write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let config = locker.rw_lock("config")?;
    /// let writer = config.write().await?;
    /// assert!(config.try_read().await?.is_none());
    /// # drop(writer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read).
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. If the store may have let the task in, the locker releases that in the background.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        let guard = self.ask(Part::Read, Manner::Try, Moment::FAR).await?;
        Ok(guard.map(|guard| ReadGuard { guard }))
    }

    /// Waits until this task may read, for at most `timeout`. Returns `None` if that is not long enough. A timeout of zero tries once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let reader = locker.rw_lock("config")?.read_within(Duration::from_secs(5)).await?;
    /// assert!(reader.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read). If the store gives no answer at all within `timeout`, that is an error
    /// ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)), not `None`.
    ///
    /// # Cancel safety
    /// The same as for [`read`](Self::read).
    pub async fn read_within(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        let guard = self.ask_within(Part::Read, timeout).await?;
        Ok(guard.map(|guard| ReadGuard { guard }))
    }

    /// Waits until this task may write, without a time limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let writer = locker.rw_lock("config")?.write().await?;
    /// assert!(writer.release().await.is_released());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read).
    ///
    /// # Cancel safety
    /// The same as for [`read`](Self::read).
    pub async fn write(&self) -> Result<WriteGuard> {
        let guard = self.ask(Part::Write, Manner::Wait, Moment::FAR).await?;
        let guard = guard.ok_or_else(|| self.locker.unanswered())?;
        Ok(self.writing(guard))
    }

    /// Tries once to write. Returns `None` if somebody reads or writes, or waits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let config = locker.rw_lock("config")?;
    /// let reader = config.read().await?;
    /// assert!(config.try_write().await?.is_none());
    /// # drop(reader);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read).
    ///
    /// # Cancel safety
    /// The same as for [`try_read`](Self::try_read).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        let guard = self.ask(Part::Write, Manner::Try, Moment::FAR).await?;
        Ok(guard.map(|guard| self.writing(guard)))
    }

    /// Waits until this task may write, for at most `timeout`. Returns `None` if that is not long enough. A timeout of zero tries once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let config = locker.rw_lock("config")?;
    /// let reader = config.read().await?;
    /// assert!(config.write_within(Duration::from_millis(10)).await?.is_none());
    /// # drop(reader);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`read_within`](Self::read_within).
    ///
    /// # Cancel safety
    /// The same as for [`read`](Self::read).
    pub async fn write_within(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        let guard = self.ask_within(Part::Write, timeout).await?;
        Ok(guard.map(|guard| self.writing(guard)))
    }

    async fn ask_within(&self, part: Part, timeout: Duration) -> Result<Option<Guard>> {
        if timeout.is_zero() {
            return self.ask(part, Manner::Try, Moment::FAR).await;
        }
        let until = self.shares.clock().now() + timeout;
        self.ask(part, Manner::Wait, until).await
    }

    async fn ask(&self, part: Part, manner: Manner, until: Moment) -> Result<Option<Guard>> {
        let wanted = Wanted::from(self.name.clone()).with_part(part);
        let asked = self.locker.ask_for(wanted, manner, until);
        asked.await
    }

    fn writing(&self, guard: Guard) -> WriteGuard {
        WriteGuard {
            guard,
            lock: self.clone(),
        }
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock")
            .field("name", &self.name)
            .field("store", &self.shares.store_name())
            .finish_non_exhaustive()
    }
}

/// Holds an [`RwLock`] for reading, beside other readers. Dropping it releases it in the background.
///
/// It has the same contract as a [`Guard`], except for the fence: it is larger than that of every earlier writer, but a reader that came
/// later is right as well. A resource must refuse a write below any fence that it has seen, and a read below the fence of any write. The
/// library has no such resource yet: those in [`resource`](crate::resource) would refuse readers that are right.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard {
    guard: Guard,
}

holds!(ReadGuard);

/// Holds an [`RwLock`] for writing, alone. Dropping it releases it in the background.
///
/// It has the same contract as a [`Guard`]: its fence is larger than that of every earlier reader and writer.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard {
    guard: Guard,
    lock: RwLock,
}

holds!(WriteGuard);

impl ReadGuard {
    /// Returns the fence and the owner, with which a fenced [`resource`](crate::resource) lets this holder read.
    pub fn credential(&self) -> Credential {
        self.guard.credential()
    }
}

impl WriteGuard {
    /// Returns the fence and the owner, with which a fenced [`resource`](crate::resource) lets this holder read and write.
    pub fn credential(&self) -> Credential {
        self.guard.credential()
    }

    /// Becomes a reader without a moment in which somebody else could write. The fence of the reader is new and larger. Readers that wait
    /// in front of the next writer are let in, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let config = locker.rw_lock("config")?;
    /// let reader = config.write().await?.downgrade().await?;
    /// assert!(config.try_read().await?.is_some());
    /// assert!(config.try_write().await?.is_none());
    /// # drop(reader);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock is lost, and otherwise the error of the store. After an error, the
    /// lock is released in the background: the store may have made this a reader or not.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released in the background.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let Self { guard, lock } = self;
        let part = Part::ReadInPlaceOf(guard.owner());
        let writer = guard.make_way()?;
        match lock.ask(part, Manner::Try, Moment::FAR).await? {
            Some(reader) => {
                writer.was_replaced();
                Ok(ReadGuard { guard: reader })
            }
            // The place of a writer is free for its reader; `None` would be a bug of the backend.
            None => Err(lock.locker.unanswered()),
        }
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.guard).finish()
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&self.guard).finish()
    }
}
