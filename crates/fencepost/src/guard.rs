//! [`Guard`]: a held lock with its fence, its validity, and a signal when it is lost.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::backend::Renewal;
use crate::claim::{Claim, LockName, OwnerId};
use crate::clock::{Clock, Moment, within};
use crate::credential::Credential;
use crate::engine::{Engine, Hold, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::lease::{FailedRenewals, Lease, Lost, LostReason};
use crate::ttl::check_ttl;

/// A lock that is held.
///
/// A guard is a value and does not belong to a thread: you can move it to another task, and whoever owns it holds the lock. Dropping it
/// releases the lock in the background; [`release`](Self::release) waits for the release and returns its outcome.
///
/// A guard can outlive its lock, for example when the store is unreachable or the process was stopped and continued. It therefore knows how
/// long it is [valid](Self::valid_for), [signals](Self::lost) when the lock is lost, and carries a [fence](Self::fence) with which the
/// protected resource can refuse late requests.
///
/// A lock cannot be released twice: `release` consumes the guard.
///
/// ```compile_fail
/// # async fn twice(guard: fencepost::Guard) {
/// let _outcome = guard.release().await;
/// let _outcome = guard.release().await; // use of moved value
/// # }
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    hold: Arc<Hold>,
    was_contended: bool,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>, was_contended: bool) -> Self {
        Self {
            hold,
            was_contended,
        }
    }

    /// Returns whether somebody else had the lock when this task asked for it: another task or, if the store reported it, another process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// assert!(!guard.was_contended());
    /// # Ok(()) }
    /// ```
    pub fn was_contended(&self) -> bool {
        self.was_contended
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// assert_eq!(guard.name().as_str(), "nightly-report");
    /// # Ok(()) }
    /// ```
    pub fn name(&self) -> &LockName {
        &self.hold.lease.claim.name
    }

    /// Returns the fencing token of this hold. It is larger than the token of every earlier hold of this name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// let earlier = guard.fence();
    /// drop(guard);
    /// let guard = locker.acquire("nightly-report").await?;
    /// assert!(guard.fence() > earlier);
    /// # Ok(()) }
    /// ```
    pub fn fence(&self) -> Fence {
        self.hold.fence
    }

    /// Returns the owner of the lease at the store. Tasks of one process that hand a lock over to each other share an owner; their fences
    /// differ.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// println!("{} at the store", guard.owner());
    /// # Ok(()) }
    /// ```
    pub fn owner(&self) -> OwnerId {
        self.hold.lease.claim.owner
    }

    /// Returns the fence and the owner, which a fenced [`resource`](crate::resource) checks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::resource::{FencedCell, FencedResource};
    ///
    /// let stock = FencedCell::new(3);
    /// let guard = locker.acquire("nightly-report").await?;
    /// stock.write(guard.credential(), 2).expect("the largest fence so far");
    /// # Ok(()) }
    /// ```
    pub fn credential(&self) -> Credential {
        Credential::new(self.fence(), self.owner())
    }

    /// Returns how much longer the lock is held if every renewal fails from now on. Nobody else can hold it during this time, unless the
    /// store loses its data or somebody releases the lock by force; then only the [fence](Self::fence) protects the resource. Returns zero
    /// if the lock is lost.
    ///
    /// The time counts from before the request was sent to the store, minus a margin for clock drift (1 % of the lease plus 2 ms), on a
    /// clock that also runs while the machine sleeps (on [Linux and Android](crate#platforms)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let guard = locker.acquire("nightly-report").await?;
    /// // Enough time left for one more step?
    /// assert!(guard.valid_for() > Duration::from_secs(1));
    /// # Ok(()) }
    /// ```
    pub fn valid_for(&self) -> Duration {
        self.hold.lease.left(self.hold.engine.clock.now())
    }

    /// Returns whether the lock is lost. Once this returns `true`, it never returns `false` again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// for page in 1..=3 {
    ///     if guard.is_lost() {
    ///         break;
    ///     }
    ///     println!("page {page}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
    ///
    /// A failed renewal does not lose the lock, which is held for as long as [`valid_for`](Self::valid_for) says. If your work needs time
    /// to stop, start to stop it before then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// if let Some(failed) = guard.failed_renewals() {
    ///     println!("{} renewals failed, {:?} left: {}", failed.count, guard.valid_for(), failed.last_error);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.hold.lease.failed_renewals()
    }

    /// Completes when the lock is lost, with the reason.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn write_report() {}
    /// let guard = locker.acquire("nightly-report").await?;
    /// tokio::select! {
    ///     () = write_report() => println!("done"),
    ///     lost = guard.lost() => println!("stopped: {lost}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while the lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect. You can call this any number of times.
    pub async fn lost(&self) -> Lost {
        let Hold { engine, lease, .. } = &*self.hold;
        let lost = lease.until_lost(&*engine.clock).await;
        // Tell the line now instead of at the keeper's next check.
        engine.lose(lease, lost.reason());
        lost
    }

    /// Runs `work` while the lock is held, and drops it if the lock is lost.
    ///
    /// Checks the validity before every poll of `work`, so that a process that was stopped and continued does not take another step. This
    /// cannot stop tasks that `work` has spawned or requests it has already sent; let the resource check the [fence](Self::fence) of those.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn write_report() -> u32 { 12 }
    /// let guard = locker.acquire("nightly-report").await?;
    /// match guard.run(write_report()).await {
    ///     Ok(pages) => println!("{pages} pages"),
    ///     Err(lost) => println!("stopped: {lost}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`Lost`] if the lock was lost before `work` completed, or by the time it completed. `work` may have taken effect partly or
    /// completely.
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while the lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        while_held(self.lost(), || self.lost_now(), work).await
    }

    pub(crate) fn lost_now(&self) -> Option<Lost> {
        self.hold.lost_now()
    }

    /// Ends this hold without a request: another hold has replaced its lease at the store.
    pub(crate) fn was_replaced(self) {
        self.leave();
    }

    /// Ends this hold at `limit`, however often the lease is renewed. The hold was just granted, and nobody relies on its validity yet.
    pub(crate) fn limit_to(&self, limit: Moment) {
        self.hold.lease.limit_to(limit);
    }

    /// Extends the lease so that it lasts at least `ttl` from now on. Never shortens it. With keep-alive this is rarely necessary.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let guard = locker.acquire("nightly-report").await?;
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.valid_for() > Duration::from_secs(50));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::Lost`] if the lock is lost, [`ErrorKind::InvalidInput`] if the TTL is out of range,
    /// [`ErrorKind::WrongContext`] outside a Tokio runtime, and otherwise the error of the store. After an error of the store the lock is
    /// held for as long as before, or longer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease may or may not have been extended. The lock stays held.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        check_ttl(ttl)?;
        let Hold { engine, lease, .. } = &*self.hold;
        self.check_held()?;
        engine.runtime(Operation::Renew)?;
        let claim = Claim {
            ttl,
            ..lease.claim.clone()
        };
        let asked_at = engine.clock.now();
        lease.record_requested_ttl(ttl);
        let until = asked_at + engine.settings.store_timeout;
        let claims = [claim];
        let answers = within(&*engine.clock, until, engine.backend.renew(&claims)).await;
        match answers.and_then(|answers| answers.into_iter().next()) {
            Some(Ok(Renewal::Extended)) if lease.renewed(asked_at, ttl, engine.clock.now()) => {
                // Only now: nobody repeats a request that fails, and a doubt must not be forgotten with it.
                lease.record_request_at(asked_at);
                Ok(())
            }
            // The answer arrived after the validity had ended.
            Some(Ok(Renewal::Extended)) => {
                engine.lose(lease, LostReason::Expired);
                Err(self.lost_error())
            }
            Some(Ok(Renewal::Lost)) => {
                engine.lose(lease, LostReason::Gone);
                Err(self.lost_error())
            }
            Some(Err(error)) => Err(error),
            None => Err(engine.unanswered(Operation::Renew)),
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn clock(&self) -> Arc<dyn crate::clock::Clock> {
        self.hold.engine.clock.clone()
    }

    /// Returns an error if the lock is lost.
    pub(crate) fn check_held(&self) -> Result<()> {
        if self.is_lost() {
            return Err(self.lost_error());
        }
        Ok(())
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.hold.lease.claim
    }

    /// Returns a handle with which to lose the lock on purpose. It does not hold the lock.
    pub(crate) fn loss_handle(&self) -> LossHandle {
        LossHandle {
            engine: self.hold.engine.clone(),
            lease: self.hold.lease.clone(),
        }
    }

    pub(crate) fn lost_error(&self) -> Error {
        let store = self.hold.engine.backend.store_name();
        let message = format!("the lock {} is lost", self.name());
        let error = Error::new(ErrorKind::Lost, store, Operation::Renew, message);
        match self.lost_now() {
            Some(lost) => error.with_source(lost),
            None => error,
        }
    }

    /// Returns another guard of the same hold, for code that needs to hold the lock too (explicit re-entry). It has the same fence and the
    /// same owner. The lock is released when the last of these guards is released or dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::ReleaseOutcome;
    ///
    /// let guard = locker.acquire("nightly-report").await?;
    /// let inner = guard.reenter();
    /// assert!(matches!(guard.release().await, ReleaseOutcome::StillHeld));
    /// assert!(inner.release().await.is_released());
    /// # Ok(()) }
    /// ```
    pub fn reenter(&self) -> Self {
        Self {
            hold: self.hold.clone(),
            was_contended: self.was_contended,
        }
    }

    /// Stops renewing the lock, and leaves it to end by itself: nobody else gets it before the lease ends, not even a task of this process.
    /// [`extend`](Self::extend) the lease before, if it should last longer than the TTL. In ZooKeeper and with Postgres' advisory locks, it also
    /// ends when the connection of this process does.
    ///
    /// If another guard from [`reenter`](Self::reenter) is still alive, this only drops the guard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// guard.leave();
    /// assert!(locker.try_acquire("nightly-report").await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn leave(self) {
        if let Some(hold) = Arc::into_inner(self.hold) {
            hold.leave();
        }
    }

    /// Releases the lock, and returns the outcome. Outside a Tokio runtime, the release continues in the background, and the outcome is
    /// [`Unknown`](ReleaseOutcome::Unknown).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::ReleaseOutcome;
    ///
    /// let guard = locker.acquire("nightly-report").await?;
    /// match guard.release().await {
    ///     ReleaseOutcome::AlreadyLost => println!("somebody else may have been at it, too"),
    ///     outcome => println!("{outcome:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the release continues in the background, as it does when the guard is dropped.
    pub async fn release(self) -> ReleaseOutcome {
        match Arc::into_inner(self.hold) {
            Some(hold) => hold.release().await,
            None => ReleaseOutcome::StillHeld,
        }
    }
}

