//! [`Run`]: the right to run a job now, until it is finished or its time is over.

use std::fmt;
use std::time::Duration;

use super::Once;
use super::journal::State;
use super::recorded::{JobRecord, Recorded};
use crate::claim::{LockName, OwnerId};
use crate::clock::Moment;
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::Error;
use crate::fence::Fence;
use crate::guard::{Guard, while_held};
use crate::lease::{FailedRenewals, Lost, margin};

/// How a run has ended, as its owner says.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The work is done. The slot, if there is one, is not run again.
    Completed,
    /// The work is not done, and it is known to be safe to do it again. The slot may be run again.
    Failed,
}

/// What became of a run that was finished.
///
/// The variants are complete on purpose, so that a `match` needs no wildcard: a new variant would be a breaking change.
#[derive(Debug, Clone)]
#[must_use]
pub enum Finished {
    /// The end is recorded, and the lock was given back.
    Released,
    /// The end is recorded, and the lock is left to end by itself when [`at_least`](Once::at_least) is over.
    Left,
    /// The lock had been lost before. The end is not recorded, and another run may have begun in the meantime.
    AlreadyLost,
    /// The store did not answer: the end may not be recorded, or the lock may still be held. It ends after its TTL in any case. A slot whose end
    /// is not recorded counts as [crashed](super::AfterCrash).
    Unknown(Error),
}

impl Finished {
    /// Returns whether the end is recorded and nobody has to wait for anything but [`at_least`](Once::at_least): this is
    /// [`Released`](Self::Released) or [`Left`](Self::Left).
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released | Self::Left)
    }
}

/// Why work was stopped before it was done.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone)]
pub enum Stopped {
    /// The lock was lost. Another run may have begun.
    Lost(Lost),
    /// [`at_most`](Once::at_most) is almost over: a hundredth of it is left to [finish](Run::finish) the run.
    OutOfTime,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(lost) => lost.fmt(f),
            Self::OutOfTime => f.write_str("the run has taken as long as it may"),
        }
    }
}

impl std::error::Error for Stopped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost(lost) => lost.source(),
            Self::OutOfTime => None,
        }
    }
}

/// The right to run a job now, here and nowhere else. [`Once::begin`] returns it.
///
/// [Finish](Self::finish) it to say how it ended. A run that is dropped instead counts as crashed: its lock is released in the background or, if
/// [`at_least`](Once::at_least) is not over, left to end by itself.
#[must_use = "the run is over as soon as this is dropped, and counts as crashed"]
pub struct Run {
    once: Once,
    /// `None` after the run was finished.
    guard: Option<Guard>,
    /// By when the work must be done.
    deadline: Moment,
    at_most: Duration,
    /// Until when the lease keeps others away.
    left_until: Moment,
    /// `None` if nothing about this run is written down.
    recorded: Option<Recorded>,
}

impl Run {
    pub(super) fn new(
        once: Once,
        guard: Guard,
        (began_at, at_most, left_until): (Moment, Duration, Moment),
        recorded: Option<Recorded>,
    ) -> Self {
        Self {
            once,
            guard: Some(guard),
            // The margin is the time in which the end can be recorded.
            deadline: began_at + at_most.saturating_sub(margin(at_most)),
            at_most,
            left_until,
            recorded,
        }
    }

    fn guard(&self) -> &Guard {
        let guard = self.guard.as_ref();
        guard.expect("only `finish` and `drop` take the guard, and nobody has the run afterwards")
    }

    /// Returns the name of the job.
    pub fn name(&self) -> &LockName {
        self.guard().name()
    }

    /// Returns the slot, if the run has one.
    pub fn slot(&self) -> Option<&str> {
        self.once.terms.slot.as_deref()
    }

    /// Returns the fence of this run. It is larger than that of every earlier run of this job.
    pub fn fence(&self) -> Fence {
        self.guard().fence()
    }

    /// Returns the owner of the lock at the store.
    pub fn owner(&self) -> OwnerId {
        self.guard().owner()
    }

    /// Returns the fence and the owner, which a fenced [`resource`](crate::resource) checks.
    pub fn credential(&self) -> Credential {
        self.guard().credential()
    }

    /// Returns the moment by which the work must be done, on the clock of the [backend](crate::Backend::clock): a hundredth of
    /// [`at_most`](Once::at_most) before its end.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Returns how much time is left until the [deadline](Self::deadline), or zero if the lock is lost.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # use fencepost::kinds::once::{Began, Outcome};
    /// use std::time::Duration;
    ///
    /// let nightly = locker.once("nightly")?.at_most(Duration::from_secs(60));
    /// let Began::Run(run) = nightly.begin().await? else { return Ok(()) };
    /// // Enough time left for one more page?
    /// assert!(run.time_left() > Duration::from_secs(10));
    /// assert!(run.finish(Outcome::Completed).await.is_released());
    /// # Ok(()) }
    /// ```
    pub fn time_left(&self) -> Duration {
        if self.is_lost() {
            return Duration::ZERO;
        }
        let now = self.once.locker.clock().now();
        self.deadline.saturating_duration_since(now)
    }

    /// Returns for how long the run may take in all: what [`Once::at_most`] was given.
    pub fn at_most(&self) -> Duration {
        self.at_most
    }

