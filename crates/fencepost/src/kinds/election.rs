//! Leader election: of all candidates, one leads.
//!
//! ```
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::memory::Memory;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> fencepost::Result<()> {
//! let locker = Locker::new(Arc::new(Memory::new()));
//! let election = locker.election("scheduler")?;
//! # async fn schedule() {}
//!
//! let leadership = election.campaign("10.0.0.7:8080").await?;
//! match leadership.run(schedule()).await {
//!     Ok(()) => println!("done in term {}", leadership.term()),
//!     Err(lost) => println!("somebody else leads now: {lost}"),
//! }
//! assert!(leadership.resign().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! Whoever leads holds the lock of the election's name; its fence is the *term*. The promises of a [`Guard`] are therefore those
//! of a [`Leadership`]: a leader that can run knows that it lost before another can lead, as long as the store keeps what it acknowledged, and
//! a [resource](crate::resource) that checks the term refuses a leader that was stopped and does not know it yet. Candidates get their turn in the
//! order of the store's line. Leaderships are always renewed, whatever [`keep_alive`](crate::LockerBuilder::keep_alive) says, and never pass
//! from task to task inside a process without the store. A lock and an election of the same name exclude each other (on ZooKeeper among
//! programs of this library only).
//!
//! # The value
//! A leader has a value: an address, an identity, anything that others need to know of it. A store that keeps
//! [records](crate::backend::Capabilities::records) (all but Redlock and Postgres' advisory locks) keeps it: etcd and ZooKeeper in the leader's own
//! key or node, from the first moment; the others beside the lock (`term value`), where it counts only while the holder of the lock has that
//! term. They answer [`leader`](Election::leader) from the moment at which the new
//! leader has written its value, shortly after it got the lock.
//!
//! On Redlock and with Postgres' advisory locks, leaders can be elected but have no value, and nobody can ask who leads:
//! [`Election::keeps_values`] returns `false`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::backend::Backend;
use crate::backend::leaders::{AnyLeaders, Proclamation};
use crate::claim::LockName;
use crate::clock::Moment;
use crate::engine::Wanted;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::guard::Guard;
use crate::line::Manner;
use crate::locker::Locker;

mod health;
mod leadership;
mod observer;
mod store;

use health::HealthCheck;
pub use leadership::Leadership;
pub use observer::{Observed, Observer};
use store::Answers;

/// An election: candidates campaign in it, and others observe who leads. [`Locker::election`] creates it. Cheap to clone.
#[derive(Clone)]
pub struct Election {
    locker: Locker,
    name: LockName,
    health: Option<Arc<HealthCheck>>,
}

/// A leader, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The fence of the leader. A later leader has a larger one.
    pub term: Fence,
    /// What the leader has proclaimed. Other programs may have written it: do not show it to people without escaping it.
    pub value: Arc<str>,
    /// The label of the leader, for people: host and process. Empty if the store does not know it.
    pub label: Arc<str>,
    /// Since when it leads, on the clock of the [backend](crate::Backend::clock). `None` if the store does not know.
    pub since: Option<Moment>,
}

impl Locker {
    /// Returns the election of this name. It uses the store, the TTL, the store timeout and the label of this locker, and is shut down
    /// with it.
    ///
    /// ```
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let election = locker.election("scheduler")?;
    /// assert_eq!(election.name().as_str(), "scheduler");
    /// # Ok::<(), fencepost::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the name is invalid.
    pub fn election<N>(&self, name: N) -> Result<Election>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Election {
            name: name.try_into()?,
            locker: self.without_hand_over(),
            health: None,
        })
    }
}

impl Election {
    /// The longest value of a leader, in bytes.
    pub const MAX_VALUE_BYTES: usize = 1024;

    /// Returns the name of the election.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns whether the store keeps the values of leaders. If not, [`campaign`](Self::campaign) takes no value but the empty one, and
    /// nobody can observe who leads.
    pub fn keeps_values(&self) -> bool {
        self.leaders().is_some()
    }

    /// Sets a health check: only a healthy candidate is elected, and a leadership is [lost](crate::LostReason::Unhealthy) as soon as the check
    /// fails.
    ///
    /// The check is made before a campaign, when the lock is granted, and then `every` so often for as long as the leadership lives. It fails
    /// if it returns `false`, panics, or takes longer than `every`. An unhealthy candidate does not stand in line: its campaign waits until
    /// the check succeeds.
    ///
    /// After a failed check, the leadership is not renewed any more. It is released when its owner lets go of it, and ends with its lease
    /// otherwise, so nobody else leads before the work has stopped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn can_reach_database() -> bool { true }
    /// use std::time::Duration;
    ///
    /// let election = locker.election("scheduler")?;
    /// let election = election.health_check(Duration::from_secs(5), can_reach_database);
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn health_check<C, F>(self, every: Duration, check: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let health = Some(Arc::new(HealthCheck::new(every, check)));
        Self { health, ..self }
    }

