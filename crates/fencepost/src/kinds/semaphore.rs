//! [`Semaphore`]: a number of permits, of which each holder has some.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::held::holds;
use crate::backend::Backend;
use crate::claim::{LockName, Part};
use crate::clock::Moment;
use crate::credential::Credential;
use crate::engine::Wanted;
use crate::error::{Error, Operation, Result};
use crate::guard::Guard;
use crate::line::Manner;
use crate::locker::Locker;
use crate::shares::Shares;
use crate::shares::machine::Slots;

impl Locker {
    /// Returns the semaphore of this name. `permits` is how many permits it has if nobody has used it before: the first use stores the
    /// number, and whoever comes later finds it there ([`Semaphore::permits`], [`Semaphore::resize`]). Redis forgets it when nobody has used
    /// the semaphore for a week. This sends nothing to the store.
    ///
    /// A lock and a semaphore of the same name have nothing to do with each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let gpu = locker.semaphore("gpu", 2)?;
    /// let one = gpu.acquire(1).await?;
    /// let other = gpu.acquire(1).await?;
    /// assert!(gpu.try_acquire(1).await?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the name is invalid or `permits` is zero, and
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store keeps no records.
    pub fn semaphore<N>(&self, name: N, permits: u32) -> Result<Semaphore>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        check_count(&name, permits)?;
        let (locker, shares) = self.shares()?;
        Ok(Semaphore {
            locker,
            shares,
            name,
            of: permits,
        })
    }
}

fn check_count(name: &LockName, permits: u32) -> Result<()> {
    if permits == 0 {
        let message = format!("zero permits of {name}: there must be at least one");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// A number of permits with a common name, of which each holder has some. Cheap to clone.
///
/// Permits are given out in order of arrival, across all tasks and processes: nobody overtakes a waiter that wants more permits than are
/// free. The number of permits is kept in the store and can be [changed](Self::resize).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
/// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
/// let gpus = locker.semaphore("gpu", 4)?;
/// let permit = gpus.acquire(1).await?;
/// println!("device {}, fence {}", permit.slot(), permit.fence());
/// assert!(permit.release().await.is_released());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    locker: Locker,
    shares: Arc<Shares>,
    name: LockName,
    of: u32,
}

impl Semaphore {
    /// Returns the name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Tries once to take `count` permits. Returns `None` if they are not free, or if somebody waits for permits that are not free.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// match locker.semaphore("gpu", 4)?.try_acquire(2).await? {
    ///     Some(permit) => println!("devices {:?}", permit.slots().collect::<Vec<_>>()),
    ///     None => println!("busy"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if `count` is zero or larger than the number of permits, or if
    /// the name is that of a read-write lock. Returns an error if the store fails, does not answer within the store timeout, or has no
    /// clock that its clients can ask ([`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)).
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. If the store may have granted the permits, the locker releases them in the background.
    pub async fn try_acquire(&self, count: u32) -> Result<Option<Permit>> {
        self.ask(count, Manner::Try, Moment::FAR).await
    }

    /// Waits for `count` permits without a time limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let permit = locker.semaphore("gpu", 4)?.acquire(2).await?;
    /// drop(permit); // gives both back in the background
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`try_acquire`](Self::try_acquire). If the number of permits is [lowered](Self::resize) below `count`,
    /// the wait ends with [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput).
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The locker takes the task out of the line in the background, and releases what the store may
    /// have granted.
    pub async fn acquire(&self, count: u32) -> Result<Permit> {
        let permit = self.ask(count, Manner::Wait, Moment::FAR).await?;
        // Without a time limit, waiting ends with a permit or an error; `None` would be a bug of the line.
        permit.ok_or_else(|| self.locker.unanswered())
    }

    /// Waits for `count` permits for at most `timeout`. Returns `None` if they did not become free in time. A timeout of zero tries once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let gpus = locker.semaphore("gpu", 4)?;
    /// let three = gpus.acquire(3).await?;
    /// assert!(gpus.acquire_within(2, Duration::from_millis(10)).await?.is_none());
    /// # drop(three);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`acquire`](Self::acquire). If the store gives no answer at all within `timeout`, that is an error
    /// ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)), not `None`.
    ///
    /// # Cancel safety
    /// The same as for [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        if timeout.is_zero() {
            return self.ask(count, Manner::Try, Moment::FAR).await;
        }
        let until = self.shares.clock().now() + timeout;
        self.ask(count, Manner::Wait, until).await
    }

    async fn ask(&self, count: u32, manner: Manner, until: Moment) -> Result<Option<Permit>> {
        check_count(&self.name, count)?;
        let part = Part::Permits { count, of: self.of };
        let wanted = Wanted::from(self.name.clone()).with_part(part);
        let asked = self.locker.ask_for(wanted, manner, until);
        let Some(guard) = asked.await? else {
            return Ok(None);
        };
        // A shutdown on another thread may have released them just now. Without a number, the permit would be for somebody else's device.
        match self.shares.slots_of(guard.owner()) {
            Some(slots) => Ok(Some(Permit { guard, slots })),
            None => Err(guard.lost_error()),
        }
    }

    /// Returns how many permits there are, free or not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let gpus = locker.semaphore("gpu", 4)?;
    /// gpus.resize(5).await?;
    /// // The store knows better than the argument.
    /// assert_eq!(locker.semaphore("gpu", 4)?.permits().await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error for the reasons of [`try_acquire`](Self::try_acquire), except for the number of permits.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn permits(&self) -> Result<u32> {
        let request = self.shares.permits(&self.name, self.of);
        let permits = self.locker.answer(Operation::Inspect, request).await?;
        Ok(permits.all)
    }

    /// Returns how many permits are free: neither held nor kept for a waiter whose turn it is. The number may be out of date when you see it, and
    /// [`try_acquire`](Self::try_acquire) may be refused all the same, because somebody waits for more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let gpus = locker.semaphore("gpu", 4)?;
    /// let permit = gpus.acquire(3).await?;
    /// assert_eq!(gpus.available().await?, 1);
    /// # drop(permit);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error for the reasons of [`try_acquire`](Self::try_acquire), except for the number of permits.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn available(&self) -> Result<u32> {
        let request = self.shares.permits(&self.name, self.of);
        let permits = self.locker.answer(Operation::Inspect, request).await?;
        Ok(permits.free)
    }

    /// Changes the number of permits, for everybody who uses the semaphore. On Redis, the change is forgotten when nobody has used the
    /// semaphore for a week: change the number in [`Locker::semaphore`], too.
    ///
    /// A lower number takes nothing away from those who hold permits: what they give back is not granted again until no more than
    /// `permits` are out. Whoever waits for more than there are then gets an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let gpus = locker.semaphore("gpu", 2)?;
    /// let both = gpus.acquire(2).await?;
    /// gpus.resize(1).await?;
    /// assert!(!both.is_lost());
    /// assert!(gpus.acquire(2).await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if `permits` is zero, or if the name is that of a read-write
    /// lock. Returns an error if the store fails or does not answer within the store timeout; its [effect](crate::Error::effect) says
    /// whether the number may have been changed nevertheless.
    ///
    /// # Cancel safety
    /// If the future is dropped, the number may or may not have been changed.
    pub async fn resize(&self, permits: u32) -> Result<()> {
        check_count(&self.name, permits)?;
        let request = self.shares.resize(&self.name, permits);
        self.locker.answer(Operation::ReplaceRecord, request).await
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.name)
            .field("store", &self.shares.store_name())
            .finish_non_exhaustive()
    }
}

