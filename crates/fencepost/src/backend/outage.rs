//! [`Outage`]: how long a waiter tolerates a store that fails, and how long it pauses between attempts.

use std::time::Duration;

use super::Wait;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Error, Result};

/// How long a wait tolerates a store that fails, unless the store was told otherwise.
pub(crate) const USUAL_LIMIT: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A series of failures without an answer in between.
#[derive(Debug)]
pub(crate) struct Outage<'a> {
    clock: &'a dyn Clock,
    since: Option<Moment>,
    pause: Duration,
}

impl Default for Outage<'static> {
    /// Creates one that has not begun, for a store on [`BootClock`].
    fn default() -> Self {
        Self::on(&BootClock)
    }
}

impl<'a> Outage<'a> {
    /// Creates one that has not begun, for a store with this clock.
    pub(crate) fn on(clock: &'a dyn Clock) -> Self {
        Self {
            clock,
            since: None,
            pause: Duration::ZERO,
        }
    }

    /// Records that the store answered: the next failure begins another outage.
    pub(crate) fn end(&mut self) {
        *self = Self::on(self.clock);
    }

    /// Pauses before the next attempt if the wait may continue: its owner stands in line, and the failure is transient.
    ///
    /// # Errors
    /// Returns `error` if the wait must end, or if the outage has lasted for `longest`. An owner that has stood in line may still be there,
    /// whatever happened to the last request, so the effect is `Maybe` then.
    pub(crate) async fn after(
        &mut self,
        error: Error,
        wait: &Wait,
        is_transient: bool,
        longest: Duration,
    ) -> Result<()> {
        if !wait.was_busy() {
            return Err(error);
        }
        if !is_transient {
            return Err(error.with_effect(Effect::Maybe));
        }
        self.sit_out(longest, error).await
    }

    async fn sit_out(&mut self, longest: Duration, error: Error) -> Result<()> {
        let now = self.clock.now();
        if now.saturating_duration_since(*self.since.get_or_insert(now)) >= longest {
            return Err(error.with_effect(Effect::Maybe));
        }
        tracing::debug!(%error, "the store does not answer; the wait continues");
        self.pause().await;
        Ok(())
    }

    /// Records that the store answered with a refusal: the time of the outage starts again, but the pauses stay as long as they are.
    #[cfg(feature = "postgres")]
    pub(crate) fn was_answered(&mut self) {
        self.since = None;
    }

    /// Pauses before the next attempt, longer every time, without limiting how long the outage may last.
    pub(crate) async fn pause(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let until = self.clock.now() + self.pause;
        self.clock.sleep_until(until).await;
    }
}
