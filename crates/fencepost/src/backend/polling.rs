//! Waiting for a store that cannot wake its clients: by asking again and again.

use std::time::Duration;

use super::{Backend, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::Moment;
use crate::error::{Effect, Result};
use crate::random::SystemRandom;
use crate::retry::Schedule;

/// How long a wait tolerates a store that fails.
const MAX_OUTAGE: Duration = Duration::from_secs(30);

/// Asks until the lock is granted, or the store fails for good. [`Backend::acquire`] says how.
pub(super) async fn poll_until_granted<B: Backend + ?Sized>(
    backend: &B,
    claim: &Claim,
    wait: &Wait,
) -> Result<Grant> {
    let clock = backend.clock();
    let mut pauses = Pauses::default();
    loop {
        match backend.try_acquire(claim).await {
            Ok(Some(grant)) => return Ok(grant),
            Ok(None) => {
                wait.report_busy();
                pauses.answered();
            }
            Err(error) if !wait.was_busy() => return Err(error),
            Err(error) => {
                let lasted = pauses.failed(clock.now());
                if !error.is_transient() || lasted >= MAX_OUTAGE {
                    return Err(error.with_effect(Effect::Maybe));
                }
            }
        }
        clock.sleep_until(clock.now() + pauses.next()).await;
    }
}

/// The pauses between the attempts: short and random while the store answers, and growing while it fails.
#[derive(Default)]
struct Pauses {
    /// How many pauses there were since the store began to answer, or to fail.
    retry: u32,
    failing_since: Option<Moment>,
}

impl Pauses {
    fn answered(&mut self) {
        if self.failing_since.take().is_some() {
            self.retry = 0;
        }
    }

    /// Returns how long the store has been failing.
    fn failed(&mut self, now: Moment) -> Duration {
        if self.failing_since.is_none() {
            self.retry = 0;
        }
        let since = *self.failing_since.get_or_insert(now);
        now.saturating_duration_since(since)
    }

    fn next(&mut self) -> Duration {
        let schedule = if self.failing_since.is_some() {
            Schedule::exponential(Duration::from_millis(50), Duration::from_secs(1))
        } else {
            Schedule::full_jitter(Duration::from_millis(5), Duration::from_millis(50))
        };
        let pause = schedule.delay(self.retry, &SystemRandom);
        self.retry = self.retry.saturating_add(1);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_during_an_outage_and_start_again_after_it() {
        let mut pauses = Pauses::default();
        let start = Moment::ZERO + MAX_OUTAGE;
        assert!(pauses.next() <= Duration::from_millis(50));
        let mut last = Duration::ZERO;
        for second in 0..10 {
            let passed = Duration::from_secs(second);
            assert_eq!(pauses.failed(start + passed), passed);
            let pause = pauses.next();
            assert!(
                pause >= last && pause <= Duration::from_secs(1),
                "{pause:?}"
            );
            last = pause;
        }
        assert_eq!(last, Duration::from_secs(1));
        pauses.answered();
        assert!(pauses.next() <= Duration::from_millis(50));
        let later = start + MAX_OUTAGE;
        assert_eq!(pauses.failed(later), Duration::ZERO, "a new outage");
        assert_eq!(pauses.next(), Duration::from_millis(50));
    }
}
