//! Waiting for a share: the owner stands in the record, and looks at it whenever something may have changed.

use std::time::Duration;

use super::Shares;
use super::records::{Reading, key};
use super::requests::Asked;
use crate::backend::outage::Outage;
use crate::backend::{Backend, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::error::{Operation, Result};

/// How long a waiter rests at most, in case the store could not tell it of a change.
const LONGEST_NAP: Duration = Duration::from_secs(3);
/// How long it rests at least before it looks again because of the time.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

impl Shares {
    pub(super) async fn wait_for(&self, claim: &Claim, wait: &Wait) -> Result<Grant> {
        let mut outage = Outage::on(&*self.clock);
        loop {
            match self.ask(claim, Some(wait)).await {
                Ok(Asked::Granted(grant)) => return Ok(grant),
                Ok(Asked::Waits { reading, joined }) => {
                    outage.end();
                    // Its own replacement is a change, too: it has to read the record again before it can rest.
                    if !joined {
                        self.rest(&claim.name, &reading).await?;
                    }
                }
                // A claim with a wait is never just busy.
                Ok(Asked::Busy) => tokio::task::yield_now().await,
                Err(error) => {
                    let is_transient = error.is_transient();
                    let longest = self.max_outage();
                    outage.after(error, wait, is_transient, longest).await?;
                }
            }
        }
    }

    /// Completes when the record may have changed, or when a lease or a turn in it ends.
    async fn rest(&self, name: &LockName, reading: &Reading) -> Result<()> {
        let records = self.records(Operation::Acquire)?;
        let event = reading.roster.next_event();
        let left = event.map_or(LONGEST_NAP, |at| at.saturating_sub(reading.now));
        let until = self.clock.now() + left.clamp(SHORTEST_NAP, LONGEST_NAP);
        let key = key(name);
        tokio::select! {
            () = records.changed(&key, &reading.snapshot) => {}
            () = self.clock.sleep_until(until) => {}
        }
        Ok(())
    }
}
