//! What a task owns while it waits or asks. Each of these can be dropped at any point, and leaves the line in order.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::hold::Hold;
use super::{Engine, LineKey, Turn};
use crate::claim::Grant;
use crate::clock::Moment;
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::lease::Lease;
use crate::line::{StoreRequest, Ticket};

/// A place in a line. Dropping it leaves the line.
pub(crate) struct Queued<'a> {
    engine: &'a Engine,
    key: LineKey,
    ticket: Ticket,
    turn: oneshot::Receiver<Turn>,
    /// Whether the turn has come. The sender removed the place from the line before.
    served: bool,
}

impl<'a> Queued<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        key: LineKey,
        ticket: Ticket,
        turn: oneshot::Receiver<Turn>,
    ) -> Self {
        Self {
            engine,
            key,
            ticket,
            turn,
            served: false,
        }
    }

    /// Completes with the turn. Returns `None` if the line is gone without a message, and with it the place.
    pub(crate) async fn turn(&mut self) -> Option<Turn> {
        let turn = (&mut self.turn).await.ok();
        self.served = true;
        turn
    }

    /// Returns whether the store has answered the task that asks on behalf of this line.
    pub(crate) fn store_has_answered(&self) -> bool {
        let answered = self
            .engine
            .with_line_at(&self.key, |line| line.store_has_answered());
        answered.unwrap_or(true)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        let ticket = self.ticket;
        self.engine
            .with_line_at(&self.key, |line| line.leave(ticket));
    }
}

/// The duty to ask the store on behalf of a whole line. Dropping it passes the duty on.
pub(crate) struct Duty {
    engine: Arc<Engine>,
    request: Option<StoreRequest>,
}

impl Duty {
    pub(crate) fn new(engine: Arc<Engine>, request: StoreRequest) -> Self {
        Self {
            engine,
            request: Some(request),
        }
    }

    pub(crate) fn request(&self) -> &StoreRequest {
        match &self.request {
            Some(request) => request,
            None => unreachable!("a duty is done only by consuming it"),
        }
    }

    /// Records that the store granted the claim.
    ///
    /// # Errors
    /// Returns an error if the grant cannot be used because it carries no valid fence or the locker was shut down. The grant is released
    /// then.
    pub(crate) fn granted(mut self, grant: Grant, now: Moment) -> Result<Arc<Hold>> {
        let engine = self.engine.clone();
        if grant.epoch >= Fence::EPOCH_END {
            let message = "the store's fence counter is used up";
            let error = engine.error(ErrorKind::FenceExhausted, Operation::Acquire, message);
            return Err(self.failed(error.with_effect(Effect::Maybe)));
        }
        let lease = Arc::new(Lease::new(self.request().claim.clone(), grant, now));
        let refused = engine.with_line(&lease.claim, |line| line.granted(&lease, now));
        let Some(Some(refused)) = refused else {
            let error = engine.closed_error().with_effect(Effect::Maybe);
            return Err(self.failed(error));
        };
        self.request = None;
        for sender in refused {
            engine.deliver(sender, Turn::Refused);
        }
        let due_at = if engine.settings.keep_alive {
            lease.renew_at()
        } else {
            lease.valid_until()
        };
        engine.alarm.wake_by(due_at);
        engine.alarm.ring_if_doubted(&lease);
        Ok(engine.hold(lease, 0, now))
    }

    /// Records that the store told the task, which only tried, that the lock is taken.
    pub(crate) fn busy(mut self) {
        if let Some(request) = self.request.take() {
            let after = self
                .engine
                .with_line(&request.claim, |line| line.busy(request.claim.owner));
            if let Some(after) = after {
                for sender in after.refused {
                    self.engine.deliver(sender, Turn::Refused);
                }
                self.engine.deliver_duty(after.next);
            }
        }
    }

    /// Records that the store failed, which fails everybody in line. Returns the error for the task itself.
    pub(crate) fn failed(mut self, error: Error) -> Error {
        if let Some(request) = self.request.take() {
            let claim = &request.claim;
            let waiting = self
                .engine
                .with_line(claim, |line| line.failed(claim.owner));
            for sender in waiting.into_iter().flatten() {
                self.engine.deliver(sender, Turn::Failed(error.clone()));
            }
            if error.effect() == Effect::Maybe || request.wait.may_have_effect() {
                self.engine.reaper.withdraw(request.claim);
            }
        }
        error
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        let owner = request.claim.owner;
        let next = self
            .engine
            .with_line(&request.claim, |line| line.asker_left(owner));
        match next.flatten() {
            Some(next) => {
                // The next task in line cannot know what happened to this request.
                request.wait.report_possible_effect();
                self.engine.deliver_duty(Some(next));
            }
            None => self.engine.reaper.withdraw(request.claim),
        }
    }
}
