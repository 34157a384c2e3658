//! Elections for programs without an async runtime.

use std::sync::Arc;
use std::time::Duration;

use super::Locker;
use super::worker::Worker;
use crate::backend::Backend;
use crate::claim::{LockName, OwnerId};
use crate::clock::within;
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::{Error, Operation, Result};
use crate::fence::Fence;
use crate::kinds::election::{self, Leader, Observed};
use crate::lease::{FailedRenewals, Lost};

impl Locker {
    /// Returns the election of this name. See [`fencepost::Locker::election`](crate::Locker::election).
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let election = locker.election("scheduler")?;
    /// let leadership = election.campaign("10.0.0.7:8080")?;
    /// assert_eq!(&*election.leader()?.expect("a leader").value, "10.0.0.7:8080");
    /// assert!(leadership.resign().is_released());
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the name is invalid.
    pub fn election<N>(&self, name: N) -> Result<Election>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Election {
            inner: self.inner.election(name)?,
            worker: self.worker.clone(),
        })
    }
}

/// An election. It has the same contract as [`fencepost::Election`](crate::Election).
#[derive(Debug, Clone)]
pub struct Election {
    inner: election::Election,
    worker: Arc<Worker>,
}

impl Election {
    /// Returns the name of the election.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// Returns the store in which the election takes place.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// Returns whether the store keeps the values of leaders.
    pub fn keeps_values(&self) -> bool {
        self.inner.keeps_values()
    }

    /// Sets a health check, which runs on a thread of its own. See [`Election::health_check`](crate::Election::health_check).
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let has_room = || std::fs::metadata("/").is_ok();
    /// let election = locker.election("scheduler")?.health_check(Duration::from_secs(5), has_room);
    /// let leadership = election.campaign("one")?;
    /// # drop(leadership);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    #[must_use]
    pub fn health_check<C>(self, every: Duration, check: C) -> Self
    where
        C: Fn() -> bool + Send + Sync + 'static,
    {
        let check = Arc::new(check);
        let inner = self.inner.health_check(every, move || {
            let check = check.clone();
            // A check that panics has failed.
            async move {
                tokio::task::spawn_blocking(move || check())
                    .await
                    .unwrap_or(false)
            }
        });
        Self { inner, ..self }
    }

    /// Waits until this candidate leads, without a time limit.
    ///
    /// # Errors
    /// Returns the same errors as [`Election::campaign`](crate::Election::campaign), and
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn campaign(&self, value: impl AsRef<str>) -> Result<Leadership> {
        let campaign = self.inner.campaign(value);
        let inner = self.worker.wait(Operation::Acquire, campaign)??;
        Ok(self.leadership(inner))
    }

