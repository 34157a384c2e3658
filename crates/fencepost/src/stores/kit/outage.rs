//! How long a waiter puts up with a store that fails.

use std::time::Duration;

use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Error, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A run of failures without an answer in between. Make a new one after every answer.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Option<Moment>,
    pause: Duration,
}

impl Outage {
    /// Waits a little, longer every time.
    ///
    /// # Errors
    /// Returns `error` if the outage has lasted for `longest`. A request made during the outage may have taken effect.
    pub(crate) async fn sit_out(&mut self, longest: Duration, error: Error) -> Result<()> {
        let now = BootClock.now();
        if now.since(*self.since.get_or_insert(now)) >= longest {
            return Err(error.with_effect(Effect::Maybe));
        }
        self.pause().await;
        Ok(())
    }

    /// The store has answered, though not as we would like: the time starts again, the pauses do not.
    #[cfg(feature = "postgres")]
    pub(crate) fn was_answered(&mut self) {
        self.since = None;
    }

    /// Waits a little, longer every time, however long it has lasted.
    pub(crate) async fn pause(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        BootClock.sleep_until(BootClock.now() + self.pause).await;
    }
}