    /// Waits until this candidate leads, without a time limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let election = locker.election("scheduler")?;
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// println!("leading in term {}", leadership.term());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the value is longer than [`MAX_VALUE_BYTES`](Self::MAX_VALUE_BYTES),
    /// [`ErrorKind::Unsupported`] if the store keeps no values and this one is not empty, and otherwise the errors of [`Locker::acquire`].
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The candidate leaves the line. If it may have been elected, it resigns in the background.
    pub async fn campaign(&self, value: impl AsRef<str>) -> Result<Leadership> {
        let value = self.checked(value.as_ref())?;
        let leadership = self
            .campaign_until(value, Manner::Wait, Moment::FAR)
            .await?;
        // Without a time limit, waiting ends with a leadership or an error; `None` would be a bug.
        leadership.ok_or_else(|| self.locker.unanswered())
    }

    /// Waits for at most `timeout` until this candidate leads. Returns `None` if it was not elected in time, or not healthy. A timeout of zero
    /// tries once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let election = locker.election("scheduler")?;
    /// let one = election.campaign("one").await?;
    /// let two = election.campaign_within("two", Duration::from_millis(10)).await?;
    /// assert!(two.is_none());
    /// # drop(one);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`campaign`](Self::campaign). If the store gives no answer at all within `timeout`, that is an error
    /// ([`ErrorKind::Timeout`]), not `None`.
    ///
    /// # Cancel safety
    /// The same as for [`campaign`](Self::campaign).
    pub async fn campaign_within(
        &self,
        value: impl AsRef<str>,
        timeout: Duration,
    ) -> Result<Option<Leadership>> {
        let value = self.checked(value.as_ref())?;
        if timeout.is_zero() {
            return self.campaign_until(value, Manner::Try, Moment::FAR).await;
        }
        let until = self.locker.clock().now() + timeout;
        self.campaign_until(value, Manner::Wait, until).await
    }

    /// Tries once to become the leader. Returns `None` if somebody else leads or is ahead, or if this candidate is not healthy.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let election = locker.election("scheduler")?;
    /// match election.try_campaign("10.0.0.7:8080").await? {
    ///     Some(leadership) => println!("leading in term {}", leadership.term()),
    ///     None => println!("somebody else leads"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    /// The same as for [`campaign`](Self::campaign).
    pub async fn try_campaign(&self, value: impl AsRef<str>) -> Result<Option<Leadership>> {
        self.campaign_within(value, Duration::ZERO).await
    }

