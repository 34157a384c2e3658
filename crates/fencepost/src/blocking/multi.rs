//! [`MultiGuard`] for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use super::guard::Guard;
use super::worker::Worker;
use crate::claim::LockName;
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::{Operation, Result};
use crate::fence::Fence;
use crate::lease::{FailedRenewals, Lost};

/// Several locks that are held together; dropping it releases them all. See [`fencepost::MultiGuard`](crate::MultiGuard).
///
/// For what a single lock has and this type does not, such as [`reenter`](Guard::reenter), use [`guard`](Self::guard) or
/// [`guards`](Self::guards).
#[must_use = "the locks are released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct MultiGuard {
    /// The guards in the order in which they were acquired; at least one.
    guards: Vec<Guard>,
    worker: Arc<Worker>,
}

impl MultiGuard {
    pub(super) fn new(all: crate::MultiGuard, worker: Arc<Worker>) -> Self {
        let guards = all.into_guards().into_iter().map(|inner| Guard {
            inner,
            worker: worker.clone(),
        });
        Self {
            guards: guards.collect(),
            worker,
        }
    }

    /// Returns the single guards in the order in which they were acquired, which is the order of the bytes of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the guard of this name, or `None` if this is not one of the names.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let all = locker.acquire_all(["a", "b"])?;
    /// all.guard("a").expect("one of the names").extend(Duration::from_secs(60))?;
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn guard(&self, name: &str) -> Option<&Guard> {
        let at = self
            .guards
            .binary_search_by(|guard| guard.name().as_str().cmp(name));
        at.ok().map(|at| &self.guards[at])
    }

    /// Returns the names of the locks in the order in which they were acquired.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.guards.iter().map(Guard::name)
    }

    /// Returns the fencing token of one of the names, or `None` if this is not one of them.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.guard(name).map(Guard::fence)
    }

    /// Returns the credential of one of the names, which a fenced [`resource`](crate::resource) checks, or `None` if this is not one of the
    /// names.
    pub fn credential(&self, name: &str) -> Option<Credential> {
        self.guard(name).map(Guard::credential)
    }

    /// Returns how much longer all of the locks are held if every renewal fails from now on. Nobody else can hold any of them during this
    /// time, unless the store loses its data or somebody releases a lock by force; then only the [fences](Self::fence) protect the
    /// resource. Returns zero if one of the locks is lost.
    pub fn valid_for(&self) -> Duration {
        let each = self.guards.iter().map(Guard::valid_for);
        each.min().unwrap_or_default()
    }

    /// Returns whether one of the locks is lost. Once this returns `true`, it stays `true`. Check it between the steps of long work.
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Returns whether somebody else had one of the locks when this thread asked for it.
    pub fn was_contended(&self) -> bool {
        self.guards.iter().any(Guard::was_contended)
    }

    /// Returns the renewals that have failed in a row until now, of the lock with the most failures. Returns `None` if the last renewals
    /// of all locks succeeded.
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        let failed = self.guards.iter().filter_map(Guard::failed_renewals);
        failed.max_by_key(|failed| failed.count)
    }

    /// Extends the leases of all locks so that they last at least `ttl` from now on.
    ///
    /// # Errors
    /// Returns the same errors as [`fencepost::MultiGuard::extend`](crate::MultiGuard::extend), and
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        let each = self.guards.iter().map(|guard| guard.inner.extend(ttl));
        let answers = self.worker.wait(Operation::Renew, join_all(each))?;
        answers.into_iter().collect()
    }

    /// Waits until one of the locks is lost, for at most `timeout`. Returns `None` if all of them are still held.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let all = locker.acquire_all(["a", "b"])?;
    /// assert!(all.lost_within(Duration::from_millis(10))?.is_none());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<Lost>> {
        let clock = self.guards[0].inner.clock();
        let each = self.guards.iter();
        let first = select_all(each.map(|guard| Box::pin(guard.inner.lost())));
        let lost = self.worker.wait_for_loss(&*clock, timeout, first)?;
        Ok(lost.map(|(lost, _, _)| lost))
    }

    /// Releases all locks, and returns the outcome for each name. Inside an async runtime, the releases continue in the background and the
    /// outcomes are [`Unknown`](ReleaseOutcome::Unknown).
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// for (name, outcome) in locker.acquire_all(["a", "b"])?.release() {
    ///     assert!(outcome.is_released(), "{name}: {outcome:?}");
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn release(self) -> Vec<(LockName, ReleaseOutcome)> {
        let Self { guards, worker } = self;
        let names: Vec<LockName> = guards.iter().map(|guard| guard.name().clone()).collect();
        let each = guards.into_iter().map(|guard| guard.inner.release());
        let outcomes = match worker.wait(Operation::Release, join_all(each)) {
            Ok(outcomes) => outcomes,
            Err(error) => vec![ReleaseOutcome::Unknown(error); names.len()],
        };
        names.into_iter().zip(outcomes).collect()
    }
}
