//! Whether somebody can still take the lock: locks that nobody gets although nobody has them, and those that come late.

use super::{Findings, with_slack};
use crate::history::Fault;
use crate::holds::check::nanoseconds;
use crate::holds::facts::{Cycle, Hold, Mark, Wait, WaitEnd};
use crate::protocol::{PurchaseOutcome, ReleaseResult};

/// A lock that stayed taken although no process holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stuck {
    /// When the last holder was gone, or when the wait cycle closed.
    pub since: Mark,
    /// The processes that were finally refused, and when.
    pub refused: Vec<(String, Mark)>,
    /// How long it certainly lasted.
    pub lasted_ns: u64,
    /// What it is stuck by.
    pub by: StuckBy,
}

/// The reason why nobody can take a lock.
#[derive(Debug, Clone, PartialEq)]
pub enum StuckBy {
    /// Its holder was killed.
    Death,
    /// All wait for each other.
    Cycle(Cycle),
    /// A purchase failed and kept it.
    FailedPurchase,
    /// Nobody has it: every other process has released it, the last one as named, or never had it.
    Nobody {
        /// The process that released it last.
        freed_by: Option<String>,
    },
}

/// A wait that was answered later than it should have been.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late<'a> {
    /// The wait.
    pub wait: &'a Wait,
    /// The answer.
    pub answered: Mark,
    /// How long it took.
    pub took_ns: u64,
}

/// Since when a lock was free.
struct FreeSince<'a> {
    mark: Mark,
    freed_by: Option<&'a Hold>,
}

impl<'a> Findings<'a> {
    /// Returns a lock that nobody could take for three TTLs although its holder is dead, waits in a cycle, or never had it.
    pub fn stuck(&self) -> Option<Stuck> {
        self.stuck_after_death()
            .or_else(|| self.stuck_in_cycle())
            .or_else(|| self.stuck_after_sale())
            .or_else(|| self.stuck_free())
    }

    /// Returns a wait that was granted, but long after the lock was free. The lab may have stalled, so this accuses nobody.
    pub fn granted_late(&self) -> Option<Late<'a>> {
        self.facts.waits.iter().find_map(|wait| {
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

    /// Returns every single try that was answered late. It was asked not to wait.
    pub fn slow_tries(&self) -> Vec<Late<'a>> {
        let tries = self.facts.waits.iter().filter(|wait| wait.wait_ms == 0);
        let late = tries.filter_map(|wait| {
            let answered = wait.granted().or(wait.refused())?;
            let took_ns = answered.at_ns.saturating_sub(wait.asked.at_ns);
            (took_ns > with_slack(0)).then_some(Late {
                wait,
                answered,
                took_ns,
            })
        });
        late.filter(|_| self.facts.servers.is_empty()).collect()
    }

    /// Returns whether this is long enough to count as "forever".
    fn counts_as_stuck(&self, lasted_ns: u64) -> bool {
        lasted_ns >= self.ttl_ns.saturating_mul(3)
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
        let mut waits = self.facts.waits.iter().rev();
        let last = waits.find(|wait| wait.who != *dead)?;
        let refused = last.refused()?;
        let lasted_ns = refused.at_ns.saturating_sub(since.at_ns);
        // A lock that claims a longer recovery than three TTLs has that time.
        let had_its_time =
            self.claims.recovery_ms.is_none() || lasted_ns > self.recovery_bound_ns();
        let proven =
            nobody_got_it && self.counts_as_stuck(lasted_ns) && had_its_time && self.looks_stuck();
        proven.then(|| Stuck {
            since: *since,
            refused: vec![(last.who.clone(), refused)],
            lasted_ns,
            by: StuckBy::Death,
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
            by: StuckBy::Cycle(cycle),
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
            by: StuckBy::FailedPurchase,
        })
    }

    /// Nobody has the lock, and whoever waits for it is refused in the end.
    fn stuck_free(&self) -> Option<Stuck> {
        self.facts.waits.iter().find_map(|wait| {
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
                    freed_by: free.freed_by.map(|held| held.who.clone()),
                },
            })
        })
    }

    /// Returns whether the waiter certainly had the time to notice that the lock was free. If the lab stalls, it reads a refusal
    /// late, or lets a stopped process go on late.
    fn could_notice(&self, wait: &Wait, refused: Mark, since_ns: u64) -> bool {
        let deadline_ns = wait.asked.at_ns.saturating_add(nanoseconds(wait.wait_ms));
        let until_ns = deadline_ns.min(refused.at_ns);
        let went_on = |(mark, who, fault): &&(Mark, String, Fault)| {
            *who == wait.who && *fault == Fault::Continued && mark.at_ns > wait.asked.at_ns
        };
        let awake = self.facts.faults.iter().rev().find(went_on);
        let awake_ns = awake.map_or(0, |(mark, ..)| mark.at_ns);
        until_ns >= since_ns.saturating_add(self.ttl_ns.saturating_mul(2))
            && until_ns >= awake_ns.saturating_add(self.ttl_ns)
    }

    /// Returns since when the lock that this wait is for was certainly free, up to the answer. `None` if somebody may have had
    /// it, or if a server failed.
    fn free_since(&self, wait: &Wait, answered: Mark) -> Option<FreeSince<'a>> {
        if !self.facts.servers.is_empty() || self.may_be_taken_unseen(wait, answered) {
            return None;
        }
        let earlier = |held: &&Hold| held.key == wait.key && held.granted.at_ns < answered.at_ns;
        let mut free = FreeSince {
            mark: wait.asked,
            freed_by: None,
        };
        for held in self.facts.holds.iter().filter(earlier) {
            let (mark, outcome) = held.released?;
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
                    freed_by: Some(held),
                };
            }
        }
        Some(free)
    }

    /// Returns whether a request of another process had an unknown result, so that this process may have the lock.
    fn may_be_taken_unseen(&self, wait: &Wait, answered: Mark) -> bool {
        let mut others = self.facts.waits.iter().filter(|other| {
            other.op != wait.op && other.key == wait.key && other.asked.at_ns < answered.at_ns
        });
        others.any(|other| {
            let ends = other.answer.map(|(mark, end)| (mark.at_ns, end));
            !matches!(ends, Some((at_ns, WaitEnd::Granted | WaitEnd::Refused)) if at_ns <= answered.at_ns)
        })
    }
}
