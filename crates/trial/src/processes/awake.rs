//! Notices that the machine was suspended during a trial.
//!
//! The lab's clock stands still then, while leases at servers and in files go on. A history from such a run would show leases that end too
//! early.

use std::time::{Duration, Instant};

use fencepost::clock::{BootClock, Clock, Moment};

use super::Stopped;

/// How much longer the machine may have been up than the lab's clock says. Both clocks are read one after the other.
const TOLERANCE: Duration = Duration::from_millis(100);

/// The time at which a trial began, on a clock that stands still while the machine is suspended, and on one that does not.
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

    /// Returns an error if the machine was suspended since the beginning.
    pub(crate) fn check(self) -> Result<(), Stopped> {
        let up = BootClock.now().saturating_duration_since(self.up_since);
        self.judge(up, self.since.elapsed())
    }

    fn judge(self, up: Duration, awake: Duration) -> Result<(), Stopped> {
        let suspended = up.saturating_sub(awake);
        if suspended <= TOLERANCE {
            return Ok(());
        }
        Err(Stopped::Lab(format!(
            "the machine was suspended for {:.1} s during the trial. Leases went on, and the lab's clock stood still, so this run proves nothing: repeat it",
            suspended.as_secs_f64()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_machine_ends_the_trial() {
        let awake = Awake::begin();
        let s = Duration::from_secs;
        let ended = awake.judge(s(63), s(3)).unwrap_err().to_string();
        assert!(
            ended.starts_with("the machine was suspended for 60.0 s"),
            "{ended}"
        );
    }

    #[test]
    fn a_machine_that_is_awake_or_only_busy_does_not() {
        let awake = Awake::begin();
        let ms = Duration::from_millis;
        assert!(awake.judge(ms(3_000), ms(3_000)).is_ok());
        assert!(awake.judge(ms(3_000), ms(9_000)).is_ok(), "read late");
        assert!(awake.check().is_ok());
    }
}
