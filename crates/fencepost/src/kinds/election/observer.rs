//! [`Observer`]: reports who leads, and every change.

use std::time::Duration;

use super::store::Seen;
use super::{Election, Leader};
use crate::backend::leaders::Standing;
use crate::error::{Error, Result};
use crate::fence::Fence;

/// The shortest time between two questions to the store.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause after a store that did not answer.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What an [`Observer`] reports.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone)]
pub enum Observed {
    /// This candidate leads, or has changed its value.
    Leader(Leader),
    /// Nobody leads, or the leader has not written its value yet.
    None,
    /// The store does not answer, so nobody can tell who leads. The observer asks again until it does.
    Disconnected(Error),
}

impl Observed {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Leader(one), Self::Leader(other)) => {
                (one.term, &one.value) == (other.term, &other.value)
            }
            (Self::None, Self::None) | (Self::Disconnected(_), Self::Disconnected(_)) => true,
            _ => false,
        }
    }
}

/// Reports who leads: first the current state, then every newer one. [`Election::observe`] creates it.
///
/// An observer may skip states that do not last, but it never goes back: each leader that it reports has at least the term of the one before.
/// It does not take part in the election.
///
/// On a store that keeps the value in a record, the end of a leader that did not resign is noticed at most two seconds after its lease ends.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    /// What the store answered last. `None` if it must be asked at once.
    seen: Option<Standing>,
    reported: Option<Observed>,
    /// The largest term that was reported.
    latest: Option<Fence>,
    failures: u32,
}

impl Observer {
    pub(super) fn new(election: Election) -> Self {
        Self {
            election,
            seen: None,
            reported: None,
            latest: None,
            failures: 0,
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn clock(&self) -> std::sync::Arc<dyn crate::clock::Clock> {
        self.election.backend().clock()
    }

    /// Waits for the next state, and returns it. The first call returns the current state.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::kinds::election::Observed;
    ///
    /// let election = locker.election("scheduler")?;
    /// let mut observer = election.observe()?;
    /// assert!(matches!(observer.next().await, Observed::None));
    /// let leadership = election.campaign("one").await?;
    /// assert!(matches!(observer.next().await, Observed::Leader(leader) if &*leader.value == "one"));
    /// # drop(leadership);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost: the next call returns what this one would have returned, or a newer state.
    pub async fn next(&mut self) -> Observed {
        loop {
            self.until_due().await;
            let asked = self.ask().await;
            if let Some(news) = self.take_in(asked) {
                return news;
            }
        }
    }

    /// Waits until it makes sense to ask.
    async fn until_due(&self) {
        let clock = self.election.locker.clock();
        if self.failures > 0 {
            let pause = PAUSE_MIN * 2_u32.saturating_pow(self.failures.min(10));
            clock.sleep_until(clock.now() + pause.min(PAUSE_MAX)).await;
        }
        if let Some(seen) = &self.seen {
            let not_before = clock.now() + PAUSE_MIN;
            if let Ok(answers) = self.election.answers() {
                answers.changed(seen).await;
            }
            clock.sleep_until(not_before).await;
        }
    }

    async fn ask(&self) -> Result<Seen> {
        self.election.answers()?.standing().await
    }

    /// Takes in an answer of the store. Returns what is new in it.
    fn take_in(&mut self, asked: Result<Seen>) -> Option<Observed> {
        let state = match asked {
            Ok(seen) => {
                self.failures = 0;
                self.seen = Some(seen.standing);
                seen.leader.map_or(Observed::None, Observed::Leader)
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.seen = None;
                Observed::Disconnected(error)
            }
        };
        if let Observed::Leader(leader) = &state {
            // A server that lags behind, or a store that went back.
            if self.latest > Some(leader.term) {
                return None;
            }
            self.latest = Some(leader.term);
        }
        if self
            .reported
            .as_ref()
            .is_some_and(|last| last.is_same(&state))
        {
            return None;
        }
        self.reported = Some(state.clone());
        Some(state)
    }
}
