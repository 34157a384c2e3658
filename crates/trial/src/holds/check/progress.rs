//! Whether somebody can still take the lock: locks that nobody gets although nobody has them, and those that come late.

use std::collections::HashMap;

use super::free::FreeLocks;
use super::{Checks, with_slack};
use crate::history::{Change, Fault};
use crate::holds::check::nanoseconds;
use crate::holds::facts::{Cycle, Hold, Mark, Wait};
use crate::holds::lookup::LargestBefore;
use crate::protocol::PurchaseOutcome;

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
    /// A request for it got no reply from the store, which may have carried it out.
    LostReply {
        /// The process that asked.
        who: String,
    },
    /// Servers were out of action for a while.
    Outage,
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

impl<'a> Checks<'a> {
    /// Returns a lock that nobody could take for three TTLs although its holder is dead, waits in a cycle, or never had it.
    pub fn stuck(&self) -> Option<Stuck> {
        self.seems_stuck().filter(|stuck| self.could_recover(stuck))
    }

    /// Returns a lock that seems stuck, but the lab stalled for too much of that time.
    pub fn stuck_in_doubt(&self) -> Option<Stuck> {
        self.seems_stuck()
            .filter(|stuck| !self.could_recover(stuck))
    }

    /// Returns whether the lock had the time to come free while the lab was there. When the lab stalls, the whole machine may, and
    /// the lab may have read the refusals late. So only the rest of the time counts. A lease ends within one TTL of it, and a waiter has
    /// another one to notice.
    fn could_recover(&self, stuck: &Stuck) -> bool {
        let refused = stuck.refused.iter().map(|(_, mark)| mark.at_ns);
        // Whoever asked long after the lock was free waited only from then on.
        refused.max().is_some_and(|last_ns| {
            let from_ns = last_ns.saturating_sub(stuck.lasted_ns);
            let stalled_ns = self.stalls.total_ns(from_ns, last_ns);
            let awake_ns = stuck.lasted_ns.saturating_sub(stalled_ns);
            let claimed_ns = self.claims.recovery_ms.map_or(0, nanoseconds);
            stalled_ns == 0 || awake_ns >= self.ttl_ns.max(claimed_ns).saturating_add(self.ttl_ns)
        })
    }

    fn seems_stuck(&self) -> Option<Stuck> {
        if self.kills_several {
            return self.stuck_after_storm().or_else(|| self.stuck_free());
        }
        self.stuck_after_death()
            .or_else(|| self.stuck_in_cycle())
            .or_else(|| self.stuck_after_sale())
            .or_else(|| self.stuck_after_lost_reply())
            .or_else(|| self.stuck_after_outage())
            .or_else(|| self.stuck_free())
    }

