//! One task asks the store on behalf of its line: how long the answer may take, and which answers count.

use std::sync::Arc;

use super::Locker;
use crate::claim::Grant;
use crate::clock::{BoxFuture, Moment, within};
use crate::engine::{Duty, Hold};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::line::Manner;

/// How many grants in a row may arrive after they have already ended before the locker gives up.
const MAX_STALE_GRANTS: u32 = 3;

impl Locker {
    /// Asks the store on behalf of this task and everybody behind it. The future is boxed, so that tasks that only wait in line do not
    /// reserve space for it.
    pub(super) fn ask(
        &self,
        duty: Duty,
        manner: Manner,
        until: Moment,
    ) -> BoxFuture<'_, Result<Option<Arc<Hold>>>> {
        Box::pin(self.ask_until_answered(duty, manner, until))
    }

    async fn ask_until_answered(
        &self,
        duty: Duty,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Arc<Hold>>> {
        let engine = &self.engine;
        // Locks that were dropped just now are released first, so that the store does not make this task wait for them.
        if engine.reaper.is_busy() {
            tokio::task::yield_now().await;
        }
        let mut stale = 0;
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.request(&duty, manner, until) => answer,
                () = engine.closed() => Err(engine.closed_error().with_effect(Effect::Maybe)),
            };
            let now = engine.clock.now();
            match answer {
                // Without keep-alive nobody would extend the short lease, so the same owner asks again for the full time.
                Ok(Answer::Granted(grant)) if self.is_cut_short(&grant) => {
                    duty.drive().wait.leave_something();
                }
                Ok(Answer::Granted(grant)) if now < grant.valid_until() => {
                    return duty.granted(grant, now).map(Some);
                }
                // The process was stopped or slow between request and answer. If asked again, the store extends the same lease.
                Ok(Answer::Granted(_)) if stale < MAX_STALE_GRANTS => {
                    duty.drive().wait.leave_something();
                    stale += 1;
                }
                Ok(Answer::Granted(_)) => {
                    let message =
                        "every grant arrived after its own end: the store is slower than the TTL";
                    let store = engine.backend.store_name();
                    let error = Error::new(ErrorKind::Timeout, store, Operation::Acquire, message)
                        .with_effect(Effect::Maybe);
                    return Err(duty.failed(error));
                }
                Ok(Answer::Busy) => {
                    duty.busy();
                    return Ok(None);
                }
                // When the duty is dropped, the next task in line continues with the same request.
                Ok(Answer::NotInTime) => return Ok(None),
                Ok(Answer::Unheard) => return Err(engine.unanswered(Operation::Acquire)),
                Err(error) => return Err(duty.failed(error)),
            }
        }
    }

    /// Returns whether the lease is shorter than the TTL and nobody would extend it. A store may grant a waiter a short lease, which the
    /// keeper extends if keep-alive is on.
    fn is_cut_short(&self, grant: &Grant) -> bool {
        let settings = &self.engine.settings;
        !settings.keep_alive && grant.lease < settings.ttl
    }

    /// Sends one request to the store. It is limited by `until` and, while the store has not answered, by the store timeout.
    async fn request(&self, duty: &Duty, manner: Manner, until: Moment) -> Result<Answer> {
        let engine = &self.engine;
        let clock = &*engine.clock;
        let drive = duty.drive();
        let silent_until = clock.now() + engine.settings.store_timeout;
        if manner == Manner::Try {
            let attempt = engine.backend.try_acquire(&drive.claim);
            let answer = within(clock, silent_until, attempt).await;
            return match answer.unwrap_or_else(|| Err(engine.unanswered(Operation::Acquire)))? {
                Some(grant) => Ok(Answer::Granted(grant)),
                None => Ok(Answer::Busy),
            };
        }
        let mut waiting = engine.backend.acquire(&drive.claim, &drive.wait);
        let answer = match within(clock, silent_until.min(until), &mut waiting).await {
            None if drive.wait.was_heard() => match until {
                Moment::FAR => Some(waiting.await),
                until => within(clock, until, &mut waiting).await,
            },
            answer => answer,
        };
        match answer {
            Some(grant) => Ok(Answer::Granted(grant?)),
            None if drive.wait.was_heard() => Ok(Answer::NotInTime),
            None if until < silent_until => Ok(Answer::Unheard),
            None => Err(engine.unanswered(Operation::Acquire)),
        }
    }
}

/// The result of a request.
enum Answer {
    Granted(Grant),
    Busy,
    NotInTime,
    /// This task ran out of time before the store answered. The store may still answer the tasks behind it.
    Unheard,
}
