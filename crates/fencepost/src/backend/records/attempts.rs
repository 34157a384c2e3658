//! [`Attempts`]: reading and replacing a record until nobody else is faster.

use std::time::Duration;

use crate::claim::LockName;
use crate::clock::{Clock, Moment};
use crate::error::{Error, ErrorKind, Operation};
use crate::random::SystemRandom;
use crate::retry::Schedule;

/// How often others may be faster.
const MAX_ATTEMPTS: u32 = 64;
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The attempts to replace one record: each reads it, decides, and replaces it.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    clock: &'a dyn Clock,
    made: u32,
    /// When the last attempt began.
    began_at: Moment,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        Self {
            clock,
            made: 0,
            began_at: clock.now(),
        }
    }

    /// Waits until the next attempt should begin, so that clients that collided do not do so again: not at all before the first two, and then
    /// a random time that grows, and is longer if an attempt takes longer. Returns `false` if there were enough attempts.
    pub(crate) async fn next(&mut self) -> bool {
        if self.made == MAX_ATTEMPTS {
            return false;
        }
        if let Some(pauses) = self.made.checked_sub(2) {
            self.pause(pauses).await;
        }
        self.made += 1;
        self.began_at = self.clock.now();
        true
    }

    async fn pause(&self, pauses: u32) {
        let now = self.clock.now();
        let took = now.saturating_duration_since(self.began_at);
        let schedule = Schedule::full_jitter(took.max(SHORTEST_PAUSE), LONGEST_PAUSE);
        let pause = schedule.delay(pauses, &SystemRandom);
        self.clock.sleep_until(now + pause).await;
    }
}

/// Returns the error of a change that others were faster with, again and again.
pub(crate) fn too_contended(store: &'static str, operation: Operation, name: &LockName) -> Error {
    let message = format!(
        "others kept changing the record of {name}; try again later, or spread the load over several names"
    );
    Error::new(ErrorKind::Unavailable, store, operation, message)
}
