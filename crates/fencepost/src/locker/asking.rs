//! Asking the store: how long an answer may take, and which answers count.

use std::sync::Arc;

use super::Locker;
use crate::claim::Grant;
use crate::clock::{BoxFuture, Moment, within};
use crate::engine::{Duty, Hold};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::line::Manner;

/// How often in a row a grant may arrive after its own end before the locker gives up.
const STALE_GRANTS: u32 = 3;

impl Locker {
    /// Asks the store, for this task and everybody behind it. Boxed, so that those who only wait in line do not carry the
    /// room for it.
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
        // What was dropped just now is given back first: the store then need not make this task wait for it.
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
                // Nobody would renew it: the same owner asks again for the full time.
                Ok(Answer::Granted(grant)) if self.is_cut_short(&grant) => {
                    duty.drive().wait.leave_something();
                }
                Ok(Answer::Granted(grant)) if grant_is_fresh(&grant, now) => {
                    return duty.granted(grant, now).map(Some);
                }
                // Stopped or slowed down between question and answer. The store extends the same lease when asked again.
                Ok(Answer::Granted(_)) if stale < STALE_GRANTS => {
                    duty.drive().wait.leave_something();
                    stale += 1;
                }
                Ok(Answer::Granted(_)) => {
                    let message =
                        "every grant arrived after its own end: the store is slower than the TTL";
                    let store = engine.backend.store();
                    let error = Error::new(ErrorKind::Timeout, store, Operation::Acquire, message)
                        .with_effect(Effect::Maybe);
                    return Err(duty.failed(error));
                }
                Ok(Answer::Busy) => {
                    duty.busy();
                    return Ok(None);
                }
                // Dropping the duty lets the next in line go on with the same request.
                Ok(Answer::NotInTime) => return Ok(None),
                Ok(Answer::Unheard) => return Err(engine.unanswered(Operation::Acquire)),
                Err(error) => return Err(duty.failed(error)),
            }
        }
    }

    /// A store may grant a waiter less than the TTL, for the keeper to extend.
    fn is_cut_short(&self, grant: &Grant) -> bool {
        let settings = &self.engine.settings;
        !settings.keep_alive && grant.lease < settings.ttl
    }

    /// One request at the store, bounded by `until` and, as long as the store has not answered, by the store timeout.
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

/// What became of a request.
enum Answer {
    Granted(Grant),
    Busy,
    NotInTime,
    /// This task's own time was over before the store had answered; it may yet answer those behind it.
    Unheard,
}

fn grant_is_fresh(grant: &Grant, now: Moment) -> bool {
    now < grant.asked_at
        + grant
            .lease
            .saturating_sub(crate::lease::margin(grant.lease))
}
