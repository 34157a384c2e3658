//! Entries for purchases in a lock trial.

use super::super::phrases;
use super::{Continuation, LaneStory, SETTLED_NS};
use crate::holds::NAMES;
use crate::protocol::PurchaseOutcome;

impl LaneStory<'_> {
    pub(super) fn purchase(&mut self, lane: usize, at: u64, op: u64) {
        let long = self
            .requests
            .purchase(op)
            .is_some_and(|(asked, answered)| answered.is_none_or(|at| at - asked > SETTLED_NS));
        if !long {
            return;
        }
        match self.last(lane, at, Continuation::Refusal) {
            Some(line) => line.text.push_str("; then waits"),
            None => self.say(lane, at, phrases::asked_to_buy(NAMES[lane])),
        }
    }

    pub(super) fn purchased(&mut self, lane: usize, at: u64, op: u64, outcome: PurchaseOutcome) {
        let long = self
            .requests
            .purchase(op)
            .is_some_and(|(asked, _)| at - asked > SETTLED_NS);
        let kind = match outcome {
            PurchaseOutcome::Busy => Continuation::Refusal,
            _ => Continuation::Other,
        };
        let text = phrases::bought(NAMES[lane], outcome, long, false).brief;
        self.add(lane, at, text, kind);
    }
}
