//! A test oracle: the questions of the facts and checks, answered by searching everything each time.
//!
//! That is too slow for long histories, and easy to see through. The tests compare the answers with those of the facts and checks, on
//! random histories. Most answers are found in another way here. `granted_late` and `counts_as_stuck` are copied on purpose: they are
//! definitions, and what they search in is what differs. `learn.rs` says what is copied there.

use std::cmp::Ordering;

use fencepost::random::{Random as _, SeededRandom};

use super::check::{Checks, Late, Stuck, StuckBy, nanoseconds, with_slack};
use super::facts::{
    Buy, Cycle, Facts, FailedRequest, FaultSeen, Halted, Hold, Inspection, Mark, Op, ServerChange,
    Stall, StockSet, Wait, WaitEnd,
};
use super::{Scenario, Trial};
use crate::history::fence::compare;
use crate::history::{Change, Event, Fault, What};
use crate::protocol::{Action, Claims, Purchase, PurchaseOutcome, ReleaseResult};
use crate::strategy;

mod learn;
mod random;

#[derive(Default)]
struct BruteForce {
    holds: Vec<Hold>,
    waits: Vec<Wait>,
    ops: Vec<Op>,
    faults: Vec<FaultSeen>,
    servers: Vec<ServerChange>,
    stalls: Vec<Stall>,
    halted: Vec<Halted>,
    buys: Vec<Buy>,
    inspections: Vec<Inspection>,
    stock_set: Vec<StockSet>,
    failures: Vec<FailedRequest>,
    answered_steps: Vec<(String, u64, u64)>,
    asked_ops: Vec<(u64, Mark)>,
    released_again: Vec<u64>,
    end_ns: u64,
    claims: Claims,
    ttl_ns: u64,
}

/// Since when a lock was free.
struct FreeSince<'a> {
    mark: Mark,
    freed_by: Option<&'a Hold>,
}

impl BruteForce {
    fn of(events: &[Event], claims: Claims, ttl_ms: u64) -> Self {
        let mut found = Self {
            claims,
            ttl_ns: nanoseconds(ttl_ms),
            ..Self::default()
        };
        for event in events {
            found.learn(event);
        }
        found.end_ns = events.last().map_or(0, |event| event.at_ns);
        found.bound_beliefs();
        found
    }

    /// Returns the hold that an operation belongs to.
    fn hold_of(&self, op: &Op) -> Option<&Hold> {
        let earlier =
            |hold: &&Hold| hold.who == op.who && hold.id == op.hold && hold.granted <= op.mark;
        self.holds.iter().rev().find(earlier)
    }

    /// Returns every wait cycle, in the order in which they closed.
    fn cycles(&self) -> Vec<Cycle> {
        let closing = self.waits.iter().filter(|wait| wait.wait_ms > 0);
        closing
            .filter_map(|wait| self.cycle_closed_by(wait))
            .collect()
    }

    fn cycle_closed_by(&self, last: &Wait) -> Option<Cycle> {
        let mut path = vec![last];
        loop {
            let holder = self.holder_at(path[path.len() - 1], last.asked)?;
            if holder.who == last.who {
                break;
            }
            let next = self.wait_of(&holder.who, last.asked)?;
            // The path does not lead back to the process that closed it. It leads into another cycle, which is found
            // separately.
            if path.iter().any(|wait| wait.op == next.op) {
                return None;
            }
            path.push(next);
        }
        let answers = path.iter().filter_map(|wait| wait.answer);
        let until = answers.map(|(mark, _)| mark).min_by_key(|mark| mark.at_ns);
        let end_ns = until.map_or(self.end_ns, |mark| mark.at_ns);
        Some(Cycle {
            who: path.iter().map(|wait| wait.who.clone()).collect(),
            since: last.asked,
            until,
            lasted_ns: end_ns.saturating_sub(last.asked.at_ns),
        })
    }

    /// Returns the hold of another process on the lock that this wait is for, at that moment.
    fn holder_at(&self, wait: &Wait, at: Mark) -> Option<&Hold> {
        let holds = |hold: &&Hold| {
            hold.key == wait.key
                && hold.who != wait.who
                && hold.granted.at_ns <= at.at_ns
                && at.at_ns < hold.unquestioned_until_ns()
        };
        self.holds.iter().rev().find(holds)
    }

