//! Entries for releases, and for the result that the lock reported.

use super::super::phrases;
use super::{Continuation, LaneStory, SETTLED_NS};
use crate::holds::{NAMES, Scenario};
use crate::protocol::ReleaseResult;

impl LaneStory<'_> {
    pub(super) fn release(&mut self, lane: usize, at: u64, op: u64, key: &str) {
        let lost = self.requests.prompt_word(op, at) == Some(ReleaseResult::AlreadyLost);
        let two = self.has_two_locks();
        if lost && !two || self.is_stepwise(op, at) {
            // Described with the answer, or step by step.
            return;
        }
        if let Some(line) = self.last(lane, at, Continuation::Release).filter(|_| two) {
            let more = if lost {
                format!("; {key} is no longer its own")
            } else if line.text.ends_with("releases") {
                " both".to_owned()
            } else {
                String::new()
            };
            line.text.push_str(&more);
            return;
        }
        let own = if lost {
            format!("; {key} is no longer its own")
        } else {
            String::new()
        };
        let in_one = self.scenario != Scenario::Deadlock;
        if let Some(line) = self.last(lane, at, Continuation::Write).filter(|_| in_one) {
            line.text.push_str(", releases");
            line.kind = Continuation::Release;
            return;
        }
        self.add(lane, at, format!("releases{own}"), Continuation::Release);
    }

    pub(super) fn released(&mut self, lane: usize, at: u64, op: u64, outcome: ReleaseResult) {
        let prompt = self
            .requests
            .release(op)
            .is_some_and(|asked| at - asked <= SETTLED_NS);
        if outcome == ReleaseResult::AlreadyLost && !(prompt && self.has_two_locks()) {
            self.say(lane, at, phrases::released_too_late(NAMES[lane], None));
        } else if !prompt {
            self.say(lane, at, phrases::released(NAMES[lane], None));
        }
    }
}