    /// Waits for at most `timeout` until this candidate leads.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use std::time::Duration;
    ///
    /// let election = locker.election("scheduler")?;
    /// let one = election.campaign("one")?;
    /// assert!(election.campaign_within("two", Duration::from_millis(10))?.is_none());
    /// # drop(one);
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Election::campaign_within`](crate::Election::campaign_within), and
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn campaign_within(
        &self,
        value: impl AsRef<str>,
        timeout: Duration,
    ) -> Result<Option<Leadership>> {
        let campaign = self.inner.campaign_within(value, timeout);
        let inner = self.worker.wait(Operation::Acquire, campaign)??;
        Ok(inner.map(|inner| self.leadership(inner)))
    }

    /// Tries once to become the leader.
    ///
    /// # Errors
    /// Returns the same errors as [`Election::try_campaign`](crate::Election::try_campaign), and
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn try_campaign(&self, value: impl AsRef<str>) -> Result<Option<Leadership>> {
        self.campaign_within(value, Duration::ZERO)
    }

    /// Asks the store who leads.
    ///
    /// # Errors
    /// Returns the same errors as [`Election::leader`](crate::Election::leader), and
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn leader(&self) -> Result<Option<Leader>> {
        self.worker
            .wait(Operation::ReadRecord, self.inner.leader())?
    }

    /// Returns an observer, which reports who leads now and every change after that.
    ///
    /// # Errors
    /// Returns the same errors as [`Election::observe`](crate::Election::observe).
    pub fn observe(&self) -> Result<Observer> {
        Ok(Observer {
            inner: self.inner.observe()?,
            worker: self.worker.clone(),
        })
    }

    fn leadership(&self, inner: election::Leadership) -> Leadership {
        Leadership {
            inner,
            worker: self.worker.clone(),
        }
    }
}

/// The right to lead; dropping it resigns. It has the same contract as [`fencepost::Leadership`](crate::Leadership).
#[must_use = "the leader resigns as soon as this is dropped"]
#[derive(Debug)]
pub struct Leadership {
    inner: election::Leadership,
    worker: Arc<Worker>,
}

impl Leadership {
    /// Returns the name of the election.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// Returns the term: a fence that is larger than that of every earlier leader.
    pub fn term(&self) -> Fence {
        self.inner.term()
    }

    /// Returns the owner of the lock at the store.
    pub fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    /// Returns the term and the owner, which a fenced [`resource`](crate::resource) checks.
    pub fn credential(&self) -> Credential {
        self.inner.credential()
    }

    /// Returns the value that was last proclaimed through this leadership.
    pub fn value(&self) -> Arc<str> {
        self.inner.value()
    }

    /// Replaces the value that others see.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let leadership = locker.election("scheduler")?.campaign("starting")?;
    /// leadership.proclaim("ready")?;
    /// assert_eq!(&*leadership.value(), "ready");
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Leadership::proclaim`](crate::Leadership::proclaim), and
    /// [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        let proclaimed = self.inner.proclaim(value);
        self.worker.wait(Operation::ReplaceRecord, proclaimed)?
    }

    /// Returns how much longer this leadership lasts if every renewal fails from now on. Returns zero if it is lost.
    pub fn valid_for(&self) -> Duration {
        self.inner.valid_for()
    }

    /// Returns whether the leadership is lost. Once this returns `true`, it stays `true`. Check it between the steps of the work.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// let leadership = locker.election("scheduler")?.campaign("one")?;
    /// for job in 1..=3 {
    ///     if leadership.is_lost() {
    ///         break;
    ///     }
    ///     println!("job {job}");
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.inner.failed_renewals()
    }

    /// Waits until the leadership is lost, for at most `timeout`. Returns `None` if this still leads.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<Lost>> {
        let clock = self.inner.clock();
        self.worker
            .wait_for_loss(&*clock, timeout, self.inner.lost())
    }

    /// Resigns, and returns the outcome. Inside an async runtime, the resignation continues in the background and the outcome is
    /// [`Unknown`](ReleaseOutcome::Unknown).
    pub fn resign(self) -> ReleaseOutcome {
        let Self { inner, worker } = self;
        match worker.wait(Operation::Release, inner.resign()) {
            Ok(outcome) => outcome,
            Err(error) => ReleaseOutcome::Unknown(error),
        }
    }
}

/// Reports who leads. It has the same contract as [`fencepost::kinds::election::Observer`](crate::kinds::election::Observer).
#[derive(Debug)]
pub struct Observer {
    inner: election::Observer,
    worker: Arc<Worker>,
}

impl Observer {
    /// Waits for the next state, and returns it. The first call returns the current state.
    ///
    /// ```
    /// # let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()))?;
    /// use fencepost::kinds::election::Observed;
    ///
    /// let mut observer = locker.election("scheduler")?.observe()?;
    /// assert!(matches!(observer.next()?, Observed::None));
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    #[allow(
        clippy::should_implement_trait,
        reason = "as in the async API; an iterator would never end"
    )]
    pub fn next(&mut self) -> Result<Observed> {
        self.worker.wait(Operation::ReadRecord, self.inner.next())
    }

    /// Waits for the next state, for at most `timeout`. Returns `None` if nothing changed.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Observed>> {
        let clock = self.inner.clock();
        let until = clock.now() + timeout;
        let next = self.inner.next();
        self.worker
            .wait(Operation::ReadRecord, within(&*clock, until, next))
    }
}