/// One or more permits of a [`Semaphore`]. Dropping it gives them back in the background.
///
/// Each permit has a number, its *slot*, which nobody else has at the same time: the number of a device, a connection or a license. Like a
/// [`Guard`], a permit can outlive its lease. So it [signals](Self::lost) when it is lost, and each slot sees growing
/// [fences](Self::fence), with which the resource behind the slot can refuse late requests ([`credentials`](Self::credentials)).
#[must_use = "the permits are given back as soon as the value is dropped"]
pub struct Permit {
    guard: Guard,
    slots: Slots,
}

holds!(Permit);

impl Permit {
    /// Returns how many permits these are.
    pub fn count(&self) -> u32 {
        self.slots.count()
    }

    /// Returns the numbers of the permits, the lowest first. They are the lowest that were free, and below the number of permits at that time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let gpus = locker.semaphore("gpu", 4)?;
    /// let (one, two) = (gpus.acquire(1).await?, gpus.acquire(2).await?);
    /// assert!(one.slots().eq([0]) && two.slots().eq([1, 2]));
    /// # Ok(()) }
    /// ```
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter()
    }

    /// Returns the lowest of the [slots](Self::slots): the only one, if this is one permit.
    pub fn slot(&self) -> u32 {
        self.slots.iter().next().unwrap_or_default()
    }

    /// Returns each slot with the credential for the resource behind it. A fenced [`resource`](crate::resource) must keep the highest fence
    /// of each slot apart, for instance under the name `gpu#0`: a holder of slot 0 is right although slot 1 was granted later.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::resource::{FencedCell, FencedResource};
    ///
    /// let devices = [(); 4].map(|()| FencedCell::new(0));
    /// let permit = locker.semaphore("gpu", 4)?.acquire(2).await?;
    /// for (slot, credential) in permit.credentials() {
    ///     devices[slot as usize].write(credential, 7).expect("the highest fence of this slot");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn credentials(&self) -> impl Iterator<Item = (u32, Credential)> + '_ {
        let credential = self.guard.credential();
        self.slots.iter().map(move |slot| (slot, credential))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("name", self.name())
            .field("slots", &format_args!("{}", self.slots))
            .field("fence", &self.fence())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
