//! The [`Locker`]: how a call becomes a guard.
//!
//! A task that wants a lock joins the line of its name. It then either waits for its turn, or asks the store on behalf of the whole line;
//! `asking.rs` does both. The [line](crate::line) decides the order of tasks and the hand-over between them; the [keeper](crate::keeper)
//! renews leases.

mod asking;
mod builder;

pub use builder::{DEFAULT_STORE_TIMEOUT, LockerBuilder};

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::claim::LockName;
use crate::clock::{Clock, Moment, within};
use crate::engine::{Engine, SharesEngine};
use crate::error::{Error, Operation, Result};
use crate::guard::Guard;
use crate::housekeeping;
use crate::line::Manner;
use crate::shares::Shares;
use crate::telemetry::Telemetry;

/// Acquires locks in one store. Cheap to clone; all clones share the same state.
///
/// Tasks that want the same name through the same locker queue inside the process, in order of arrival. At most one of them has a request
/// at the store, and they hand the lock to each other without a round trip (see [`HandOver`](crate::HandOver)). Create *one* locker per
/// store and process, and clone it.
///
/// A locker needs a Tokio runtime with time enabled; without one, use `fencepost::blocking`. Renewals and background releases run in the
/// runtime of the first call. If that runtime ends, the next call through the locker moves them to its own runtime. Until then
/// no lease is renewed, and guards that are still alive report the loss when their lease ends.
///
/// Poll a waiting future, or drop it. A future that you keep without polling it blocks the line when its turn comes, as it would with a
/// mutex, for up to one TTL.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
/// use std::sync::Arc;
/// use fencepost::Locker;
/// use fencepost::stores::memory::Memory;
///
/// let locker = Locker::new(Arc::new(Memory::new()));
/// let guard = locker.acquire("nightly-report").await?;
/// println!("mine, fence {}", guard.fence());
/// assert!(guard.release().await.is_released());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Locker {
    engine: Arc<Engine>,
}

