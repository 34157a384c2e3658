//! One call of a task: it joins the line of its name, waits for its turn there, or asks the store on behalf of the line. This file decides
//! how long an answer may take, and which answers count.

use std::sync::Arc;

use tracing::Instrument;

use super::Locker;
use crate::claim::Grant;
use crate::clock::{BoxFuture, Moment, within};
use crate::engine::{Duty, Entry, Hold, Queued, Turn, Wanted};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::guard::Guard;
use crate::housekeeping;
use crate::line::Manner;

/// How many unusable grants one task accepts before the locker gives up: leases that are shorter than the TTL, or over when they arrive.
const MAX_UNUSABLE_GRANTS: u32 = 3;

impl Locker {
    /// Asks for this part of a name, and reports the outcome to telemetry. Returns `None` if it is busy.
    pub(crate) async fn ask_for(
        &self,
        wanted: impl Into<Wanted>,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Guard>> {
        let (engine, wanted) = (&self.engine, wanted.into());
        let store = engine.backend.store_name();
        let span = tracing::debug_span!("acquire", store, name = %wanted.name);
        let telemetry = &engine.telemetry;
        let asked_at = telemetry.has_recorder.then(|| engine.clock.now());
        let (asked, was_contended) = self.join_line(wanted, manner, until).instrument(span).await;
        if was_contended {
            telemetry.contended();
        }
        match &asked {
            Ok(Some(hold)) => {
                telemetry.granted(asked_at.map(|at| hold.since.saturating_duration_since(at)))
            }
            Ok(None) => telemetry.busy(),
            Err(_) => telemetry.failed(),
        }
        asked.map(|hold| hold.map(|hold| Guard::new(hold, was_contended)))
    }

    /// Joins the line of the name, and returns a hold when the lock is granted. Also returns whether the lock was taken at first, which an
    /// error later does not change.
    async fn join_line(
        &self,
        wanted: Wanted,
        manner: Manner,
        until: Moment,
    ) -> (Result<Option<Arc<Hold>>>, bool) {
        let runtime = match self.engine.runtime_if_open() {
            Ok(runtime) => runtime,
            Err(error) => return (Err(error), false),
        };
        housekeeping::ensure_running(&self.engine, &runtime);
        match self.engine.join(wanted, manner) {
            Entry::Closed => (Err(self.engine.closed_error()), false),
            Entry::Busy => (Ok(None), true),
            Entry::Ask(duty) => {
                let wait = duty.request().wait.clone();
                let asked = self.ask(duty, manner, until).await;
                let was_contended = wait.was_busy() || matches!(asked, Ok(None));
                (asked, was_contended)
            }
            Entry::Queued(queued) => (self.ask_in_turn(queued, manner, until).await, true),
        }
    }

    /// Waits for the turn of this task, and then asks the store unless the lock is handed over.
    async fn ask_in_turn(
        &self,
        queued: Queued<'_>,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Arc<Hold>>> {
        match self.wait_in_line(queued, until).await? {
            Some(Turn::Granted(hold)) => Ok(Some(hold)),
            Some(Turn::Ask(duty)) => self.ask(*duty, manner, until).await,
            Some(Turn::Failed(error)) => Err(error),
            Some(Turn::Refused) | None => Ok(None),
        }
    }

    /// Returns `None` if the turn did not come in time.
    async fn wait_in_line(&self, mut queued: Queued<'_>, until: Moment) -> Result<Option<Turn>> {
        let turn = match until {
            Moment::FAR => Some(queued.turn().await),
            until => within(&*self.engine.clock, until, queued.turn()).await,
        };
        match turn {
            Some(Some(turn)) => Ok(Some(turn)),
            // A line drops a sender without a message only when the whole locker is dropped.
            Some(None) => Err(self.engine.closed_error()),
            None if queued.store_has_answered() => Ok(None),
            None => Err(self.unanswered()),
        }
    }

    /// Asks the store on behalf of this task and everybody behind it. The future is boxed, so that tasks that only wait in line do not
    /// reserve space for it.
    fn ask(
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
        let mut unusable_grants = 0;
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.request(&duty, manner, until) => answer,
                () = engine.closed() => Err(engine.closed_error().with_effect(Effect::Maybe)),
            };
            let now = engine.clock.now();
            match answer {
                Ok(Answer::Granted(grant)) => match self.flaw_of(&grant, now) {
                    None => return duty.granted(grant, now).map(Some),
                    // If asked again, the store extends the same lease.
                    Some(_) if unusable_grants < MAX_UNUSABLE_GRANTS => {
                        duty.request().wait.report_possible_effect();
                        unusable_grants += 1;
                    }
                    Some(flaw) => return Err(duty.failed(self.unusable(flaw))),
                },
                Ok(Answer::Busy) => {
                    duty.busy();
                    return Ok(None);
                }
                // When the duty is dropped, the next task in line continues with the same request.
                Ok(Answer::NotInTime) => return Ok(None),
                Ok(Answer::Unanswered) => return Err(self.unanswered()),
                Err(error) => return Err(duty.failed(error)),
            }
        }
    }

    pub(crate) fn unanswered(&self) -> Error {
        self.engine.unanswered(Operation::Acquire)
    }

    /// Returns why this grant cannot be used, or `None` if it can.
    fn flaw_of(&self, grant: &Grant, now: Moment) -> Option<Flaw> {
        let settings = &self.engine.settings;
        // A store may grant a waiter a short lease. The keeper extends it, but only if keep-alive is on.
        if !settings.keep_alive && grant.lease < settings.ttl {
            Some(Flaw::Short)
        } else if now >= grant.valid_until() {
            Some(Flaw::Over)
        } else {
            None
        }
    }

    fn unusable(&self, flaw: Flaw) -> Error {
        let (kind, message) = match flaw {
            Flaw::Short => (
                ErrorKind::Internal,
                "the store grants less than the TTL, and keep-alive is off",
            ),
            Flaw::Over => (
                ErrorKind::Timeout,
                "every grant arrived after its own end: the store is slower than the TTL",
            ),
        };
        let error = self.engine.error(kind, Operation::Acquire, message);
        error.with_effect(Effect::Maybe)
    }

    /// Sends one request to the store. It is limited by `until` and, while the store has not answered, by the store timeout.
    async fn request(&self, duty: &Duty, manner: Manner, until: Moment) -> Result<Answer> {
        let engine = &self.engine;
        let clock = &*engine.clock;
        let request = duty.request();
        let silent_until = clock.now() + engine.settings.store_timeout;
        if manner == Manner::Try {
            let attempt = engine.backend.try_acquire(&request.claim);
            let answer = within(clock, silent_until, attempt).await;
            return match answer.unwrap_or_else(|| Err(self.unanswered()))? {
                Some(grant) => Ok(Answer::Granted(grant)),
                None => Ok(Answer::Busy),
            };
        }
        let mut waiting = engine.backend.acquire(&request.claim, &request.wait);
        let answer = match within(clock, silent_until.min(until), &mut waiting).await {
            None if request.wait.was_busy() => match until {
                Moment::FAR => Some(waiting.await),
                until => within(clock, until, &mut waiting).await,
            },
            answer => answer,
        };
        match answer {
            Some(grant) => Ok(Answer::Granted(grant?)),
            None if request.wait.was_busy() => Ok(Answer::NotInTime),
            None if until < silent_until => Ok(Answer::Unanswered),
            None => Err(self.unanswered()),
        }
    }
}

/// The result of a request.
enum Answer {
    Granted(Grant),
    Busy,
    NotInTime,
    /// This task ran out of time before the store answered. The store may still answer the tasks behind it.
    Unanswered,
}

/// Why a grant cannot be used.
enum Flaw {
    /// The lease is shorter than the TTL, and nobody would extend it.
    Short,
    /// The lease was over when the answer arrived, because the process was stopped or the store was slow.
    Over,
}
