//! Entries for locks: requests, grants, refusals, expired leases and releases.
//!
//! An expired lease has an entry before the events that the expiry made possible. The lab only knows the latest time at which a lease
//! ended: one TTL after it read the grant, or after it saw the holder stop. In the store the lease ended slightly earlier, and another
//! process may have been granted the lock in between. Such a grant also proves that the lease is over.

use super::super::phrases;
use super::{Continuation, LaneStory, SETTLED_NS};
use crate::history::{Event, Fault};
use crate::holds::facts::Hold;
use crate::holds::{NAMES, Scenario};
use crate::protocol::ReleaseResult;
use crate::text::numbers::ms;

impl LaneStory<'_> {
    pub(super) fn wait(&mut self, lane: usize, at: u64, op: u64, key: &str) {
        if !self.context.was_long(op) || self.context.is_stepwise(op, at) {
            return;
        }
        if let Some(line) = self.last(lane, at, Continuation::Refusal) {
            line.text.push_str("; then waits");
            return;
        }
        let phrase = phrases::asks(NAMES[lane], self.named(key), true);
        self.say(lane, at, phrase);
    }

    pub(super) fn grant(
        &mut self,
        lane: usize,
        event: &Event,
        op: u64,
        key: &str,
        fence: Option<&str>,
    ) {
        let fence = fence.filter(|_| self.claims.fencing);
        let fence = fence.map(|fence| self.fences.shorten(fence));
        let mut text = phrases::granted(NAMES[lane], self.named(key), fence.as_deref()).brief;
        if self.has_two_locks() && self.context.was_long(op) {
            let before = self.context.open_holds().find(|held| {
                held.key == key
                    && held.who != NAMES[lane]
                    && held.unquestioned_until_ns() > event.at_ns
            });
            let wait = self.context.wait(op);
            let waited = wait.map(|wait| ms(event.at_ns.saturating_sub(wait.asked.at_ns)));
            match before {
                // With its fence, the line is long enough.
                Some(_) if self.claims.fencing => {}
                Some(held) => text.push_str(&format!(": {}'s lease ran out", held.who)),
                None => text.push_str(&format!(" after {} ms", waited.unwrap_or_default())),
            }
        }
        self.leases_over_before(lane, event, key);
        self.add(lane, event.at_ns, text, Continuation::Grant);
    }

    pub(super) fn refusal(&mut self, lane: usize, at: u64, op: u64) {
        let wait = self.context.wait(op).filter(|wait| wait.wait_ms > 0);
        let gave_up = wait.map(|wait| match self.scenario {
            Scenario::Crash => "gives up: 3 × TTL since the kill".to_owned(),
            Scenario::Deadlock | Scenario::DeadlockSorted => {
                format!("gives up waiting for {}: 3 × TTL", wait.key)
            }
            _ => format!("gives up after {} ms", ms(at - wait.asked.at_ns)),
        });
        let text = phrases::refused(NAMES[lane], None, gave_up).brief;
        self.add(lane, at, text, Continuation::Refusal);
    }

    /// Adds an entry at the latest time at which a lease ended.
    pub(super) fn lease_over(&mut self, lane: usize, at_ns: u64, hold: u64) {
        if self.has_two_locks() || !self.shown_over.insert((lane, hold)) {
            return;
        }
        let mut phrase = phrases::lease_over(NAMES[lane], None);
        if self.scenario.holder_is_away() {
            // A paused process cannot know, and one that is cut off may know by its own clock.
            phrase.brief = "lease over by now".into();
        }
        self.say(lane, at_ns, phrase);
    }

    /// Adds entries for the leases on that lock that have ended before a grant.
    fn leases_over_before(&mut self, lane: usize, grant: &Event, key: &str) {
        let over = |hold: &&Hold| {
            hold.key == key && hold.who != NAMES[lane] && self.may_be_over(hold, grant.at_ns)
        };
        let over = self.context.open_holds().filter(over);
        let over: Vec<(usize, u64)> = over
            .filter_map(|hold| {
                let lane = NAMES.iter().position(|name| *name == hold.who)?;
                Some((lane, hold.id))
            })
            .collect();
        for (lane, hold) in over {
            self.lease_over(lane, grant.at_ns, hold);
        }
    }

    /// Returns whether this hold is still open and its lease may have expired: one TTL after its request, unless it is renewed.
    fn may_be_over(&self, hold: &Hold, at_ns: u64) -> bool {
        let began_ns = match (self.claims.untimed, self.claims.keep_alive) {
            (true, _) => return false,
            // It was renewed until its process was stopped, and the last renewal was less than half a TTL before.
            (false, true) => match self.stopped_at_ns(&hold.who) {
                Some(stopped_ns) => stopped_ns.saturating_sub(self.ttl_ns / 2),
                None => return false,
            },
            (false, false) => hold.asked.at_ns,
        };
        let is_earlier = hold.granted.at_ns < at_ns;
        is_earlier && hold.unquestioned_until_ns() > at_ns && began_ns + self.ttl_ns <= at_ns
    }

    fn stopped_at_ns(&self, who: &str) -> Option<u64> {
        let mut faults = self.context.facts.faults.iter();
        let stop = faults.find(|seen| seen.who == who && seen.fault == Fault::Stopped);
        stop.map(|seen| seen.mark.at_ns)
    }

    pub(super) fn release(&mut self, lane: usize, at: u64, op: u64, key: &str) {
        let lost = self.context.prompt_word(op, at) == Some(ReleaseResult::AlreadyLost);
        let two = self.has_two_locks();
        if lost && !two || self.context.is_stepwise(op, at) {
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
        let asked = self.context.release(op);
        let prompt = asked.is_some_and(|asked| at - asked <= SETTLED_NS);
        if outcome == ReleaseResult::AlreadyLost && !(prompt && self.has_two_locks()) {
            self.say(lane, at, phrases::released_too_late(NAMES[lane], None));
        } else if !prompt {
            self.say(lane, at, phrases::released(NAMES[lane], None));
        }
    }
}
