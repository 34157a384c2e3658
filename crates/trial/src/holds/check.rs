//! The checks of a lock trial: exclusion, fences, recovery and progress, as pure functions of the facts and of the lock's
//! claims.
//!
//! A check counts as violated only if the history certainly contradicts the property.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::facts::{Cycle, Facts, Hold, Mark, Op};
use super::register::compare;
use crate::history::{Fault, Header};
use crate::protocol::{Claims, PurchaseOutcome};
use crate::strategy;

mod list;

/// How much later than promised a recovery may be. The machine that runs the lab is not idle.
const SLACK_NS: u64 = 1_000_000_000;

pub(super) fn nanoseconds(milliseconds: u64) -> u64 {
    milliseconds.saturating_mul(1_000_000)
}

/// Two processes that certainly believed at the same time that they held the same lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overlap<'a> {
    /// The hold that was granted first.
    pub first: &'a Hold,
    /// The hold that was granted meanwhile.
    pub second: &'a Hold,
    /// The start of the overlap.
    pub from_ns: u64,
    /// The end of the overlap.
    pub until_ns: u64,
}

impl Overlap<'_> {
    /// Returns how long the overlap certainly lasted.
    pub fn lasted_ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }

    /// Returns whether both leases were certainly still running when the overlap began. A lease starts no earlier than it was
    /// requested.
    ///
    /// The second lease matters if its grant was reported late: that process may have had the lock, and lost it, before the
    /// first one.
    pub fn is_within_lease(&self, ttl_ns: u64) -> bool {
        let asked_ns = self.first.asked.at_ns.min(self.second.asked.at_ns);
        self.from_ns < asked_ns.saturating_add(ttl_ns)
    }
}

/// A lock that stayed taken although no process holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stuck {
    /// When the last holder was gone, or when the wait cycle closed.
    pub since: Mark,
    /// The processes that were finally refused, and when.
    pub refused: Vec<(String, Mark)>,
    /// How long it certainly lasted.
    pub lasted_ns: u64,
    /// The wait cycle, if that is the reason.
    pub cycle: Option<Cycle>,
}

/// The findings of a lock trial.
#[derive(Debug)]
pub struct Findings<'a> {
    facts: &'a Facts,
    claims: Claims,
    /// How long a lease lasts.
    pub ttl_ns: u64,
}

impl<'a> Findings<'a> {
    /// Creates the findings for these facts, using the claims in the header.
    pub fn of(header: &Header, facts: &'a Facts) -> Self {
        Self {
            facts,
            claims: strategy::claims_of(header),
            ttl_ns: nanoseconds(header.ttl_ms),
        }
    }

