//! The guard: proof of a hold, for as long as it can honestly be one.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::backend::Renewal;
use crate::claim::{Claim, LockName, OwnerId};
use crate::clock::Moment;
use crate::engine::{Ending, Engine, within};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::lease::{Lease, Lost, LostReason};
use crate::locker::check_ttl;
use crate::resource::Pass;

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
/// guard.release().await;
/// guard.release().await; // use of moved value
/// # }
/// ```
#[must_use = "the lock is given back as soon as the guard is dropped"]
pub struct Guard {
    hold: Arc<Hold>,
}

/// One hold, shared by a guard and those cloned from it by [`Guard::reenter`]. The last one out gives it back.
struct Hold {
    engine: Arc<Engine>,
    lease: Arc<Lease>,
    fence: Fence,
    since: Moment,
    was_taken: AtomicBool,
    ended: bool,
}

/// How giving back a lock went.
#[derive(Debug, Clone)]
#[must_use]
pub enum ReleaseOutcome {
    /// The lock was held until now, and is not any more: it went back to the store, or to the next task in line.
    Released,
    /// Another guard made by [`Guard::reenter`] is still alive: the lock goes back with the last one.
    StillHeld,
    /// The lock had been lost before. What was done under it lately may not have been exclusive.
    AlreadyLost,
    /// The store did not say. The release is tried again in the background, and the TTL ends the lease in any case.
    Unknown(Error),
}

impl ReleaseOutcome {
    /// The lock was held up to the release.
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released)
    }
}

impl Guard {
    pub(crate) fn new(engine: Arc<Engine>, lease: Arc<Lease>, fence: Fence, since: Moment) -> Self {
        Self {
            hold: Arc::new(Hold {
                engine,
                lease,
                fence,
                since,
                was_taken: AtomicBool::new(false),
                ended: false,
            }),
        }
    }

    /// Whether the lock was somebody else's when it was asked for: another task's, or, as far as the store has said so, another process's.
    pub fn was_taken(&self) -> bool {
        self.hold.was_taken.load(Ordering::Relaxed)
    }

    pub(crate) fn met_somebody(self) -> Self {
        self.hold.was_taken.store(true, Ordering::Relaxed);
        self
    }

    /// When the lock became this guard's.
    pub(crate) fn since(&self) -> Moment {
        self.hold.since
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        &self.hold.lease.claim.name
    }

    /// The fencing token of this hold: larger than that of every earlier hold of this name.
    pub fn fence(&self) -> Fence {
        self.hold.fence
    }

    /// Who holds the lock at the store. Tasks of one process that hand a lock over to each other share an owner; their
    /// fences differ.
    pub fn owner(&self) -> OwnerId {
        self.hold.lease.claim.owner
    }

    /// What a fenced [`resource`](crate::resource) asks for.
    pub fn pass(&self) -> Pass {
        Pass::new(self.fence(), self.owner())
    }

    /// How much longer nobody else can hold the lock, even if every renewal fails from now on. Zero once lost.
    ///
    /// Measured from before the store was asked, less a margin for clock drift (a hundredth of the TTL and 2 ms), on a
    /// clock that also runs while the machine sleeps.
    pub fn valid_for(&self) -> Duration {
        self.hold.lease.left(self.hold.engine.clock.now())
    }

    /// Whether the lock is lost. Never turns false again.
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// How many renewals in a row have failed so far, and what the last one said; `None` while they succeed.
    ///
    /// Not a loss: the lock is held for as long as [`valid_for`](Self::valid_for) says. Whoever needs time to stop begins before
    /// that is over.
    pub fn renewal_trouble(&self) -> Option<(u32, Error)> {
        self.hold.lease.trouble()
    }

    /// Completes when the lock is lost, and says why.
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
    pub fn reenter(&self) -> Self {
        Self {
            hold: self.hold.clone(),
        }
    }

    /// Gives the lock back and says how that went.
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

impl Hold {
    fn is_lost(&self) -> bool {
        self.lost_now().is_some()
    }

    fn lost_now(&self) -> Option<Lost> {
        self.lease.lost_at(self.engine.clock.now()).cloned()
    }

    async fn release(mut self) -> ReleaseOutcome {
        match self.end() {
            Ending::HandedOver => ReleaseOutcome::Released,
            Ending::Release { next } => {
                self.engine.deliver_drive(next);
                self.engine.release_now(&self.lease.claim).await
            }
            Ending::NotHeld => ReleaseOutcome::AlreadyLost,
        }
    }

    fn end(&mut self) -> Ending {
        self.ended = true;
        let now = self.engine.clock.now();
        self.engine.telemetry.held(now.since(self.since));
        if let Some(lost) = self.lease.lost_at(now) {
            self.engine.lose(&self.lease, lost.reason());
            if lost.reason() != LostReason::Shutdown {
                // The store's lease ends a margin later than ours, and a store of several servers may still have a lease
                // that is gone from most of them. Others cannot be hit: the store compares owners.
                self.engine.reaper.give_back(self.lease.claim.clone());
            }
            return Ending::NotHeld;
        }
        self.engine.hold_done(&self.lease, now)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.ended
            && let Ending::Release { next } = self.end()
        {
            // In this order: the next one's question then mostly finds the lock free, instead of waiting at the store.
            self.engine.reaper.give_back(self.lease.claim.clone());
            self.engine.deliver_drive(next);
        }
    }
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