    /// Returns what this process was waiting for at that moment.
    fn wait_of(&self, who: &str, at: Mark) -> Option<&Wait> {
        let waits = |wait: &&Wait| {
            wait.who == who
                && wait.wait_ms > 0
                && wait.asked.at_ns <= at.at_ns
                && wait.answer.is_none_or(|(mark, _)| mark.at_ns > at.at_ns)
        };
        self.waits.iter().find(waits)
    }

    /// Returns every pair of holds of one lock whose certain beliefs overlap, from when, and until when. Sweeps over the holds in the order
    /// of their grants; ties do not count.
    fn overlaps(&self) -> Vec<(&Hold, &Hold, u64, u64)> {
        let mut holds: Vec<&Hold> = self.holds.iter().collect();
        holds.sort_by_key(|hold| hold.granted.at_ns);
        let mut active: Vec<&Hold> = Vec::new();
        let mut overlaps = Vec::new();
        for hold in holds {
            let from_ns = hold.granted.at_ns;
            active.retain(|other| other.believed_until_ns > from_ns);
            for first in active.iter().filter(|other| other.key == hold.key) {
                let until_ns = first.believed_until_ns.min(hold.believed_until_ns);
                if from_ns < until_ns {
                    overlaps.push((*first, hold, from_ns, until_ns));
                }
            }
            active.push(hold);
        }
        overlaps
    }

    /// Returns two grants of one lock, the earlier and the later, whose fences do not increase. Whoever has released a lock by the time that
    /// `first_until_ns` names for a hold was granted it before that.
    fn fence_regression(&self, first_until_ns: impl Fn(&Hold) -> u64) -> Option<(&Hold, &Hold)> {
        let holds = &self.holds;
        holds.iter().enumerate().find_map(|(index, later)| {
            let earlier = holds[..index].iter().find(|earlier| {
                let (Some(old), Some(new)) = (&earlier.fence, &later.fence) else {
                    return false;
                };
                // Where the order is not certain, only a repeated fence is a violation.
                let was_released = |(mark, outcome): (Mark, ReleaseResult)| {
                    outcome == ReleaseResult::Released && mark.at_ns < first_until_ns(later)
                };
                let certain = earlier.granted.at_ns < later.asked.at_ns
                    || earlier.released.is_some_and(was_released);
                let order = compare(new, old);
                let wrong = match order {
                    Some(Ordering::Greater) => false,
                    Some(Ordering::Equal) => true,
                    Some(Ordering::Less) => certain,
                    None => new == old,
                };
                earlier.key == later.key && wrong
            })?;
            Some((earlier, later))
        })
    }

