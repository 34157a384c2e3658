//! The locker: taking a lock, from the question to the guard.
//!
//! What a task does here: it joins the line of its name and waits for its turn, or asks the store for the whole line (`asking.rs`). The order of
//! tasks and the hand-over between them is the [line](crate::line)'s, renewal is the [keeper](crate::keeper)'s.

mod asking;
mod builder;

pub use builder::{DEFAULT_STORE_TIMEOUT, LockerBuilder};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::backend::Backend;
use crate::claim::LockName;
use crate::clock::{Moment, within};
use crate::engine::{Engine, Entry, Queued, Turn};
use crate::error::{Error, Operation, Result};
use crate::guard::Guard;
use crate::housekeeping;
use crate::line::Manner;

/// Takes locks in one store. Cheap to clone; clones share everything.
///
/// Tasks that want the same name through the same locker queue inside the process, in order, behind at most one request at
/// the store, and hand the lock to each other without a round trip (see [`HandOver`](crate::HandOver)). So use *one* locker per store and
/// process, and clone it.
///
/// Needs a Tokio runtime with time enabled; without one, see `fencepost::blocking`. Renewals and background releases run in
/// the runtime that made the first call. If that runtime ends, the next call through the locker moves them to its own;
/// until then nothing is renewed, and guards that are alive elsewhere end with their lease, and say so.
///
/// A future that waits must be polled or dropped. One that is neither when its turn comes holds up the line, as it would
/// with a mutex, for up to a TTL.
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
    /// A locker with default settings.
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

    /// Settings to change before building.
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

    /// The store this locker takes locks in.
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

    /// What the store calls this locker among holders and waiters.
    pub fn label(&self) -> &str {
        &self.engine.settings.label
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn store_timeout(&self) -> Duration {
        self.engine.settings.store_timeout
    }

    #[cfg(any(feature = "blocking", all(test, feature = "testing")))]
    pub(crate) fn errands(&self) -> crate::reaper::Errands {
        self.engine.reaper.errands()
    }

    /// Tries once. Returns `None` if somebody else holds the lock, or waits for it.
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
    /// Returns an error if the name is invalid, the store fails, or it does not answer within the store timeout.
    ///
    /// # Cancel safety
    /// Dropping the future is safe at every point: what the store may have granted is given back in the background.
    pub async fn try_acquire<N>(&self, name: N) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        self.enter(name, Manner::Try, Moment::FAR).await
    }

    /// Waits for the lock as long as it takes, in line with the other tasks of this locker and, where the store can, with
    /// other processes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// // ... as long as it takes: the lease is renewed meanwhile ...
    /// drop(guard); // given back in the background
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the name is invalid, the store fails while waiting, or it gives no first answer within the store timeout.
    ///
    /// # Cancel safety
    /// Dropping the future is safe at every point: the task leaves the line at once, and what the store may have granted
    /// goes to the next in line or is given back in the background.
    pub async fn acquire<N>(&self, name: N) -> Result<Guard>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let guard = self.enter(name, Manner::Wait, Moment::FAR).await?;
        guard.ok_or_else(|| self.unanswered())
    }

    /// Waits for the lock for at most `timeout`. Returns `None` if it was not free in time. A timeout of zero tries once.
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
    /// As [`acquire`](Self::acquire). A store that gave no answer at all within `timeout` is an error
    /// ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)), not `None`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within<N>(&self, name: N, timeout: Duration) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        if timeout.is_zero() {
            return self.enter(name, Manner::Try, Moment::FAR).await;
        }
        let until = self.engine.clock.now() + timeout;
        self.enter(name, Manner::Wait, until).await
    }

    /// Ends this locker and its clones: newcomers and those who wait get [`ErrorKind::Closed`](crate::ErrorKind::Closed), guards that are alive are
    /// [lost](crate::LostReason::Shutdown), and everything is given back to the store. Returns when that is done, or when the store has
    /// not answered for twice the store timeout.
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
    /// If dropped, the locker is closed all the same; giving back goes on in the background. Call it again to wait.
    pub async fn shutdown(&self) {
        // Without a runtime there is nobody to give anything back; the leases then end by their TTL.
        let _no_runtime = housekeeping::hire(&self.engine);
        self.engine.close();
        let clock = &*self.engine.clock;
        let until = clock.now() + self.engine.settings.store_timeout * 2;
        if within(clock, until, self.engine.reaper.errands().done())
            .await
            .is_none()
        {
            tracing::warn!("shut down before the store had confirmed every release");
        }
        self.engine.dismiss();
    }

    pub(crate) fn unanswered(&self) -> Error {
        self.engine.unanswered(Operation::Acquire)
    }

    pub(crate) async fn enter(
        &self,
        name: LockName,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Guard>> {
        let span = tracing::debug_span!("acquire", store = self.engine.backend.store(), %name);
        let telemetry = &self.engine.telemetry;
        let asked_at = telemetry.is_heard.then(|| self.engine.clock.now());
        let result = self.take(name, manner, until).instrument(span).await;
        match &result {
            Ok(Some(guard)) => telemetry.granted(asked_at.map(|at| guard.since().since(at))),
            Ok(None) => telemetry.busy(),
            Err(_) => telemetry.failed(),
        }
        result
    }

    async fn take(&self, name: LockName, manner: Manner, until: Moment) -> Result<Option<Guard>> {
        housekeeping::ready(&self.engine)?;
        match self.engine.join(name, manner) {
            Entry::Closed => Err(self.engine.closed_error()),
            Entry::Busy => {
                self.engine.telemetry.contended();
                Ok(None)
            }
            Entry::Drive(duty) => {
                let wait = duty.drive().wait.clone();
                let hold = self.ask(duty, manner, until).await?;
                let was_contended = wait.was_heard() || hold.is_none();
                if was_contended {
                    self.engine.telemetry.contended();
                }
                Ok(hold.map(|hold| Guard::new(hold, was_contended)))
            }
            Entry::Queued(queued) => {
                self.engine.telemetry.contended();
                let hold = match self.wait_in_line(queued, until).await? {
                    Some(Turn::Granted(hold)) => Some(hold),
                    Some(Turn::Drive(duty)) => self.ask(*duty, manner, until).await?,
                    Some(Turn::Failed(error)) => return Err(error),
                    Some(Turn::Refused) | None => None,
                };
                Ok(hold.map(|hold| Guard::new(hold, true)))
            }
        }
    }

    /// `None`: not in time.
    async fn wait_in_line(&self, mut queued: Queued<'_>, until: Moment) -> Result<Option<Turn>> {
        let turn = match until {
            Moment::FAR => Some(queued.turn().await),
            until => within(&*self.engine.clock, until, queued.turn()).await,
        };
        match turn {
            Some(Some(turn)) => Ok(Some(turn)),
            // A line never drops a seat without a word, except when the whole locker goes.
            Some(None) => Err(self.engine.closed_error()),
            None if queued.store_was_heard() => Ok(None),
            None => Err(self.engine.unanswered(Operation::Acquire)),
        }
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker")
            .field("store", &self.engine.backend.store())
            .field("settings", &self.engine.settings)
            .finish_non_exhaustive()
    }
}