    /// Asks the store who leads. Returns `None` if nobody leads, or if the leader has not written its value yet.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let election = locker.election("scheduler")?;
    /// assert!(election.leader().await?.is_none());
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// let leader = election.leader().await?.expect("there is one");
    /// assert_eq!((leader.term, &*leader.value), (leadership.term(), "10.0.0.7:8080"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unsupported`] if the store keeps no values, [`ErrorKind::Timeout`] if it does not answer within the store timeout,
    /// and otherwise the error of the store.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Ok(self.answers()?.standing().await?.leader)
    }

    /// Returns an observer, which reports who leads now and every change after that.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::kinds::election::Observed;
    ///
    /// let election = locker.election("scheduler")?;
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// let mut observer = election.observe()?;
    /// match observer.next().await {
    ///     Observed::Leader(leader) => assert_eq!(&*leader.value, "10.0.0.7:8080"),
    ///     Observed::None => println!("nobody leads"),
    ///     Observed::Disconnected(error) => println!("cannot tell: {error}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unsupported`] if the store keeps no values.
    pub fn observe(&self) -> Result<Observer> {
        self.answers()?;
        Ok(Observer::new(self.clone()))
    }

    /// Returns the store in which the election takes place.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.locker.backend()
    }

    fn leaders(&self) -> Option<AnyLeaders<'_>> {
        AnyLeaders::of(&**self.locker.backend())
    }

    /// Returns the questions about this election that the store can answer.
    fn answers(&self) -> Result<Answers<'_>> {
        let leaders = self.leaders().ok_or_else(|| self.keeps_no_values())?;
        Ok(Answers::new(self, leaders))
    }

    /// Returns the error of a store that has given the lock a smaller epoch than the last leader had. To try again would not help.
    fn record_is_ahead(&self) -> Error {
        let store = self.locker.backend().store_name();
        let message = format!(
            "the record of the leader of {} has a later term than the lock gives out: the clock of the store was set back, or it has lost \
             data; remove the record, or choose another name",
            self.name
        );
        Error::new(
            ErrorKind::Unusable,
            store,
            Operation::ReplaceRecord,
            message,
        )
    }

    fn keeps_no_values(&self) -> Error {
        let store = self.locker.backend().store_name();
        let message = format!(
            "{store} elects leaders, but keeps no values of them: nobody can ask who leads. All stores but Redlock and Postgres' \
             advisory locks keep values"
        );
        Error::new(
            ErrorKind::Unsupported,
            store,
            Operation::ReadRecord,
            message,
        )
    }

    fn checked(&self, value: &str) -> Result<Arc<str>> {
        if value.len() > Self::MAX_VALUE_BYTES {
            return Err(Error::invalid(format!(
                "the value of a leader has at most {} bytes, this one has {}",
                Self::MAX_VALUE_BYTES,
                value.len()
            )));
        }
        if !value.is_empty() && !self.keeps_values() {
            return Err(self.keeps_no_values());
        }
        Ok(value.into())
    }

    async fn campaign_until(
        &self,
        value: Arc<str>,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Leadership>> {
        let store = self.backend().store_name();
        let span = tracing::debug_span!("campaign", store, name = %self.name);
        let campaign = self.campaign_in_span(value, manner, until);
        campaign.instrument(span).await
    }

    async fn campaign_in_span(
        &self,
        value: Arc<str>,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Leadership>> {
        loop {
            if !self.is_fit(manner, until).await? {
                return Ok(None);
            }
            let wanted = Wanted::from(self.name.clone()).with_value(value.clone());
            let Some(guard) = self.locker.ask_for(wanted, manner, until).await? else {
                return Ok(None);
            };
            match self.begin_term(guard, &value).await? {
                Some(leadership) => return Ok(Some(leadership)),
                None if manner == Manner::Try || self.locker.clock().now() >= until => {
                    return Ok(None);
                }
                None => {}
            }
        }
    }

    /// Waits until this candidate is healthy. Returns `false` if it was not in time.
    ///
    /// # Errors
    /// Returns an error if the locker was shut down, or if there is no runtime.
    async fn is_fit(&self, manner: Manner, until: Moment) -> Result<bool> {
        let Some(health) = &self.health else {
            return Ok(true);
        };
        self.locker.check_open()?;
        tokio::select! {
            is_fit = self.is_fit_in_time(health, manner, until) => Ok(is_fit),
            closed = self.locker.closed() => Err(closed),
        }
    }

    async fn is_fit_in_time(&self, health: &HealthCheck, manner: Manner, until: Moment) -> bool {
        let clock = self.locker.clock();
        loop {
            if health.passes(clock).await {
                return true;
            }
            if manner == Manner::Try || clock.now() >= until {
                return false;
            }
            clock
                .sleep_until(until.min(clock.now() + health.every))
                .await;
        }
    }

    /// Begins the term of a candidate that has the lock. Returns `None` if it lost the lock again, or is not healthy any more.
    async fn begin_term(&self, guard: Guard, value: &Arc<str>) -> Result<Option<Leadership>> {
        if let Some(health) = &self.health
            && !health.passes(self.locker.clock()).await
        {
            let _ = guard.release().await;
            return Ok(None);
        }
        if let Ok(answers) = self.answers() {
            match guard.run(answers.publish(&guard, value)).await {
                Ok(Ok(Proclamation::Made)) => {}
                Ok(Ok(Proclamation::NotLeading)) => {
                    let still_holds = guard.extend(self.locker.ttl()).await.is_ok();
                    let _ = guard.release().await;
                    return if still_holds {
                        Err(self.record_is_ahead())
                    } else {
                        Ok(None)
                    };
                }
                Err(_lost) => {
                    let _ = guard.release().await;
                    return Ok(None);
                }
                Ok(Err(error)) => {
                    let _ = guard.release().await;
                    return Err(error);
                }
            }
        }
        // A candidate that has waited may have a short lease at first. It is short in case the candidate was dead, and it is not.
        if guard.valid_for() < self.locker.ttl() / 2
            && let Err(error) = guard.extend(self.locker.ttl()).await
        {
            tracing::debug!(name = %self.name, %error, "lease not extended yet");
        }
        let health = self.health.clone();
        self.locker.telemetry().elected();
        tracing::info!(name = %self.name, term = %guard.fence(), "leading");
        Ok(Some(Leadership::new(
            self.clone(),
            guard,
            value.clone(),
            health,
        )))
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("name", &self.name)
            .field("store", &self.locker.backend().store_name())
            .finish_non_exhaustive()
    }
}