impl Locker {
    /// Creates a locker with default settings.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fencepost::Locker;
    /// use fencepost::stores::memory::Memory;
    ///
    /// let locker = Locker::new(Arc::new(Memory::new()));
    /// ```
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::builder(backend).build_unchecked()
    }

    /// Returns a builder, to change settings before the locker is built.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use fencepost::Locker;
    /// # use fencepost::stores::memory::Memory;
    /// let builder = Locker::builder(Arc::new(Memory::new()));
    /// let locker = builder.ttl(Duration::from_secs(30)).label("reports").build()?;
    /// assert_eq!(locker.label(), "reports");
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn builder(backend: Arc<dyn Backend>) -> LockerBuilder {
        LockerBuilder::new(backend)
    }

    /// Returns the store in which this locker takes locks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// let record = locker.backend().inspect(guard.name()).await?.expect("it is held");
    /// println!("held by {}", record.holder.expect("a holder").label);
    /// # Ok(()) }
    /// ```
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.engine.backend
    }

    /// Returns the locker for holds that never change hands inside the process and are always renewed. It is shut down together with this
    /// one.
    pub(crate) fn without_hand_over(&self) -> Self {
        Self {
            engine: self.engine.without_hand_over(),
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.engine.clock
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.engine.telemetry
    }

    pub(crate) fn shared_label(&self) -> &Arc<str> {
        &self.engine.settings.label
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.engine.settings.ttl
    }

    /// Returns the label under which the store lists this locker among holders and waiters.
    pub fn label(&self) -> &str {
        &self.engine.settings.label
    }

    pub(crate) fn store_timeout(&self) -> Duration {
        self.engine.settings.store_timeout
    }

    #[cfg(any(feature = "blocking", all(test, feature = "testing")))]
    pub(crate) fn open_errands(&self) -> Arc<crate::reaper::OpenErrands> {
        self.engine.reaper.open_errands()
    }

    /// Tries once to acquire the lock. Returns `None` if somebody else holds the lock or waits for it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// match locker.try_acquire("nightly-report").await? {
    ///     Some(guard) => println!("mine, fence {}", guard.fence()),
    ///     None => println!("somebody else is at it"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the name is invalid, the store fails, or the store does not answer within the store timeout.
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. If the store may have granted the lock, the locker releases it in the background.
    pub async fn try_acquire<N>(&self, name: N) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        self.ask_for(name, Manner::Try, Moment::FAR).await
    }

    /// Waits for the lock without a time limit, in line with the other tasks of this locker and, if the store keeps a line, with
    /// other processes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// // ... take as long as you need: the locker renews the lease ...
    /// drop(guard); // releases the lock in the background
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the name is invalid, the store fails while waiting, or the store gives no first answer within the store timeout.
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The task leaves the line at once. If the store may have granted the lock, the lock goes to
    /// the next task in line, or the locker releases it in the background.
    pub async fn acquire<N>(&self, name: N) -> Result<Guard>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let guard = self.ask_for(name, Manner::Wait, Moment::FAR).await?;
        // Without a time limit, waiting ends with a guard or an error; `None` would be a bug of the line.
        guard.ok_or_else(|| self.unanswered())
    }

    /// Waits for the lock for at most `timeout`. Returns `None` if the lock did not become free in time. A timeout of zero tries once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let first = locker.acquire("nightly-report").await?;
    /// let second = locker.acquire_within("nightly-report", Duration::from_millis(10)).await?;
    /// assert!(second.is_none());
    /// # drop(first);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`acquire`](Self::acquire). If the store gives no answer at all within `timeout`, that is an error
    /// ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)), not `None`.
    ///
    /// # Cancel safety
    /// The same as for [`acquire`](Self::acquire).
    pub async fn acquire_within<N>(&self, name: N, timeout: Duration) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        if timeout.is_zero() {
            return self.ask_for(name, Manner::Try, Moment::FAR).await;
        }
        let until = self.engine.clock.now() + timeout;
        self.ask_for(name, Manner::Wait, until).await
    }

    /// Shuts down this locker and its clones, and releases everything they hold.
    ///
    /// New calls and waiting tasks get [`ErrorKind::Closed`](crate::ErrorKind::Closed), and guards that are still alive are
    /// [lost](crate::LostReason::Shutdown). Returns when the store has confirmed the releases, or after twice the store timeout. Outside a
    /// Tokio runtime, it does not wait: the releases continue in the background if the runtime of the locker still runs, and otherwise the
    /// leases end after their TTL.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// locker.shutdown().await;
    /// assert!(guard.is_lost());
    /// assert!(locker.acquire("nightly-report").await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the locker is closed nevertheless, and the releases continue in the background. Call it again to wait for
    /// them.
    pub async fn shutdown(&self) {
        let runtime = self.engine.runtime(Operation::Release);
        if let Ok(runtime) = &runtime {
            for engine in std::iter::once(&self.engine).chain(self.engine.siblings()) {
                housekeeping::ensure_running(engine, runtime);
            }
        }
        self.engine.close();
        let clock = &*self.engine.clock;
        let until = clock.now() + self.engine.settings.store_timeout * 2;
        let errands = self.engine.reaper.open_errands();
        let all_released = match runtime {
            Ok(_) => within(clock, until, errands.done()).await.is_some(),
            Err(_no_runtime) => !self.engine.reaper.is_busy(),
        };
        if !all_released {
            tracing::warn!("shut down before the store had confirmed every release");
        }
        self.engine.stop_keeper();
    }

    /// Returns the locker of the semaphores and read-write locks of this locker, and its backend.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store keeps no records.
    pub(crate) fn shares(&self) -> Result<(Self, Arc<Shares>)> {
        let SharesEngine { engine, shares } = self.engine.shares();
        shares.check_supported()?;
        let engine = engine.clone();
        Ok((Self { engine }, shares.clone()))
    }

    /// Returns the answer to a request that does not ask for a lock.
    ///
    /// # Errors
    /// Returns an error if the locker was shut down, there is no runtime, or the store fails or does not answer within the store timeout.
    pub(crate) async fn answer<T>(
        &self,
        operation: Operation,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let engine = &self.engine;
        engine.runtime_if_open()?;
        let until = engine.clock.now() + engine.settings.store_timeout;
        let answer = within(&*engine.clock, until, request).await;
        answer.unwrap_or_else(|| Err(engine.unanswered(operation)))
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker")
            .field("store", &self.engine.backend.store_name())
            .field("settings", &self.engine.settings)
            .finish_non_exhaustive()
    }
}