    /// Returns whether the store may forget that this slot was run, for instance after a failover. Then only the [fence](Self::fence) tells the
    /// resource which run is the latest. Returns `false` if the run has no slot.
    pub fn slots_may_be_forgotten(&self) -> bool {
        self.slot().is_some()
            && self
                .recorded
                .is_some_and(|recorded| recorded.may_be_forgotten)
    }

    /// Returns how much longer the lock is held if every renewal fails from now on. See [`Guard::valid_for`](crate::Guard::valid_for). It never
    /// goes beyond the end of [`at_most`](Once::at_most).
    pub fn valid_for(&self) -> Duration {
        self.guard().valid_for()
    }

    /// Returns whether the lock is lost. Once this returns `true`, it never returns `false` again.
    pub fn is_lost(&self) -> bool {
        self.guard().is_lost()
    }

    /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.guard().failed_renewals()
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn clock(&self) -> std::sync::Arc<dyn crate::clock::Clock> {
        self.guard().clock()
    }

    /// Completes when the lock is lost, with the reason. When [`at_most`](Once::at_most) is over, that is
    /// [`LostReason::OutOfTime`](crate::LostReason::OutOfTime).
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while the lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect. You can call this any number of times.
    pub async fn lost(&self) -> Lost {
        self.guard().lost().await
    }

    /// Runs `work`, and drops it if the lock is lost or the [deadline](Self::deadline) comes. See [`Guard::run`](crate::Guard::run), also for
    /// what it cannot stop.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # use fencepost::kinds::once::{Began, Outcome, Stopped};
    /// use std::time::Duration;
    ///
    /// let endless = locker.once("endless")?.at_most(Duration::from_millis(50));
    /// let Began::Run(run) = endless.begin().await? else { return Ok(()) };
    /// match run.run(std::future::pending::<()>()).await {
    ///     // It had done nothing, so it is safe to do it again. Otherwise, drop the run.
    ///     Err(Stopped::OutOfTime) => assert!(run.finish(Outcome::Failed).await.is_released()),
    ///     Err(Stopped::Lost(lost)) => println!("another run may have begun: {lost}"),
    ///     Ok(()) => unreachable!("it never ends by itself"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`Stopped`] if the work was stopped, or if it completed too late. It may have taken effect partly or completely.
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while the lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Stopped> {
        let (guard, clock) = (self.guard(), self.once.locker.clock());
        let stopped = async {
            tokio::select! {
                biased;
                lost = guard.lost() => Stopped::Lost(lost),
                () = clock.sleep_until(self.deadline) => Stopped::OutOfTime,
            }
        };
        let stopped_now = || match guard.lost_now() {
            Some(lost) => Some(Stopped::Lost(lost)),
            None => (clock.now() >= self.deadline).then_some(Stopped::OutOfTime),
        };
        while_held(stopped, stopped_now, work).await
    }

    /// Records how the run has ended, and gives the lock back.
    ///
    /// If [`at_least`](Once::at_least) is not over, the lock is left to end by itself.
    ///
    /// # Cancel safety
    /// If the future is dropped, the end may or may not be recorded. The lock is given back in the background, as when the run is dropped.
    pub async fn finish(mut self, outcome: Outcome) -> Finished {
        let finished = self.record_end(outcome).await;
        self.once
            .locker
            .telemetry()
            .run_ended(match (&finished, outcome) {
                (Some(Finished::AlreadyLost), _) => "lost",
                (Some(Finished::Unknown(_)), _) => "unknown",
                (_, Outcome::Completed) => "completed",
                (_, Outcome::Failed) => "failed",
            });
        let released = self.give_back().await;
        finished.unwrap_or(released)
    }

    /// Returns `None` if the end is recorded, or nothing had to be.
    async fn record_end(&self, outcome: Outcome) -> Option<Finished> {
        let guard = self.guard();
        if guard.is_lost() {
            return Some(Finished::AlreadyLost);
        }
        let record = self.recorded.and_then(|_| JobRecord::of(&self.once))?;
        let state = match outcome {
            Outcome::Completed => State::Completed,
            Outcome::Failed => State::Failed,
        };
        match guard.run(record.end(guard.fence(), state)).await {
            Ok(Ok(true)) => None,
            Ok(Ok(false)) | Err(_) => Some(Finished::AlreadyLost),
            Ok(Err(error)) => Some(Finished::Unknown(error)),
        }
    }

    async fn give_back(&mut self) -> Finished {
        let Some(guard) = self.guard.take() else {
            return Finished::Released;
        };
        if self.is_to_be_left() && !guard.is_lost() {
            guard.leave();
            return Finished::Left;
        }
        match guard.release().await {
            ReleaseOutcome::Released | ReleaseOutcome::StillHeld => Finished::Released,
            // Its end was recorded in time.
            ReleaseOutcome::AlreadyLost if self.recorded.is_some() => Finished::Released,
            ReleaseOutcome::AlreadyLost => Finished::AlreadyLost,
            ReleaseOutcome::Unknown(error) => Finished::Unknown(error),
        }
    }

    /// Returns whether others must be kept away for longer than the run has taken.
    fn is_to_be_left(&self) -> bool {
        self.left_until > self.once.locker.clock().now()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else {
            return;
        };
        self.once.locker.telemetry().run_ended("dropped");
        if self.is_to_be_left() {
            guard.leave();
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("name", &self.once.name)
            .field("slot", &self.slot())
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