    /// Returns every pair of holds of one lock whose certain beliefs overlap. Sweeps over the holds in the order of their
    /// grants; ties do not count.
    pub fn overlaps(&self) -> Vec<Overlap<'a>> {
        let mut holds: Vec<&Hold> = self.facts.holds.iter().collect();
        holds.sort_by_key(|held| held.granted.at_ns);
        let mut active: Vec<&Hold> = Vec::new();
        let mut overlaps = Vec::new();
        for held in holds {
            let from_ns = held.granted.at_ns;
            active.retain(|other| other.believed_until_ns > from_ns);
            for first in active.iter().filter(|other| other.key == held.key) {
                let until_ns = first.believed_until_ns.min(held.believed_until_ns);
                if from_ns < until_ns {
                    overlaps.push(Overlap {
                        first,
                        second: held,
                        from_ns,
                        until_ns,
                    });
                }
            }
            active.push(held);
        }
        overlaps
    }

    /// Returns two operations whose holds interleave in the serial log. This finding does not depend on a clock.
    pub fn interleaved(&self) -> Option<(&'a Op, &'a Op)> {
        let accepted: Vec<&Op> = self.facts.ops.iter().filter(|op| !op.refused).collect();
        let mut last_of = HashMap::new();
        accepted.iter().enumerate().find_map(|(index, op)| {
            let before = last_of.insert((&op.who, op.hold), index)?;
            (before + 1 < index).then(|| (accepted[before + 1], *op))
        })
    }

    /// Returns how many acknowledged additions are missing from the number.
    pub fn lost_updates(&self) -> i64 {
        self.facts
            .additions()
            .saturating_sub(self.facts.number())
            .max(0)
    }

    /// Returns two grants of one lock, the earlier and the later, whose fences do not increase.
    pub fn fence_regression(&self) -> Option<(&'a Hold, &'a Hold)> {
        let holds = &self.facts.holds;
        holds.iter().enumerate().find_map(|(index, later)| {
            let earlier = holds[..index].iter().find(|earlier| {
                let (Some(old), Some(new)) = (&earlier.fence, &later.fence) else {
                    return false;
                };
                // If the first was granted before the other was requested, their order is certain. Otherwise only a repeated
                // fence is a violation.
                let certain = earlier.granted.at_ns < later.asked.at_ns;
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

    /// Returns a grant whose fence is neither `epoch.seq` nor a number, so that it cannot be ordered.
    pub fn fence_without_order(&self) -> Option<&'a Hold> {
        let has_no_order = |fence: &str| compare(fence, fence).is_none();
        let mut holds = self.facts.holds.iter();
        holds.find(|held| held.fence.as_deref().is_some_and(has_no_order))
    }

    /// Returns an operation that carried a different fence from the one its hold was granted with.
    pub fn fence_exchanged(&self) -> Option<(&'a Hold, &'a Op)> {
        self.facts.ops.iter().find_map(|op| {
            let held = self.facts.hold_of(op)?;
            let (shown, granted) = (op.fence.as_deref()?, held.fence.as_deref()?);
            (compare(shown, granted) != Some(Ordering::Equal)).then_some((held, op))
        })
    }

    /// Returns an operation that was accepted although its fence was lower than one seen before, according to the log or to the
    /// number itself.
    pub fn unfenced(&self) -> Option<&'a Op> {
        let mut seen: Option<&str> = None;
        let mut accepted = self.facts.ops.iter().filter(|op| !op.refused);
        accepted.find(|op| {
            let fence = op.fence.as_deref();
            let is_below = |highest: &str| match fence {
                Some(fence) => compare(fence, highest) == Some(Ordering::Less),
                None => true,
            };
            let is_outdated = [seen, op.highest.as_deref()]
                .into_iter()
                .flatten()
                .any(is_below);
            seen = fence.or(seen);
            is_outdated
        })
    }

    /// Returns how long the lock may stay taken after a kill: the promised time plus some slack or, without a promise, twice
    /// the TTL (at least one TTL plus the slack).
    pub fn recovery_bound_ns(&self) -> u64 {
        match self.claims.recovery_ms {
            Some(promised_ms) => nanoseconds(promised_ms).saturating_add(SLACK_NS),
            None => self.ttl_ns.saturating_add(self.ttl_ns.max(SLACK_NS)),
        }
    }

    /// Returns the first grant after a kill: when the holder died, and the hold of the process that got the lock next.
    pub fn recovery(&self) -> Option<(Mark, &'a Hold)> {
        let killed = self.facts.faults.iter();
        let (died, who, _) = killed.clone().find(|(.., fault)| *fault == Fault::Killed)?;
        let next = |held: &&Hold| held.granted.at_ns > died.at_ns && held.who != *who;
        Some((*died, self.facts.holds.iter().find(next)?))
    }

    /// Returns whether this is long enough to count as "forever".
    fn counts_as_stuck(&self, lasted_ns: u64) -> bool {
        lasted_ns >= self.ttl_ns.saturating_mul(3)
    }

    /// Returns a lock that nobody could take for three TTLs although its holder is dead, waits in a cycle, or never had it.
    pub fn stuck(&self) -> Option<Stuck> {
        self.stuck_after_death()
            .or_else(|| self.stuck_in_cycle())
            .or_else(|| self.stuck_after_sale())
            .or_else(|| self.stuck_asleep())
    }

    /// Returns whether nothing that the lab saw in the store suggests that the lock will become free.
    fn looks_stuck(&self) -> bool {
        let inspection = self.facts.inspections.last();
        inspection.is_none_or(|inspection| inspection.taken && inspection.ttl_left_ms.is_none())
    }

    fn stuck_after_death(&self) -> Option<Stuck> {
        let killed = self.facts.faults.iter();
        let (since, dead, _) = killed.clone().find(|(.., fault)| *fault == Fault::Killed)?;
        let mut alive = self.facts.waits.iter().filter(|wait| wait.who != *dead);
        let nobody_got_it = !alive.any(|wait| wait.granted().is_some());
        let last = self
            .facts
            .waits
            .iter()
            .rev()
            .find(|wait| wait.who != *dead)?;
        let refused = last.refused()?;
        let lasted_ns = refused.at_ns.saturating_sub(since.at_ns);
        let proven = nobody_got_it && self.counts_as_stuck(lasted_ns) && self.looks_stuck();
        proven.then(|| Stuck {
            since: *since,
            refused: vec![(last.who.clone(), refused)],
            lasted_ns,
            cycle: None,
        })
    }

    fn stuck_in_cycle(&self) -> Option<Stuck> {
        let cycle = self.facts.cycles().into_iter().next()?;
        let refused = self.facts.waits.iter().filter(|wait| wait.wait_ms > 0);
        let refused: Vec<(String, Mark)> = refused
            .filter_map(|wait| Some((wait.who.clone(), wait.refused()?)))
            .collect();
        let all_refused = refused.len() == cycle.who.len();
        (all_refused && self.counts_as_stuck(cycle.lasted_ns)).then_some(Stuck {
            since: cycle.since,
            refused,
            lasted_ns: cycle.lasted_ns,
            cycle: Some(cycle),
        })
    }

    /// Every other process has released the lock, but the waiter is not notified.
    fn stuck_asleep(&self) -> Option<Stuck> {
        let last = self.facts.waits.iter().rfind(|wait| wait.wait_ms > 0)?;
        let refused = last.refused()?;
        let of_others = |held: &&Hold| held.key == last.key && held.who != last.who;
        let others = self.facts.holds.iter().filter(of_others);
        let given_back: Option<Vec<Mark>> = others
            .map(|held| held.released.map(|(mark, _)| mark))
            .collect();
        let since = given_back?.into_iter().max()?;
        let lasted_ns = refused
            .at_ns
            .saturating_sub(since.at_ns.max(last.asked.at_ns));
        self.counts_as_stuck(lasted_ns).then(|| Stuck {
            since,
            refused: vec![(last.who.clone(), refused)],
            lasted_ns,
            cycle: None,
        })
    }

    fn stuck_after_sale(&self) -> Option<Stuck> {
        let mut buys = self.facts.buys.iter();
        let (since, _) = buys.next()?.answer?;
        let later: Vec<_> = buys.filter_map(|buy| Some((buy, buy.answer?))).collect();
        let all_busy = later
            .iter()
            .all(|(_, (_, outcome))| *outcome == PurchaseOutcome::Busy);
        let (last, (refused, _)) = later.last()?;
        let lasted_ns = refused.at_ns.saturating_sub(since.at_ns);
        let proven = all_busy && self.counts_as_stuck(lasted_ns) && self.looks_stuck();
        proven.then(|| Stuck {
            since,
            refused: vec![(last.who.clone(), *refused)],
            lasted_ns,
            cycle: None,
        })
    }
}

#[cfg(test)]
mod tests;
