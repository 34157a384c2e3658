//! The guard: proof of a hold, for as long as it can honestly be one.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::backend::Renewal;
use crate::claim::{Claim, LockName, OwnerId};
use crate::clock::{Moment, within};
use crate::credential::Credential;
use crate::engine::{Hold, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::lease::{Lost, LostReason};
use crate::ttl::check_ttl;

/// A lock that is held.
///
/// It is a value, not a thread's property: it can move to another task, and whoever owns it holds the lock. It gives the
/// lock back when it is dropped (in the background) or by [`release`](Self::release) (which can say how that went).
///
/// A guard can outlive its lock: the store may be unreachable, the process may be stopped and continued. So it knows
/// [how long](Self::valid_for) it is good for, [says](Self::lost) when it is not, and carries a [fence](Self::fence) with which the protected
/// resource can refuse what comes late.
///
/// Giving back more often than taking is not possible: `release` consumes the guard.
///
/// ```compile_fail
/// # async fn twice(guard: fencepost::Guard) {
/// let _outcome = guard.release().await;
/// let _outcome = guard.release().await; // use of moved value
/// # }
/// ```
#[must_use = "the lock is given back as soon as the guard is dropped"]
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

    /// Whether somebody else had the lock when it was asked for: another task, or, as far as the store has said so, another process.
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

    /// When the lock became this guard's.
    pub(crate) fn since(&self) -> Moment {
        self.hold.since
    }

    /// The name of the lock.
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

    /// The fencing token of this hold: larger than that of every earlier hold of this name.
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

    /// Who holds the lock at the store. Tasks of one process that hand a lock over to each other share an owner; their
    /// fences differ.
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

    /// Fence and owner: what a fenced [`resource`](crate::resource) asks for.
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

    /// How much longer nobody else can hold the lock, even if every renewal fails from now on. Zero once lost.
    ///
    /// Measured from before the store was asked, less a margin for clock drift (a hundredth of the TTL and 2 ms), on a
    /// clock that also runs while the machine sleeps.
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

    /// Whether the lock is lost. Never turns false again.
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

    /// How many renewals in a row have failed so far, and what the last one said; `None` while they succeed.
    ///
    /// Not a loss: the lock is held for as long as [`valid_for`](Self::valid_for) says. Whoever needs time to stop begins before
    /// that is over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let guard = locker.acquire("nightly-report").await?;
    /// if let Some((failures, error)) = guard.renewal_trouble() {
    ///     println!("{failures} renewals failed, {:?} left: {error}", guard.valid_for());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn renewal_trouble(&self) -> Option<(u32, Error)> {
        self.hold.lease.trouble()
    }

    /// Completes when the lock is lost, and says why.
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
    /// # Cancel safety
    /// Dropping the future has no effect; call it as often as you like.
    pub async fn lost(&self) -> Lost {
        let Hold { engine, lease, .. } = &*self.hold;
        let lost = lease.until_lost(&*engine.clock).await;
        // The line learns of it now, rather than when the keeper looks next.
        engine.lose(lease, lost.reason());
        lost
    }

    /// Runs `work` while the lock is held, and drops it at the loss.
    ///
    /// Validity is looked at before every poll of `work`, so that a process that was stopped and continued does not take
    /// another step. What `work` has spawned elsewhere, or has already sent, cannot be stopped: let the resource
    /// check the [fence](Self::fence).
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
    /// [`Lost`] when the lock was lost before `work` was done, or by the time it was done. It may have taken effect in part
    /// or as a whole.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work` and leaves the lock held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        while_held(self.lost(), || self.lost_now(), work).await
    }

    pub(crate) fn lost_now(&self) -> Option<Lost> {
        self.hold.lost_now()
    }

    /// Makes the lease last at least `ttl` from now on; never shortens it. With keep-alive on there is rarely a need.
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
    /// [`ErrorKind::Lost`] when the lock is lost; [`ErrorKind::InvalidInput`] for a TTL out of range; otherwise what the store said: the
    /// lock is then held as long as before, or longer.
    ///
    /// # Cancel safety
    /// If dropped, the lease may or may not have been extended; it is held as before.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        check_ttl(ttl)?;
        let Hold { engine, lease, .. } = &*self.hold;
        if self.is_lost() {
            return Err(self.lost_error());
        }
        let claim = Claim {
            ttl,
            ..lease.claim.clone()
        };
        let asked_at = engine.clock.now();
        let until = asked_at + engine.settings.store_timeout;
        let claims = [claim];
        let answers = within(&*engine.clock, until, engine.backend.renew(&claims)).await;
        match answers.and_then(|answers| answers.into_iter().next()) {
            Some(Ok(Renewal::Extended)) => lease.renewed(asked_at, ttl),
            Some(Ok(Renewal::Lost)) => engine.lose(lease, LostReason::Gone),
            Some(Err(error)) => return Err(error),
            None => return Err(engine.unanswered(Operation::Renew)),
        }
        // The answer may have come after the end of the validity.
        match self.is_lost() {
            true => Err(self.lost_error()),
            false => Ok(()),
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn clock(&self) -> Arc<dyn crate::clock::Clock> {
        self.hold.engine.clock.clone()
    }

    fn lost_error(&self) -> Error {
        let store = self.hold.engine.backend.store();
        Error::new(ErrorKind::Lost, store, Operation::Renew, "the lock is lost")
    }

    /// Another guard of the same hold, for code that must hold the lock as well: re-entry, made explicit. Same fence, same
    /// owner; the lock goes back when the last of them does.
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

    /// Gives the lock back and says how that went.
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
    /// If dropped, the release goes on in the background, as when the guard itself is dropped.
    pub async fn release(self) -> ReleaseOutcome {
        match Arc::into_inner(self.hold) {
            Some(hold) => hold.release().await,
            None => ReleaseOutcome::StillHeld,
        }
    }
}

/// Polls `work` until it is done, or until `lost` is, or until `lost_now` says so.
pub(crate) async fn while_held<F: Future>(
    lost: impl Future<Output = Lost>,
    lost_now: impl Fn() -> Option<Lost>,
    work: F,
) -> Result<F::Output, Lost> {
    let mut lost = pin!(lost);
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        if let Poll::Ready(lost) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(lost));
        }
        // After a suspend, timers are late; the clock is not.
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
