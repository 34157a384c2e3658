//! [`Leadership`]: the right to lead, for one term.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Election;
use super::health::{Checking, HealthCheck};
use crate::backend::leaders::Proclamation;
use crate::claim::{LockName, OwnerId};
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::Result;
use crate::fence::Fence;
use crate::guard::Guard;
use crate::lease::{FailedRenewals, Lost};
use crate::mutex::lock;

/// The right to lead, from an election to a resignation or a loss. Dropping it resigns in the background.
///
/// A leadership can outlive its term, for example when the store is unreachable or the process was stopped and continued. It therefore knows how
/// long it is [valid](Self::valid_for), [signals](Self::lost) its loss, and carries a [term](Self::term) with which a
/// [resource](crate::resource) refuses late requests.
#[must_use = "the leader resigns as soon as this is dropped"]
pub struct Leadership {
    election: Election,
    /// Ends before the guard does.
    _checking: Option<Checking>,
    guard: Guard,
    value: Mutex<Arc<str>>,
    /// Values are proclaimed one after the other.
    proclaiming: tokio::sync::Mutex<()>,
}

impl Leadership {
    pub(super) fn new(
        election: Election,
        guard: Guard,
        value: Arc<str>,
        health: Option<Arc<HealthCheck>>,
    ) -> Self {
        Self {
            election,
            _checking: health.map(|health| Checking::start(health, guard.loss_handle())),
            guard,
            value: Mutex::new(value),
            proclaiming: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the name of the election.
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

    /// Returns the term: a fence that is larger than that of every earlier leader.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let election = locker.election("scheduler")?;
    /// let leadership = election.campaign("one").await?;
    /// let earlier = leadership.term();
    /// drop(leadership);
    /// assert!(election.campaign("two").await?.term() > earlier);
    /// # Ok(()) }
    /// ```
    pub fn term(&self) -> Fence {
        self.guard.fence()
    }

    /// Returns the owner of the lock at the store.
    pub fn owner(&self) -> OwnerId {
        self.guard.owner()
    }

    /// Returns the term and the owner, which a fenced [`resource`](crate::resource) checks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::resource::{FencedCell, FencedResource};
    ///
    /// let plan = FencedCell::new(3);
    /// let leadership = locker.election("scheduler")?.campaign("one").await?;
    /// plan.write(leadership.credential(), 2).expect("the largest term so far");
    /// # Ok(()) }
    /// ```
    pub fn credential(&self) -> Credential {
        self.guard.credential()
    }

    /// Returns the value that was last proclaimed through this leadership.
    pub fn value(&self) -> Arc<str> {
        lock(&self.value).clone()
    }

    /// Replaces the value that others see. Calls at the same time take effect one after the other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let election = locker.election("scheduler")?;
    /// let leadership = election.campaign("starting").await?;
    /// leadership.proclaim("ready").await?;
    /// assert_eq!(&*election.leader().await?.expect("a leader").value, "ready");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the leadership is lost, [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput)
    /// if the value is too long, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store keeps no values, or if a leader there
    /// keeps the value of its campaign (ZooKeeper with Curator's layout), and otherwise the error of the store. After an error with the effect
    /// `Maybe`, others may see either value.
    ///
    /// # Cancel safety
    /// If the future is dropped, others may see either value, until the next proclamation.
    pub async fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        let value = self.election.checked(value.as_ref())?;
        let answers = self.election.answers()?;
        let _one_at_a_time = self.proclaiming.lock().await;
        if self.is_lost() {
            return Err(self.guard.lost_error());
        }
        match answers.proclaim(&self.guard, &value).await? {
            Proclamation::Made => {
                *lock(&self.value) = value;
                Ok(())
            }
            Proclamation::NotLeading => Err(self.guard.lost_error()),
        }
    }

    /// Returns how much longer this leadership lasts if every renewal fails from now on. See
    /// [`Guard::valid_for`](crate::Guard::valid_for). Returns zero if it is lost.
    pub fn valid_for(&self) -> Duration {
        self.guard.valid_for()
    }

    /// Returns whether the leadership is lost. Once this returns `true`, it never returns `false` again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let leadership = locker.election("scheduler")?.campaign("one").await?;
    /// for job in 1..=3 {
    ///     if leadership.is_lost() {
    ///         break;
    ///     }
    ///     println!("job {job}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded. See
    /// [`Guard::failed_renewals`](crate::Guard::failed_renewals).
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.guard.failed_renewals()
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn clock(&self) -> Arc<dyn crate::clock::Clock> {
        self.guard.clock()
    }

    /// Completes when the leadership is lost, with the reason.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn schedule() {}
    /// let leadership = locker.election("scheduler")?.campaign("one").await?;
    /// tokio::select! {
    ///     () = schedule() => println!("done"),
    ///     lost = leadership.lost() => println!("stopped: {lost}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while this leads.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect. You can call this any number of times.
    pub async fn lost(&self) -> Lost {
        self.guard.lost().await
    }

    /// Runs `work` while this leads, and drops it if the leadership is lost. See [`Guard::run`](crate::Guard::run), also for what it cannot
    /// stop.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn schedule() {}
    /// let election = locker.election("scheduler")?;
    /// # for _ in 0..1 {
    /// // A real program would do this in a loop: lead, lose, campaign again.
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// if let Err(lost) = leadership.run(schedule()).await {
    ///     println!("stopped: {lost}");
    /// }
    /// # }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`Lost`] if the leadership was lost before `work` completed, or by the time it completed.
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while this leads.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`. This continues to lead.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.guard.run(work).await
    }

    /// Resigns, and returns the outcome. Stop the work first: somebody else may lead as soon as the store has the resignation.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let leadership = locker.election("scheduler")?.campaign("one").await?;
    /// assert!(leadership.resign().await.is_released());
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the resignation continues in the background, as it does when the leadership is dropped.
    pub async fn resign(self) -> ReleaseOutcome {
        let term = self.term();
        let Self {
            election, guard, ..
        } = self;
        let outcome = guard.release().await;
        if outcome.is_released()
            && let Ok(answers) = election.answers()
            && let Err(error) = answers.withdraw(term).await
        {
            // Observers then see a little later that the lock is free.
            tracing::debug!(name = %election.name, %error, "value not withdrawn");
        }
        outcome
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("name", self.name())
            .field("term", &self.term())
            .field("value", &self.value())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
