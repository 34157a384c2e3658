//! The checks of a lock trial: exclusion, fences, recovery and progress, as pure functions of the facts and of the lock's
//! claims.
//!
//! A check counts as violated only if the history certainly contradicts the property.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::Scenario;
use super::facts::{Facts, Hold, Mark, Op};
use crate::history::fence::compare;
use crate::history::{Fault, Header};
use crate::protocol::{Action, Claims};
use crate::strategy;

mod deadline;
mod fences;
mod free;
mod lease;
mod list;
mod lost_reply;
mod names;
mod outages;
mod pauses;
mod progress;
mod reach;
mod sessions;
mod stalls;
mod storm;

pub use deadline::HandOver;
pub use names::Collision;
pub use outages::Outage;
use pauses::Pauses;
pub use progress::{Late, Stuck, StuckBy};
use reach::Reach;
use sessions::SessionEnd;
use stalls::Stalls;
pub(super) use storm::NOT_KEPT_MIN;

/// How much later than a bound something may be at least. The machine that runs the lab is not idle.
pub(super) const SLACK_NS: u64 = 1_000_000_000;

/// The scenarios with kills in which recovery is not measured: several processes are killed, those that are killed hold nothing, nobody may be
/// there to take the lock, or the servers begin its lease anew.
const RECOVERY_UNMEASURED: [Option<Scenario>; 5] = [
    Some(Scenario::Storm),
    Some(Scenario::Turns),
    Some(Scenario::Waiters),
    Some(Scenario::SamePid),
    Some(Scenario::LeaderDeaths),
];

/// How many overlaps are listed. Only a lock that lets everybody in has more, and a few prove that.
pub const OVERLAPS_MAX: usize = 1_000_000;

/// Returns the time beyond which a bound is certainly exceeded: half of it longer, and a second at least.
pub(crate) fn with_slack(bound_ns: u64) -> u64 {
    bound_ns.saturating_add(SLACK_NS.max(bound_ns / 2))
}

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
    /// Until when both leases were certainly running; zero for sessions that may have ended before.
    leased_until_ns: u64,
}

impl Overlap<'_> {
    /// Returns how long the overlap certainly lasted.
    pub fn lasted_ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }

    /// Returns whether both leases were certainly still running when the overlap began. A lease starts no earlier than it was
    /// requested; a session may be older, and may have ended if its process could not be heard.
    ///
    /// The second lease matters if its grant was reported late: that process may have had the lock, and lost it, before the
    /// first one.
    pub fn is_within_lease(&self) -> bool {
        self.from_ns < self.leased_until_ns
    }
}

/// The checks of a lock trial.
#[derive(Debug)]
pub struct Checks<'a> {
    facts: &'a Facts,
    claims: Claims,
    /// When something first happened to a server after which it may have lost what it had.
    first_failure_ns: Option<u64>,
    outages: Vec<Outage<'a>>,
    stalls: Stalls,
    pauses: Pauses,
    reach: Reach,
    is_storm: bool,
    /// Whether somebody asks for the lock as soon as its holder is killed.
    measures_recovery: bool,
    /// What ends a session on this store.
    sessions: SessionEnd,
    /// Whether several processes are killed, one after the other.
    kills_several: bool,
    /// How long a lease lasts.
    pub ttl_ns: u64,
}

impl<'a> Checks<'a> {
    /// Prepares the checks of these facts, using the claims in the header.
    pub fn of(header: &Header, facts: &'a Facts) -> Self {
        Self {
            facts,
            claims: strategy::claims_of(header),
            first_failure_ns: outages::first_failure_ns(facts),
            outages: outages::outages(facts),
            stalls: Stalls::of(facts),
            pauses: Pauses::of(facts),
            reach: Reach::of(facts),
            sessions: SessionEnd::at(&header.store),
            is_storm: header.scenario == Scenario::Storm.name(),
            measures_recovery: !RECOVERY_UNMEASURED.contains(&Scenario::find(&header.scenario)),
            kills_several: Scenario::find(&header.scenario).is_some_and(Scenario::kills_several),
            ttl_ns: nanoseconds(header.ttl_ms),
        }
    }

