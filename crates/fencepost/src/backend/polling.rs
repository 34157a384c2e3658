//! Waiting for a store that cannot wake its clients: by asking again and again.

use std::time::Duration;

use super::outage::Outage;
use super::{Backend, Wait};
use crate::claim::{Claim, Grant};
use crate::error::Result;
use crate::random::SystemRandom;
use crate::retry::Schedule;

/// Asks until the lock is granted, or the store fails for good. [`Backend::acquire`] says how.
pub(super) async fn poll_until_granted<B: Backend + ?Sized>(
    backend: &B,
    claim: &Claim,
    wait: &Wait,
) -> Result<Grant> {
    let clock = backend.clock();
    let pauses = Schedule::full_jitter(Duration::from_millis(5), Duration::from_millis(50));
    let mut outage = Outage::on(&*clock);
    // How often the store has answered since the wait or the last outage began.
    let mut answers: u32 = 0;
    loop {
        match backend.try_acquire(claim).await {
            Ok(Some(grant)) => return Ok(grant),
            Ok(None) => {
                wait.report_busy();
                outage.end();
                let pause = pauses.delay(answers, &SystemRandom);
                answers = answers.saturating_add(1);
                clock.sleep_until(clock.now() + pause).await;
            }
            Err(error) => {
                answers = 0;
                let is_transient = error.is_transient();
                let longest = backend.max_outage();
                outage.after(error, wait, is_transient, longest).await?;
            }
        }
    }
}