    /// Returns a wait that was granted, but long after the lock was free. The lab may have stalled, so this accuses nobody.
    fn granted_late(&self) -> Option<Late<'_>> {
        self.waits.iter().find_map(|wait| {
            let answered = wait.granted().filter(|_| wait.wait_ms > 0)?;
            let free = self.free_since(wait, answered)?;
            let since_ns = free.mark.at_ns.max(wait.asked.at_ns);
            let took_ns = answered.at_ns.saturating_sub(since_ns);
            (took_ns > with_slack(self.ttl_ns)).then_some(Late {
                wait,
                answered,
                took_ns,
            })
        })
    }

    fn counts_as_stuck(&self, lasted_ns: u64) -> bool {
        lasted_ns >= self.ttl_ns.saturating_mul(3)
    }

    /// Returns the proof that nobody has the lock, and that whoever waits for it is refused in the end.
    fn stuck_free(&self) -> Option<Stuck> {
        self.waits.iter().find_map(|wait| {
            let refused = wait.refused().filter(|_| wait.wait_ms > 0)?;
            let free = self.free_since(wait, refused)?;
            let since_ns = free.mark.at_ns.max(wait.asked.at_ns);
            let lasted_ns = refused.at_ns.saturating_sub(since_ns);
            let proven =
                self.counts_as_stuck(lasted_ns) && self.could_notice(wait, refused, since_ns);
            proven.then(|| Stuck {
                since: free.mark,
                refused: vec![(wait.who.clone(), refused)],
                lasted_ns,
                by: StuckBy::Nobody {
                    freed_by: free.freed_by.map(|hold| hold.who.clone()),
                },
            })
        })
    }

    /// Returns whether the waiter certainly had the time to notice that the lock was free. If the lab stalls, it reads a refusal
    /// late, or lets a stopped process go on late.
    fn could_notice(&self, wait: &Wait, refused: Mark, since_ns: u64) -> bool {
        let deadline_ns = wait.asked.at_ns.saturating_add(nanoseconds(wait.wait_ms));
        let until_ns = deadline_ns.min(refused.at_ns);
        let went_on = |seen: &&FaultSeen| {
            let is_later = seen.mark.at_ns > wait.asked.at_ns;
            seen.who == wait.who && seen.fault == Fault::Continued && is_later
        };
        let awake = self.faults.iter().rev().find(went_on);
        let awake_ns = awake.map_or(0, |seen| seen.mark.at_ns);
        until_ns >= since_ns.saturating_add(self.ttl_ns.saturating_mul(2))
            && until_ns >= awake_ns.saturating_add(self.ttl_ns)
    }

    /// Returns since when the lock that this wait is for was certainly free, up to the answer. `None` if somebody may have had
    /// it, or if a server failed.
    fn free_since(&self, wait: &Wait, answered: Mark) -> Option<FreeSince<'_>> {
        if !self.servers.is_empty() || self.may_be_taken_unseen(wait, answered) {
            return None;
        }
        let earlier = |hold: &&Hold| hold.key == wait.key && hold.granted.at_ns < answered.at_ns;
        let mut free = FreeSince {
            mark: wait.asked,
            freed_by: None,
        };
        for hold in self.holds.iter().filter(earlier) {
            let (mark, outcome) = hold.released?;
            // Without a lease, only a confirmed release frees the lock.
            let is_confirmed = outcome != ReleaseResult::Unknown || !self.claims.untimed;
            if mark.at_ns > answered.at_ns || !is_confirmed {
                return None;
            }
            let is_last = free
                .freed_by
                .and_then(|last| last.released)
                .is_none_or(|(last, _)| last < mark);
            if is_last {
                free = FreeSince {
                    mark,
                    freed_by: Some(hold),
                };
            }
        }
        Some(free)
    }

    /// Returns whether another request, also of the same process, had no known result by then, so that it may have the lock.
    fn may_be_taken_unseen(&self, wait: &Wait, answered: Mark) -> bool {
        let mut others = self.waits.iter().filter(|other| {
            other.op != wait.op && other.key == wait.key && other.asked.at_ns < answered.at_ns
        });
        others.any(|other| {
            let ends = other.answer.map(|(mark, end)| (mark.at_ns, end));
            !matches!(ends, Some((at_ns, WaitEnd::Granted | WaitEnd::Refused)) if at_ns <= answered.at_ns)
        })
    }
    /// Returns the first update that was overwritten.
    fn lost(&self) -> Option<[&Op; 3]> {
        let accepted: Vec<&Op> = self.ops.iter().filter(|op| !op.refused).collect();
        accepted.iter().enumerate().find_map(|(index, write)| {
            let same = |op: &Op| op.key == write.key;
            let own = |op: &Op| same(op) && op.who == write.who && op.hold == write.hold;
            let is_read = |op: &Op| own(op) && op.action == Action::Read;
            let read = accepted[..index].iter().rposition(|op| is_read(op))?;
            let foreign = |op: &&&Op| same(op) && !own(op) && op.action == Action::Write;
            let between = accepted[read + 1..index].iter().find(foreign)?;
            (write.action == Action::Write).then(|| [accepted[read], *between, *write])
        })
    }

    fn met_taken(&self) -> Option<&Hold> {
        self.holds.iter().find(|hold: &&Hold| {
            let met = |other: &Hold| {
                other.key == hold.key
                    && other.who != hold.who
                    && other.granted.at_ns < hold.asked.at_ns
                    && other.unquestioned_until_ns() > hold.asked.at_ns
            };
            self.holds.iter().any(met)
        })
    }
}
