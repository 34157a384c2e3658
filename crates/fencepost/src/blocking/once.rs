//! Jobs that run once, for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use super::Locker;
use super::worker::Worker;
use crate::backend::Backend;
use crate::claim::{LockName, OwnerId};
use crate::clock::Moment;
use crate::credential::Credential;
use crate::error::{Error, Operation, Result};
use crate::fence::Fence;
use crate::kinds::once::{self, AfterCrash, Finished, Outcome, Skipped};
use crate::lease::{FailedRenewals, Lost};

impl Locker {
    /// Returns the job of this name. See [`fencepost::Locker::once`](crate::Locker::once).
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    /// use fencepost::blocking::Began;
    /// use fencepost::kinds::once::Outcome;
    ///
    /// let nightly = locker.once("nightly")?.at_most(Duration::from_secs(60)).slot("2026-11-19");
    /// if let Began::Run(run) = nightly.begin()? {
    ///     for page in 1..=3 {
    ///         if run.time_left().is_zero() {
    ///             break;
    ///         }
    ///         println!("page {page}");
    ///     }
    ///     assert!(run.finish(Outcome::Completed).is_released());
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the name is invalid.
    pub fn once<N>(&self, name: N) -> Result<Once>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Once {
            inner: self.inner.once(name)?,
            worker: self.worker.clone(),
        })
    }
}

/// A job that runs once. It has the same contract as [`fencepost::Once`](crate::Once).
#[must_use = "nothing runs before `begin`"]
#[derive(Debug, Clone)]
pub struct Once {
    inner: once::Once,
    worker: Arc<Worker>,
}

/// The answer to [`Once::begin`].
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug)]
pub enum Began {
    /// The job may run now, here and nowhere else.
    Run(Run),
    /// The job must not run now.
    Skipped(Skipped),
}

impl Once {
    /// Returns the name of the job.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// Returns the store in which the job takes its lock.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// Sets for how long a run may take at most. See [`Once::at_most`](crate::Once::at_most).
    pub fn at_most(self, time: Duration) -> Self {
        self.with(|inner| inner.at_most(time))
    }

    /// Sets for how long nobody else may begin after a run has begun. See [`Once::at_least`](crate::Once::at_least).
    pub fn at_least(self, time: Duration) -> Self {
        self.with(|inner| inner.at_least(time))
    }

    /// Sets the date of the schedule that this run is for. See [`Once::slot`](crate::Once::slot).
    pub fn slot(self, slot: impl Into<Arc<str>>) -> Self {
        self.with(|inner| inner.slot(slot))
    }

    /// Sets what happens if nobody knows how the last run of this slot ended. See [`Once::after_crash`](crate::Once::after_crash).
    pub fn after_crash(self, after_crash: AfterCrash) -> Self {
        self.with(|inner| inner.after_crash(after_crash))
    }

    /// Sets how long slots are remembered. See [`Once::keep`](crate::Once::keep).
    pub fn keep(self, time: Duration) -> Self {
        self.with(|inner| inner.keep(time))
    }

    fn with(self, set: impl FnOnce(once::Once) -> once::Once) -> Self {
        let Self { inner, worker } = self;
        Self {
            inner: set(inner),
            worker,
        }
    }

    /// Begins a run, or says why the job must not run now. Never waits for another run.
    ///
    /// # Errors
    /// Returns the same errors as [`Once::begin`](crate::Once::begin), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an
    /// async runtime.
    pub fn begin(&self) -> Result<Began> {
        let began = self.worker.wait(Operation::Acquire, self.inner.begin())??;
        Ok(match began {
            once::Began::Run(inner) => Began::Run(Run {
                inner,
                worker: self.worker.clone(),
            }),
            once::Began::Skipped(skipped) => Began::Skipped(skipped),
        })
    }
}

/// The right to run a job now. It has the same contract as [`fencepost::kinds::once::Run`](crate::kinds::once::Run), except that nothing can
/// stop a thread from outside: check [`time_left`](Self::time_left) between the steps of the work.
#[must_use = "the run is over as soon as this is dropped, and counts as crashed"]
#[derive(Debug)]
pub struct Run {
    inner: once::Run,
    worker: Arc<Worker>,
}

impl Run {
    /// Returns the name of the job.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// Returns the slot, if the run has one.
    pub fn slot(&self) -> Option<&str> {
        self.inner.slot()
    }

    /// Returns the fence of this run. It is larger than that of every earlier run of this job.
    pub fn fence(&self) -> Fence {
        self.inner.fence()
    }

    /// Returns the owner of the lock at the store.
    pub fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    /// Returns the fence and the owner, which a fenced [`resource`](crate::resource) checks.
    pub fn credential(&self) -> Credential {
        self.inner.credential()
    }

    /// Returns the moment by which the work must be done.
    pub fn deadline(&self) -> Moment {
        self.inner.deadline()
    }

    /// Returns how much time is left until the deadline, or zero if the lock is lost.
    pub fn time_left(&self) -> Duration {
        self.inner.time_left()
    }

    /// Returns for how long the run may take in all.
    pub fn at_most(&self) -> Duration {
        self.inner.at_most()
    }

    /// Returns whether the store may forget that this slot was run.
    pub fn slots_may_be_forgotten(&self) -> bool {
        self.inner.slots_may_be_forgotten()
    }

    /// Returns how much longer the lock is held if every renewal fails from now on.
    pub fn valid_for(&self) -> Duration {
        self.inner.valid_for()
    }

    /// Returns whether the lock is lost. Once this returns `true`, it stays `true`.
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.inner.failed_renewals()
    }

    /// Waits until the lock is lost, for at most `timeout`. Returns `None` if it is still held.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<Lost>> {
        let clock = self.inner.clock();
        self.worker
            .wait_for_loss(&*clock, timeout, self.inner.lost())
    }

    /// Records how the run has ended, and gives the lock back. Inside an async runtime, the end is not recorded, the lock is given back in the
    /// background, and the answer is [`Unknown`](Finished::Unknown).
    pub fn finish(self, outcome: Outcome) -> Finished {
        let Self { inner, worker } = self;
        match worker.wait(Operation::Release, inner.finish(outcome)) {
            Ok(finished) => finished,
            Err(error) => Finished::Unknown(error),
        }
    }
}
