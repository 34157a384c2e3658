//! Waiting for a lock without a common line: a waiter learns from the servers that the key is gone, and asks again.

use std::time::Duration;

use super::acquire::{AskingOrder, Busy};
use super::asking::OpenRequests;
use super::hub::Hub;
use crate::claim::Claim;
use crate::clock::{BootClock, Clock, within};
use crate::error::Operation;

/// The pause if no server announces when a key goes away.
const POLL: Duration = Duration::from_millis(25);
/// The longest pause in any case, because notifications can be lost.
const SLOW_POLL: Duration = Duration::from_secs(1);
/// Servers round times to milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

impl Hub {
    /// Waits until a key is gone, the lease of its holder is over, or a while has passed. Returns the order in which to ask then.
    pub(super) async fn until_it_may_be_free(&self, claim: &Claim, busy: &Busy) -> AskingOrder {
        let bell = self.bells.of(claim.name.as_str());
        let rung = bell.rung();
        tokio::pin!(rung);
        // Register before checking, so that a change just after the check is not missed.
        rung.as_mut().enable();
        let now = BootClock.now();
        let mut asking = OpenRequests::new();
        for (at, server) in self.servers.iter().enumerate() {
            let name = claim.name.clone();
            asking.ask(at, server, |server, _| async move {
                let session = server.session(Operation::Acquire).await?;
                Ok(session.watch(name.as_str()).await)
            });
        }
        let (mut free, mut watched) = (0, 0);
        while let Some((_, answer)) = asking
            .next(now + self.answer_timeout(claim.ttl), true)
            .await
        {
            match answer {
                Ok(Some(true)) => watched += 1,
                Ok(Some(false)) => free += 1,
                Ok(None) | Err(_) => {}
            }
        }
        asking.leave();
        // A leftover key on the first server must not keep out everybody who could get the others.
        if free >= self.majority() {
            return AskingOrder::AllAtOnce;
        }
        let interval = if watched > 0 { SLOW_POLL } else { POLL };
        let free_at = busy.free_at.map(|at| at + ROUNDING);
        let until = (now + interval).min(free_at.unwrap_or(now + interval));
        within(&BootClock, until, rung).await;
        AskingOrder::FirstFirst
    }
}
