//! Waiting for a lock without a common line: a waiter learns from the servers that the key is gone, and asks again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use tokio::sync::Notify;

use super::acquire::{AskingOrder, Busy, Outcome};
use super::asking::OpenRequests;
use super::hub::Hub;
use crate::backend::Wait;
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Effect, ErrorKind, Operation, Result};
use crate::mutex::lock;
use crate::random::SystemRandom;
use crate::retry::Schedule;
use crate::stores::kit::outage::Outage;
use crate::stores::redis::failure as redis_failure;
use crate::stores::redis::scripts::ReadValue;

/// The pause before asking again, so that waiters with the same notification do not all ask at once. It grows each time nobody got a
/// majority.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The pause if no server announces when a key goes away.
const POLL: Duration = Duration::from_millis(25);
/// The longest pause in any case, because notifications can be lost.
const SLOW_POLL: Duration = Duration::from_secs(1);
/// Servers round times to milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

impl Hub {
    pub(super) async fn acquire(&self, claim: &Claim, wait: &Wait) -> Result<Grant> {
        let schedule = Schedule::full_jitter(FIRST_PAUSE, LONGEST_PAUSE);
        let mut manner = AskingOrder::AllAtOnce;
        let mut outage = Outage::default();
        let mut splits = 0;
        loop {
            match self.attempt(claim, manner).await {
                Ok(Outcome::Granted(grant)) => return Ok(grant),
                Ok(Outcome::Busy(busy)) => {
                    wait.heard();
                    outage = Outage::default();
                    splits = if busy.is_split { splits + 1 } else { 0 };
                    manner = if busy.is_split {
                        AskingOrder::FirstFirst
                    } else {
                        self.until_it_may_be_free(claim, &busy).await
                    };
                    let pause = schedule.delay(splits, &SystemRandom);
                    BootClock.sleep_until(BootClock.now() + pause).await;
                }
                Err(error) if wait.was_heard() && is_transient(&error) => {
                    outage.sit_out(self.settings.max_outage, error).await?;
                }
                Err(error) if wait.was_heard() => return Err(error.with_effect(Effect::Maybe)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a key is gone, the lease of its holder is over, or a while has passed. Returns the manner in which to ask then.
    async fn until_it_may_be_free(&self, claim: &Claim, busy: &Busy) -> AskingOrder {
        let bell = self.bells.of(claim.name.as_str());
        let rung = bell.notify.notified();
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

fn is_transient(error: &crate::error::Error) -> bool {
    error.kind() == ErrorKind::Timeout || redis_failure::is_transient(error)
}

/// The names that this process waits for, each with its bell.
#[derive(Default)]
pub(super) struct Bells(Mutex<HashMap<Box<str>, Arc<Notify>>>);

/// Rings when a watched key of this name changes.
struct Bell<'a> {
    bells: &'a Bells,
    name: &'a str,
    notify: Arc<Notify>,
}

impl Bells {
    fn of<'a>(&'a self, name: &'a str) -> Bell<'a> {
        let mut bells = lock(&self.0);
        let notify = bells.entry(name.into()).or_default().clone();
        Bell {
            bells: self,
            name,
            notify,
        }
    }

    /// Wakes the waiters for these keys, or all waiters if `None`.
    pub(super) fn ring(&self, changed: Option<&[Value]>) {
        let bells = lock(&self.0);
        match changed {
            None => bells.values().for_each(|bell| bell.notify_waiters()),
            Some(keys) => keys
                .iter()
                .filter_map(|key| bells.get(key.text()?))
                .for_each(|bell| bell.notify_waiters()),
        }
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        let mut bells = lock(&self.bells.0);
        // Two references are left: ours, and the one in the table.
        if Arc::strong_count(&self.notify) == 2 {
            bells.remove(self.name);
        }
    }
}
