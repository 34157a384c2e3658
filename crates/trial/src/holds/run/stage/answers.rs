//! Ends the act that an answer belongs to, and records the result.

use std::time::Instant;

use super::{HeldLock, PendingRequest, Stage};
use crate::history::{Fault, What};
use crate::holds::register::Step;
use crate::holds::run::lease_start::LeaseStart;
use crate::holds::run::script::{Act, RoadEvent};
use crate::processes::NoVerdict;
use crate::protocol::{Action, PurchaseOutcome, ReleaseResult, Reply};
use crate::text::foreign::quote;

impl Stage<'_> {
    /// Handles the answer to a pending request.
    pub(super) fn answer(
        &mut self,
        index: usize,
        at: Instant,
        asked: PendingRequest,
        reply: Reply,
    ) -> Result<(), NoVerdict> {
        let op = asked.op;
        self.actors[index].answers += 1;
        match (asked.act, reply) {
            (
                _,
                Reply::Error {
                    definite, message, ..
                },
            ) => self.failed(index, at, asked, definite, message),
            (
                Act::AcquireStepwise { .. }
                | Act::AcquirePaused { .. }
                | Act::ReleaseStepwise { .. },
                Reply::Reached { step, of, what, .. },
            ) => {
                self.note(at, index, What::Reached { op, step, of, what })?;
                self.reached(index, asked);
                Ok(())
            }
            (
                act,
                Reply::Acquired {
                    hold,
                    fence,
                    valid_ms,
                    contended,
                    ..
                },
            ) if let Some(key) = act.acquired_key() => {
                let held = HeldLock { key, hold, fence };
                self.acquired(index, at, asked, held, valid_ms, contended)
            }
            (act, Reply::Refused { .. }) if let Some(key) = act.acquired_key() => {
                self.refused(index, at, asked, key)
            }
            (
                Act::Step { key, action } | Act::StepIfHeld { key, action },
                Reply::Stepped { fence, .. },
            ) => self.stepped(index, at, op, (key, action), fence),
            (Act::SendWrite { key }, Reply::Stepped { fence, .. }) => {
                self.sent(index, at, op, key, fence);
                Ok(())
            }
            (Act::Step { key, .. } | Act::SendWrite { key }, Reply::Declined { .. }) => {
                // It takes no more steps, but it still releases what it holds.
                let acts = &mut self.actors[index].script;
                acts.retain(|act| {
                    matches!(act, Act::Release { .. } | Act::Road(RoadEvent::Reconnect))
                });
                self.declined(index, at, op, key)
            }
            (Act::StepIfHeld { key, .. }, Reply::Declined { .. }) => {
                self.declined(index, at, op, key)
            }
            (
                Act::Release { key } | Act::ReleaseIfHeld { key } | Act::ReleaseStepwise { key },
                Reply::Released { outcome, .. },
            ) => self.released(index, at, op, key, outcome),
            (Act::ReleaseAgain { key }, Reply::Released { outcome, .. }) => {
                self.released_again(index, at, op, key, outcome)
            }
            (Act::Buy { .. }, Reply::Purchased { purchase, .. }) => {
                match purchase.outcome {
                    PurchaseOutcome::Busy => self.actors[index].finish_act(),
                    _ => self.actors[index].end(),
                }
                self.note(at, index, What::Purchased { op, purchase })
            }
            (_, reply) => {
                let message = format!("answered another request: {}", quote(&format!("{reply:?}")));
                self.fail(index, op, at, false, message)
            }
        }
    }

    /// Records an error. The script of the process ends, unless the act allows for errors.
    fn failed(
        &mut self,
        index: usize,
        at: Instant,
        asked: PendingRequest,
        definite: bool,
        message: String,
    ) -> Result<(), NoVerdict> {
        let op = asked.op;
        match asked.act {
            Act::TryAnyway { .. } | Act::TryUnlessHeld { .. } => {
                self.fail_anyway(index, op, at, definite, message)?
            }
            Act::StepIfHeld { key, .. } | Act::ReleaseIfHeld { key } => {
                // Nobody knows what became of it, and nothing more is asked about it.
                self.actors[index].holds.retain(|held| held.key != key);
                self.fail_anyway(index, op, at, definite, message)?;
            }
            Act::ReleaseAgain { .. } => {
                self.fail_anyway(index, op, at, definite, message)?;
                self.fault(at, index, Fault::OverReleased);
            }
            _ => self.fail(index, op, at, definite, message)?,
        }
        self.check_store()
    }

    /// Records a grant, and whether the store had no part in it. A number that another hold had is a failure.
    fn acquired(
        &mut self,
        index: usize,
        at: Instant,
        asked: PendingRequest,
        held: HeldLock,
        valid_ms: Option<f64>,
        contended: bool,
    ) -> Result<(), NoVerdict> {
        let (op, hold) = (asked.op, held.hold);
        if !self.actors[index].is_new_hold(hold) {
            let message =
                format!("answered with hold {hold}, a number that it had given to another hold");
            return self.fail(index, op, at, false, message);
        }
        let what = What::Acquired {
            op,
            key: held.key.into(),
            hold,
            fence: held.fence.clone(),
            valid_ms,
            contended,
        };
        let is_seen = self.granted(index, at, asked.act, held);
        self.note(at, index, what)?;
        if is_seen {
            Ok(())
        } else {
            self.note(at, index, What::Unseen { hold })
        }
    }

    /// Records a refusal. The script of the process ends, unless it only tried.
    fn refused(
        &mut self,
        index: usize,
        at: Instant,
        asked: PendingRequest,
        key: &'static str,
    ) -> Result<(), NoVerdict> {
        match asked.act {
            Act::Try { .. } | Act::TryAnyway { .. } => self.actors[index].finish_act(),
            Act::TryUnlessHeld { wait, .. } if wait.is_zero() => self.actors[index].finish_act(),
            _ if self.storm.is_some() => self.actors[index].give_up(),
            _ => self.actors[index].end(),
        }
        let (op, key) = (asked.op, key.into());
        self.note(at, index, What::Refused { op, key })
    }

    /// Records the end of a hold.
    fn released(
        &mut self,
        index: usize,
        at: Instant,
        op: u64,
        key: &'static str,
        outcome: ReleaseResult,
    ) -> Result<(), NoVerdict> {
        let actor = &mut self.actors[index];
        let hold = actor.hold_of(key).unwrap_or_default();
        actor.holds.retain(|held| held.hold != hold);
        actor.released.push((key, hold));
        actor.finish_act();
        self.diary.forget_lease(index, hold);
        let what = What::Released {
            op,
            key: key.into(),
            hold,
            outcome,
        };
        self.note(at, index, what)
    }

    /// Records the answer to a request to release what was released before.
    fn released_again(
        &mut self,
        index: usize,
        at: Instant,
        op: u64,
        key: &'static str,
        outcome: ReleaseResult,
    ) -> Result<(), NoVerdict> {
        let actor = &mut self.actors[index];
        let hold = actor.released_last(key).unwrap_or_default();
        actor.finish_act();
        let key = key.into();
        let what = What::Released {
            op,
            key,
            hold,
            outcome,
        };
        self.note(at, index, what)?;
        self.fault(at, index, Fault::OverReleased);
        Ok(())
    }

    /// Notes a grant. Returns whether the store had a part in it, as far as the lab can see that.
    fn granted(&mut self, index: usize, at: Instant, act: Act, held: HeldLock) -> bool {
        let (key, hold) = (held.key, held.hold);
        let road = self.roads.as_mut().map(|roads| roads.of(index));
        let is_seen = road.is_none_or(|road| {
            road.granted(at);
            road.replies_since_asked() > 0
        });
        self.note_late_reply(index);
        let actor = &mut self.actors[index];
        actor.holds.push(held);
        if let Act::Try { .. } = act {
            actor.end();
        } else {
            actor.finish_act();
        }
        if self.lease_start == LeaseStart::FromGrant {
            self.lease_runs(index, at, key, hold);
        }
        is_seen
    }

    /// Schedules the latest end of the lease, unless the lock is released before.
    fn lease_runs(&mut self, index: usize, from: Instant, key: &str, hold: u64) {
        let over = from + self.trial.ttl();
        let who = (index, self.actors[index].who.as_str());
        self.diary.expect_lease_over(over, who, key, hold);
    }

    /// Executes the step on the number that the lab keeps.
    fn stepped(
        &mut self,
        index: usize,
        at: Instant,
        op: u64,
        (key, action): (&'static str, Action),
        fence: Option<String>,
    ) -> Result<(), NoVerdict> {
        let held = self.actors[index].held(key);
        let hold = held.map_or(0, |held| held.hold);
        // A step without a fence carries the fence of its grant.
        let fence = fence.or_else(|| held?.fence.clone());
        let step = Step {
            actor: self.actors[index].number,
            op,
            hold,
            action,
            fence,
        };
        let what = self.registers.carry_out(key, &step);
        if self.lease_start == LeaseStart::FromWrite && action == Action::Write {
            self.lease_runs(index, at, key, hold);
        }
        self.actors[index].finish_act();
        self.note(at, index, what)
    }

    /// Holds a write back that the process has sent. It carries the fence that it would have shown.
    fn sent(
        &mut self,
        index: usize,
        at: Instant,
        op: u64,
        key: &'static str,
        fence: Option<String>,
    ) {
        let held = self.actors[index].held(key);
        let (hold, granted) = held.map_or((0, None), |held| (held.hold, held.fence.clone()));
        let step = Step {
            actor: self.actors[index].number,
            op,
            hold,
            action: Action::Write,
            fence: fence.or(granted),
        };
        if self.lease_start == LeaseStart::FromWrite {
            self.lease_runs(index, at, key, hold);
        }
        self.actors[index].on_its_way = Some((key, step));
        self.actors[index].finish_act();
        self.fault(at, index, Fault::WriteHeld);
    }

    /// Executes the write that a process has sent, if it is still on its way.
    pub(super) fn arrive(&mut self, index: usize) {
        let Some((key, step)) = self.actors[index].on_its_way.take() else {
            return;
        };
        let what = self.registers.carry_out(key, &step);
        let who = self.actors[index].who.clone();
        self.diary.later(Instant::now(), Some(&who), what);
    }

    /// Records that the process knows that its lock is lost.
    fn declined(
        &mut self,
        index: usize,
        at: Instant,
        op: u64,
        key: &'static str,
    ) -> Result<(), NoVerdict> {
        let actor = &mut self.actors[index];
        let hold = actor.hold_of(key).unwrap_or_default();
        actor.finish_act();
        self.diary.forget_lease(index, hold);
        self.note(at, index, What::Declined { op, hold })
    }

    /// Notes that the process has stopped itself where the lab wanted it to.
    fn reached(&mut self, index: usize, asked: PendingRequest) {
        if let Act::AcquireStepwise { .. } = asked.act {
            // The script wants the process to be killed at this step.
            let actor = &mut self.actors[index];
            actor.script.retain(|act| *act == Act::Kill);
            actor.finish_act();
            return;
        }
        self.witness_stop(index);
        let actor = &mut self.actors[index];
        actor.interrupted = Some(asked);
        actor.finish_act();
    }
}