    /// Returns every pair of holds of one lock whose certain beliefs overlap, at most [`OVERLAPS_MAX`] of them. Sweeps over the holds
    /// in the order of their grants; ties do not count.
    pub fn overlaps(&self) -> Vec<Overlap<'a>> {
        let believed = |hold: &&Hold| hold.granted.at_ns < hold.believed_until_ns;
        let mut holds: Vec<&Hold> = self.facts.holds.iter().filter(believed).collect();
        holds.sort_by_key(|hold| hold.granted.at_ns);
        let mut active: HashMap<&str, Vec<&Hold>> = HashMap::new();
        let mut overlaps = Vec::new();
        for hold in holds {
            let from_ns = hold.granted.at_ns;
            // Whoever is still active overlaps with this hold, so the search takes no longer than its result.
            let active = active.entry(&hold.key).or_default();
            active.retain(|other| other.believed_until_ns > from_ns);
            let room = OVERLAPS_MAX - overlaps.len();
            let others = active.iter().filter(|first| !self.is_reentry(first, hold));
            overlaps.extend(others.take(room).map(|first| Overlap {
                first,
                second: hold,
                from_ns,
                until_ns: first.believed_until_ns.min(hold.believed_until_ns),
                leased_until_ns: self.leased_until_ns([first, hold], from_ns),
            }));
            if overlaps.len() == OVERLAPS_MAX {
                break;
            }
            active.push(hold);
        }
        overlaps
    }

    /// Returns whether the second hold is one that a lock which claims to be re-entrant owes its holder.
    fn is_reentry(&self, first: &Hold, second: &Hold) -> bool {
        self.claims.reentrant && first.who == second.who
    }

    /// Returns the first two operations whose holds interleave in the serial log. This finding does not depend on a clock.
    pub fn interleaved(&self) -> Option<(&'a Op, &'a Op)> {
        self.interleavings().next()
    }

    /// Returns each operation that continues a hold after another hold used the same number, together with the first operation in
    /// between.
    fn interleavings(&self) -> impl Iterator<Item = (&'a Op, &'a Op)> {
        let mut of_key: HashMap<&'a str, Vec<&'a Op>> = HashMap::new();
        let mut last_of = HashMap::new();
        let accepted = self.facts.ops.iter().filter(|op| !op.refused);
        accepted.filter_map(move |op| {
            let accepted = of_key.entry(&op.key).or_default();
            accepted.push(op);
            let index = accepted.len() - 1;
            let before = last_of.insert((&op.key, &op.who, op.hold), index)?;
            (before + 1 < index).then(|| (accepted[before + 1], op))
        })
    }

    /// Returns how many acknowledged additions are missing from the number, or from the numbers of several locks.
    pub fn lost_updates(&self) -> i64 {
        let numbers = self.facts.numbers().into_values();
        let lost = numbers.map(|(additions, number)| additions.saturating_sub(number).max(0));
        lost.fold(0, i64::saturating_add)
    }

    /// Returns a grant whose fence is neither `epoch.seq` nor a number, so that it cannot be ordered.
    pub fn fence_without_order(&self) -> Option<&'a Hold> {
        let has_no_order = |fence: &str| compare(fence, fence).is_none();
        let mut holds = self.facts.holds.iter();
        holds.find(|hold| hold.fence.as_deref().is_some_and(has_no_order))
    }

    /// Returns an operation that carried a different fence from the one its hold was granted with.
    pub fn fence_exchanged(&self) -> Option<(&'a Hold, &'a Op)> {
        self.facts.ops.iter().find_map(|op| {
            let hold = self.facts.hold_of(op)?;
            let (shown, granted) = (op.fence.as_deref()?, hold.fence.as_deref()?);
            (compare(shown, granted) != Some(Ordering::Equal)).then_some((hold, op))
        })
    }

    /// Returns an operation that was accepted although its fence was lower than one seen before, according to the log or to the
    /// number itself. Reads do not count if the lock claims that they are not checked.
    pub fn unfenced(&self) -> Option<&'a Op> {
        let mut of_key: HashMap<&str, Option<&str>> = HashMap::new();
        let writes_only = self.claims.fences_writes_only;
        let is_checked = |op: &&Op| !writes_only || op.action == Action::Write;
        let accepted = self.facts.ops.iter().filter(|op| !op.refused);
        let mut accepted = accepted.filter(is_checked);
        accepted.find(|op| {
            let seen = of_key.entry(&op.key).or_default();
            let fence = op.fence.as_deref();
            let is_below = |highest: &str| match fence {
                Some(fence) => compare(fence, highest) == Some(Ordering::Less),
                None => true,
            };
            let is_outdated = [*seen, op.highest.as_deref()]
                .into_iter()
                .flatten()
                .any(is_below);
            *seen = fence.or(*seen);
            is_outdated
        })
    }

    /// Returns how long the lock may stay taken after a kill: the promised time plus some slack or, without a promise, twice
    /// the TTL (at least one TTL plus the slack). `None` for a lock that has no lease and promises nothing.
    pub fn recovery_bound_ns(&self) -> Option<u64> {
        match self.claims.recovery_ms {
            Some(promised_ms) => Some(with_slack(nanoseconds(promised_ms))),
            None if self.claims.untimed => None,
            None => Some(self.ttl_ns.saturating_add(self.ttl_ns.max(SLACK_NS))),
        }
    }

    /// Returns whether a recovery that took this long came later than promised, but not so much later that a busy machine could not explain it. A
    /// lock with a lease may have waited for the end of that instead.
    pub fn recovered_in_doubt(&self, took_ns: u64) -> bool {
        let promised_ns = self.claims.recovery_ms.map(nanoseconds);
        let is_later = promised_ns.is_some_and(|promised_ns| took_ns > promised_ns);
        let is_certain = self
            .recovery_bound_ns()
            .is_some_and(|bound_ns| took_ns > bound_ns);
        is_later && !is_certain && !self.claims.untimed
    }

    /// Returns whether this scenario measures how long a lock takes to recover from the death of its holder.
    pub fn measures_recovery(&self) -> bool {
        self.measures_recovery
    }

    /// Returns the first grant after a kill: when the holder died, and the hold of the process that got the lock next.
    pub fn recovery(&self) -> Option<(Mark, &'a Hold)> {
        let killed = self.facts.faults.iter();
        let dead = killed.clone().find(|seen| seen.fault == Fault::Killed)?;
        let next = |hold: &&Hold| hold.granted.at_ns > dead.mark.at_ns && hold.who != dead.who;
        Some((dead.mark, self.facts.holds.iter().find(next)?))
    }
}

#[cfg(test)]
mod tests;
