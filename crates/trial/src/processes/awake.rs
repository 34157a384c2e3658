//! Notices that the machine was suspended during a trial.
//!
//! The lab's clock stands still then, while leases at servers and in files go on. A history from such a run shows leases that end too
//! early, so the lab records it there.

use std::time::{Duration, Instant};

use fencepost::clock::{BootClock, Clock, Moment};

/// How much longer the machine may have been up than the lab's clock says. Both clocks are read one after the other.
const TOLERANCE: Duration = Duration::from_millis(100);

/// A time during a trial, on a clock that stands still while the machine is suspended, and on one that does not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awake {
    since: Instant,
    up_since: Moment,
}

impl Awake {
    /// Begins to watch.
    pub(crate) fn begin() -> Self {
        // In this order: if the lab is delayed between the two, it sees too little of a suspension, never one that was not there.
        let since = Instant::now();
        Self {
            since,
            up_since: BootClock.now(),
        }
    }

    /// Returns for how many milliseconds the machine was suspended since the beginning, if it was. Then begins again.
    pub(crate) fn slept_ms(&mut self) -> Option<f64> {
        let up = BootClock.now().saturating_duration_since(self.up_since);
        let slept = asleep(up, self.since.elapsed())?;
        *self = Self::begin();
        Some(slept.as_secs_f64() * 1e3)
    }
}

/// Returns for how long a machine was suspended that was up for so long, and awake for so long.
fn asleep(up: Duration, awake: Duration) -> Option<Duration> {
    let slept = up.saturating_sub(awake);
    (slept > TOLERANCE).then_some(slept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_was_up_for_longer_than_it_was_awake_was_suspended() {
        let ms = Duration::from_millis;
        assert_eq!(asleep(ms(63_000), ms(3_000)), Some(ms(60_000)));
        assert_eq!(asleep(ms(3_000), ms(3_000)), None);
        assert_eq!(asleep(ms(3_000), ms(9_000)), None, "read late");
        assert_eq!(Awake::begin().slept_ms(), None);
    }

    #[test]
    fn each_time_is_told_once() {
        let mut awake = Awake::begin();
        // As if it had been suspended up to now.
        awake.up_since = awake.up_since.saturating_sub(TOLERANCE * 2);
        let slept_ms = awake.slept_ms().unwrap();
        assert!(slept_ms >= 199.0, "{slept_ms}");
        assert_eq!(awake.slept_ms(), None);
    }
}
