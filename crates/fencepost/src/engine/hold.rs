//! One hold of a lock, and what happens to the lock when it ends.

use std::sync::Arc;

use super::{Engine, Turn, TurnSender};
use crate::backend::Release;
use crate::claim::Claim;
use crate::clock::{Moment, within};
use crate::error::{Error, Operation};
use crate::fence::Fence;
use crate::lease::{Lease, Lost, LostReason};
use crate::line::{Done, HandOver, StoreRequest};

/// The outcome of releasing a lock.
///
/// The variants are complete on purpose, so that a `match` needs no wildcard: a new variant would be a breaking change.
#[derive(Debug, Clone)]
#[must_use]
pub enum ReleaseOutcome {
    /// The lock was held until the release. It went back to the store or to the next task in line.
    Released,
    /// Another guard from [`Guard::reenter`](crate::Guard::reenter) is still alive; the lock is released with the last one.
    StillHeld,
    /// The lock had been lost before. The latest work under it may not have been exclusive.
    AlreadyLost,
    /// The store did not answer, or there was no runtime to wait in. The release is tried again in the background, and the lease ends
    /// after its TTL in any case.
    Unknown(Error),
}

impl ReleaseOutcome {
    /// Returns whether this is [`Released`](Self::Released): the lock was held until now, and this call gave it back.
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released)
    }
}

/// What happens to the lock when a hold ends.
enum Ending {
    HandedOver,
    /// The caller must end the lease at the store, and let this task ask again.
    Release {
        next: Option<(TurnSender, StoreRequest)>,
    },
    /// The lock had been lost before.
    NotHeld,
}

/// One hold. Dropping it releases the lock, or hands it on.
pub(crate) struct Hold {
    pub(crate) engine: Arc<Engine>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) fence: Fence,
    /// When this hold got the lock.
    pub(crate) since: Moment,
    ended: bool,
}

impl Hold {
    pub(super) fn new(
        engine: Arc<Engine>,
        lease: Arc<Lease>,
        fence: Fence,
        since: Moment,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            lease,
            fence,
            since,
            ended: false,
        })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost_now().is_some()
    }

    pub(crate) fn lost_now(&self) -> Option<Lost> {
        self.lease.lost_at(self.engine.clock.now()).cloned()
    }

    pub(crate) async fn release(mut self) -> ReleaseOutcome {
        match self.end_as_usual() {
            Ending::HandedOver => ReleaseOutcome::Released,
            Ending::Release { next } => {
                if let Err(error) = self.engine.runtime(Operation::Release) {
                    self.release_in_background(next);
                    return ReleaseOutcome::Unknown(error);
                }
                // Before the first await, because this future may be dropped there, and because the next task must not wait for a release
                // that is not answered. The release is usually sent first all the same: this task goes on without a pause.
                self.engine.deliver_duty(next);
                self.release_now().await
            }
            Ending::NotHeld => ReleaseOutcome::AlreadyLost,
        }
    }

    /// Ends this hold without a request to the store, and hands it to nobody: its lease ends by itself, or another one has replaced it.
    pub(crate) fn leave(mut self) {
        let nobody = HandOver::default().max_turns(0);
        if let Ending::Release { next } = self.end(&nobody) {
            self.engine.deliver_duty(next);
        }
    }

    fn end_as_usual(&mut self) -> Ending {
        let limits = self.engine.settings.hand_over;
        self.end(&limits)
    }

    fn end(&mut self, limits: &HandOver) -> Ending {
        self.ended = true;
        let now = self.engine.clock.now();
        self.engine
            .telemetry
            .held(now.saturating_duration_since(self.since));
        if let Some(lost) = self.lease.lost_at(now) {
            self.engine.lose(&self.lease, lost.reason());
            if lost.reason() != LostReason::Shutdown {
                // The store's lease ends a margin later than ours, and a store of several servers may still have a lease that most of its
                // servers have lost. This cannot affect others, because the store compares owners.
                self.engine.reaper.give_back(self.lease.claim_to_release());
            }
            return Ending::NotHeld;
        }
        self.hand_over(now, limits)
    }

    /// Hands the lock to the next task in line, if the limits allow it.
    fn hand_over(&self, now: Moment, limits: &HandOver) -> Ending {
        let (engine, lease) = (&self.engine, &self.lease);
        let new_claim = || engine.new_claim(&lease.claim.name);
        let done = engine.with_line(&lease.claim, |line| {
            line.done(lease.claim.owner, now, limits, new_claim)
        });
        match done {
            Some(Done::HandOver { to, seq }) => {
                engine.telemetry.handed_over();
                engine.deliver(to, Turn::Granted(engine.hold(lease.clone(), seq, now)));
                Ending::HandedOver
            }
            Some(Done::Release { next }) => Ending::Release { next },
            Some(Done::NotHeld) | None => Ending::NotHeld,
        }
    }

    /// Ends the lease at the store while the caller waits. If this is dropped or fails, the reaper takes over.
    async fn release_now(&self) -> ReleaseOutcome {
        let engine = &*self.engine;
        let claim = &self.lease.claim_to_release();
        let unconfirmed = UnconfirmedRelease {
            engine,
            claim: Some(claim),
        };
        let until = engine.clock.now() + engine.settings.store_timeout;
        match within(&*engine.clock, until, engine.backend.release(claim)).await {
            Some(Ok(answer)) => {
                unconfirmed.confirm();
                match answer {
                    Release::Freed => ReleaseOutcome::Released,
                    Release::NotHeld => ReleaseOutcome::AlreadyLost,
                }
            }
            Some(Err(error)) => ReleaseOutcome::Unknown(error),
            None => ReleaseOutcome::Unknown(engine.unanswered(Operation::Release)),
        }
    }

    fn release_in_background(&self, next: Option<(TurnSender, StoreRequest)>) {
        // Release first: the next task's request then usually finds the lock free, instead of waiting at the store.
        self.engine.reaper.give_back(self.lease.claim_to_release());
        self.engine.deliver_duty(next);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.ended
            && let Ending::Release { next } = self.end_as_usual()
        {
            self.release_in_background(next);
        }
    }
}

/// A release that the store has not confirmed yet. If it is dropped, the reaper takes over.
struct UnconfirmedRelease<'a> {
    engine: &'a Engine,
    claim: Option<&'a Claim>,
}

impl UnconfirmedRelease<'_> {
    fn confirm(mut self) {
        self.claim = None;
    }
}

impl Drop for UnconfirmedRelease<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim {
            self.engine.reaper.give_back(claim.clone());
        }
    }
}