/// Loses a lock on purpose. It does not hold the lock.
pub(crate) struct LossHandle {
    engine: Arc<Engine>,
    lease: Arc<Lease>,
}

impl LossHandle {
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.engine.clock
    }

    /// Tells the holder that the lock is lost. It is renewed no more, and released when the guard is dropped.
    pub(crate) fn lose(&self, reason: LostReason) {
        self.engine.lose(&self.lease, reason);
    }

    /// Completes when the lock is lost.
    pub(crate) async fn lost(&self) {
        self.lease.until_lost(self.clock()).await;
    }
}

/// Polls `work` until it completes, `lost` completes, or `lost_now` returns a loss.
pub(crate) async fn while_held<F: Future, L>(
    lost: impl Future<Output = L>,
    lost_now: impl Fn() -> Option<L>,
    work: F,
) -> Result<F::Output, L> {
    let mut lost = pin!(lost);
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        if let Poll::Ready(lost) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(lost));
        }
        // After a suspend, timers fire late; the clock is correct.
        if let Some(lost) = lost_now() {
            return Poll::Ready(Err(lost));
        }
        match work.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(output) => Poll::Ready(match lost_now() {
                Some(lost) => Err(lost),
                None => Ok(output),
            }),
        }
    })
    .await
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("fence", &self.fence())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