    /// Returns a wait that was granted, but long after the lock became free. The lab may have stalled, so this accuses nobody.
    pub fn granted_late(&self) -> Option<Late<'a>> {
        let locks = FreeLocks::of(self.facts, self.claims);
        self.facts.waits.iter().find_map(|wait| {
            let answered = wait.granted().filter(|_| wait.wait_ms > 0)?;
            let free = locks.since(wait, answered)?;
            let since_ns = free.mark.at_ns.max(wait.asked.at_ns);
            let took_ns = answered.at_ns.saturating_sub(since_ns);
            (took_ns > with_slack(self.ttl_ns)).then_some(Late {
                wait,
                answered,
                took_ns,
            })
        })
    }

    /// Returns the first hold whose process found the lock taken by another one when it asked.
    pub fn met_taken(&self) -> Option<&'a Hold> {
        let mut others: HashMap<&str, Vec<(u64, &str, u64)>> = HashMap::new();
        for hold in &self.facts.holds {
            let span = (hold.granted.at_ns, &*hold.who, hold.unquestioned_until_ns());
            others.entry(&hold.key).or_default().push(span);
        }
        let others = others.into_iter();
        let others: HashMap<_, _> = others
            .map(|(key, spans)| (key, LargestBefore::of(spans)))
            .collect();
        self.facts.holds.iter().find(|hold| {
            let (others, asked_ns) = (&others[&*hold.key], hold.asked.at_ns);
            let until_ns = others.of_others(asked_ns, &hold.who);
            until_ns.is_some_and(|until_ns| until_ns > asked_ns)
        })
    }

    /// Returns every single try that was answered late. It was asked not to wait.
    pub fn slow_tries(&self) -> Vec<Late<'a>> {
        let tries = self.facts.waits.iter().filter(|wait| wait.wait_ms == 0);
        let late = tries.filter_map(|wait| {
            let answered = wait.granted().or(wait.refused())?;
            let took_ns = answered.at_ns.saturating_sub(wait.asked.at_ns);
            let is_late = took_ns > with_slack(0) && !self.was_held_up(wait, answered);
            is_late.then_some(Late {
                wait,
                answered,
                took_ns,
            })
        });
        late.filter(|_| self.facts.servers.is_empty()).collect()
    }

    /// Returns whether the lab itself had made the store's replies to this process slow, or stopped it.
    fn was_held_up(&self, wait: &Wait, answered: Mark) -> bool {
        let is_slow = |fault| {
            let began = self.facts.fault_of(&wait.who, fault);
            began.is_some_and(|mark| mark < wait.asked)
        };
        let was_stopped = self.was_stopped(&wait.who, wait.asked.at_ns, answered.at_ns);
        let was_away =
            self.is_storm && self.was_out_of_reach(&wait.who, wait.asked.at_ns, answered.at_ns);
        was_stopped || was_away || is_slow(Fault::Slowed) || is_slow(Fault::Distant)
    }

    /// Returns whether this is long enough to count as "forever".
    pub(super) fn counts_as_stuck(&self, lasted_ns: u64) -> bool {
        lasted_ns >= self.ttl_ns.saturating_mul(3)
    }

    /// Returns whether a lock that claims a longer recovery than three TTLs has had that time.
    pub(super) fn has_had_its_time(&self, lasted_ns: u64) -> bool {
        let bound_ns = self.claims.recovery_ms.and(self.recovery_bound_ns());
        bound_ns.is_none_or(|bound_ns| lasted_ns > bound_ns)
    }

    /// Returns whether nothing that the lab saw in the store suggests that the lock will become free in its time.
    pub(super) fn looks_stuck(&self) -> bool {
        let inspection = self.facts.inspections.last();
        inspection.is_none_or(|inspection| {
            let left_ms = inspection.ttl_left_ms;
            inspection.taken && left_ms.is_none_or(|left_ms| self.lasts_too_long(left_ms))
        })
    }

    /// Returns whether a lease that lasts this much longer does so only because the server's clock jumped back.
    fn lasts_too_long(&self, left_ms: f64) -> bool {
        let behind = self
            .facts
            .server_that(|change| change == Change::ClockBehind);
        behind.is_some() && left_ms * 1e6 > self.ttl_ns.saturating_mul(3) as f64
    }

    fn stuck_after_death(&self) -> Option<Stuck> {
        let killed = self.facts.faults.iter();
        let dead = killed.clone().find(|seen| seen.fault == Fault::Killed)?;
        let mut alive = self.facts.waits.iter().filter(|wait| wait.who != dead.who);
        let last = alive.clone().next_back()?;
        let refused = last.refused()?;
        // Whoever got no answer may have it.
        let nobody_got_it = alive.all(|wait| wait.key != last.key || wait.refused().is_some());
        let lasted_ns = refused.at_ns.saturating_sub(dead.mark.at_ns);
        // A lock that claims a longer recovery than three TTLs has that time.
        let had_its_time = self.has_had_its_time(lasted_ns);
        let proven =
            nobody_got_it && self.counts_as_stuck(lasted_ns) && had_its_time && self.looks_stuck();
        proven.then(|| Stuck {
            since: dead.mark,
            refused: vec![(last.who.clone(), refused)],
            lasted_ns,
            by: StuckBy::Death,
        })
    }

    fn stuck_in_cycle(&self) -> Option<Stuck> {
        let cycle = self.facts.cycles().first()?;
        let waits_in_it = |wait: &&Wait, who: &str| {
            let is_open = wait.answer.is_none_or(|(mark, _)| mark > cycle.since);
            wait.who == who && wait.wait_ms > 0 && wait.asked <= cycle.since && is_open
        };
        let refused = cycle.who.iter().map(|who| {
            let mut waits = self.facts.waits.iter();
            let wait = waits.find(|wait| waits_in_it(wait, who))?;
            Some((who.clone(), wait.refused()?))
        });
        let refused: Vec<(String, Mark)> = refused.collect::<Option<_>>()?;
        let nobody_got_on = self
            .facts
            .holds
            .iter()
            .all(|hold| !cycle.who.contains(&hold.who) || hold.granted < cycle.since);
        (nobody_got_on && self.counts_as_stuck(cycle.lasted_ns)).then_some(Stuck {
            since: cycle.since,
            refused,
            lasted_ns: cycle.lasted_ns,
            by: StuckBy::Cycle(cycle.clone()),
        })
    }

    fn stuck_after_sale(&self) -> Option<Stuck> {
        let mut buys = self.facts.buys.iter();
        let (since, PurchaseOutcome::NoStock) = buys.next()?.answer? else {
            return None;
        };
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
    pub(in crate::holds) fn stuck_free(&self) -> Option<Stuck> {
        let locks = FreeLocks::of(self.facts, self.claims);
        self.facts.waits.iter().find_map(|wait| {
            let refused = wait.refused().filter(|_| wait.wait_ms > 0)?;
            let free = locks.since(wait, refused)?;
            let since_ns = free.mark.at_ns.max(wait.asked.at_ns);
            let lasted_ns = refused.at_ns.saturating_sub(since_ns);
            let awake_ns = locks.went_on(&wait.who, wait.asked.at_ns).unwrap_or(0);
            // Whoever was cut off in a storm may not have asked its store at all.
            let was_away =
                self.is_storm && self.was_out_of_reach(&wait.who, wait.asked.at_ns, refused.at_ns);
            let proven = self.counts_as_stuck(lasted_ns)
                && !was_away
                && self.could_notice(wait, refused, since_ns, awake_ns);
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

    /// Returns whether the waiter certainly had the time to notice that the lock was free since then, and that it was awake. If the
    /// lab stalls, it reads a refusal late, or lets a stopped process go on late.
    pub(super) fn could_notice(
        &self,
        wait: &Wait,
        refused: Mark,
        since_ns: u64,
        awake_ns: u64,
    ) -> bool {
        let deadline_ns = wait.asked.at_ns.saturating_add(nanoseconds(wait.wait_ms));
        let until_ns = deadline_ns.min(refused.at_ns);
        until_ns >= since_ns.saturating_add(self.ttl_ns.saturating_mul(2))
            && until_ns >= awake_ns.saturating_add(self.ttl_ns)
    }
}
