//! One hold of a lock, and what happens to the lock when it ends.

use std::sync::Arc;

use super::{Ending, Engine, TurnSender};
use crate::clock::Moment;
use crate::error::{Error, Operation};
use crate::fence::Fence;
use crate::lease::{Lease, Lost, LostReason};
use crate::line::Drive;

/// The outcome of releasing a lock.
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
    /// Returns whether the lock was held up to the release.
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released)
    }
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
        match self.end() {
            Ending::HandedOver => ReleaseOutcome::Released,
            Ending::Release { next } => {
                if let Err(error) = self.engine.runtime(Operation::Release) {
                    self.release_in_background(next);
                    return ReleaseOutcome::Unknown(error);
                }
                self.engine.deliver_drive(next);
                self.engine
                    .release_now(&self.lease.claim_to_release())
                    .await
            }
            Ending::NotHeld => ReleaseOutcome::AlreadyLost,
        }
    }

    fn end(&mut self) -> Ending {
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
        self.engine.hold_done(&self.lease, now)
    }

    fn release_in_background(&self, next: Option<(TurnSender, Drive)>) {
        // Release first: the next task's request then usually finds the lock free, instead of waiting at the store.
        self.engine.reaper.give_back(self.lease.claim_to_release());
        self.engine.deliver_drive(next);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.ended
            && let Ending::Release { next } = self.end()
        {
            self.release_in_background(next);
        }
    }
}
