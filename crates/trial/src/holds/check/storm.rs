//! The checks of trials in which several processes are killed, above all of a storm: locks that nobody can take when it is over, and leases
//! that were not kept alive.

use super::{Checks, Overlap, Stuck, StuckBy};
use crate::history::Fault;
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};
use crate::protocol::ReleaseResult;

/// How many overlaps convict a lock that claims to keep its lease alive. Once may be a machine that did not let the holder run.
pub(in crate::holds) const NOT_KEPT_MIN: usize = 2;

/// The last moment at which somebody may have had a lock.
struct Ended<'a> {
    mark: Mark,
    /// Who released it; `None` if its process was killed.
    released_by: Option<&'a Hold>,
}

impl<'a> Checks<'a> {
    /// Returns a lock that nobody could take when the storm was over, although whoever had it or asked for it has released it, was
    /// refused, or is dead.
    pub(super) fn stuck_after_storm(&self) -> Option<Stuck> {
        self.facts.waits.iter().find_map(|wait| {
            // In a storm, somebody waits for so long only at the end.
            let is_long = self.counts_as_stuck(super::nanoseconds(wait.wait_ms));
            let refused = wait.refused().filter(|_| is_long)?;
            let last = self.last_end(wait, refused)?;
            let since_ns = last.as_ref().map_or(0, |last| last.mark.at_ns);
            let since_ns = since_ns.max(wait.asked.at_ns);
            let lasted_ns = refused.at_ns.saturating_sub(since_ns);
            let had_its_time = self.has_had_its_time(lasted_ns);
            let went_on = self.last_pause_before(&wait.who, refused.at_ns);
            let proven = self.counts_as_stuck(lasted_ns)
                && had_its_time
                && self.could_notice(wait, refused, since_ns, went_on)
                && !self.was_out_of_reach(&wait.who, wait.asked.at_ns, refused.at_ns)
                && self.stays_taken(&wait.key);
            let by = match &last {
                Some(last) if last.released_by.is_none() => StuckBy::Death,
                last => StuckBy::Nobody {
                    freed_by: last
                        .as_ref()
                        .and_then(|last| Some(last.released_by?.who.clone())),
                },
            };
            proven.then(|| Stuck {
                since: last.map_or(wait.asked, |last| last.mark),
                refused: vec![(wait.who.clone(), refused)],
                lasted_ns,
                by,
            })
        })
    }

    /// Returns when the last of the others certainly had nothing more to do with this lock; `Some(None)` if there were no others,
    /// and `None` if one of them may still have it.
    fn last_end(&self, wait: &Wait, refused: Mark) -> Option<Option<Ended<'a>>> {
        let mut ends: Vec<Ended<'a>> = Vec::new();
        let holds = self.facts.holds.iter();
        for hold in holds.filter(|hold| hold.key == wait.key && hold.granted < refused) {
            ends.push(match (hold.released, hold.killed) {
                (Some((mark, outcome)), None)
                    if outcome != ReleaseResult::Unknown || !self.claims.untimed =>
                {
                    Ended {
                        mark,
                        released_by: Some(hold),
                    }
                }
                _ => self.death_of(&hold.who)?,
            });
        }
        let others = self.facts.waits.iter();
        let others = others
            .filter(|other| other.op != wait.op && other.key == wait.key && other.asked < refused);
        for other in others {
            if !matches!(other.answer, Some((_, WaitEnd::Granted | WaitEnd::Refused))) {
                ends.push(self.death_of(&other.who)?);
            }
        }
        if ends.iter().any(|end| end.mark > refused) {
            return None;
        }
        Some(ends.into_iter().max_by_key(|end| end.mark))
    }

    fn death_of(&self, who: &str) -> Option<Ended<'a>> {
        let mark = self.facts.fault_of(who, Fault::Killed)?;
        Some(Ended {
            mark,
            released_by: None,
        })
    }

    fn last_pause_before(&self, who: &str, before_ns: u64) -> u64 {
        let own = self.pauses().filter(|(of, ..)| *of == who);
        let ends = own.map(|(.., until_ns)| until_ns);
        ends.filter(|ns| *ns < before_ns).max().unwrap_or(0)
    }

    /// Returns whether nothing that the lab saw in the store suggests that this lock will become free.
    fn stays_taken(&self, key: &str) -> bool {
        let mut inspections = self.facts.inspections.iter().rev();
        let last = inspections.find(|inspection| inspection.key == key);
        last.is_none_or(|last| last.taken && last.ttl_left_ms.is_none())
    }

    /// Returns the overlaps beyond a lease that a lock without an end, or one that keeps its lease alive, may not allow: neither process
    /// was stopped or out of reach of its store, the lab did not stall, and no session may have ended. Returns nothing if it happened only once.
    pub fn overlaps_not_kept(&self) -> Vec<Overlap<'a>> {
        let claims = self.claims;
        let lasts = claims.keep_alive || claims.untimed && claims.belongs_to_session();
        if !lasts {
            return Vec::new();
        }
        let mut overlaps = self.overlaps();
        overlaps.retain(|overlap| {
            let Overlap { first, second, .. } = overlap;
            let asked = first.asked.min(second.asked);
            let was_away = |hold: &Hold| {
                self.was_stopped(&hold.who, asked.at_ns, overlap.from_ns)
                    || self.was_out_of_reach(&hold.who, asked.at_ns, overlap.from_ns)
            };
            let is_calm = !self.has_stalled(asked, second.granted);
            is_calm && !was_away(first) && !was_away(second) && !self.may_have_lost_one(overlap)
        });
        let mut holds: Vec<Mark> = overlaps
            .iter()
            .map(|overlap| overlap.first.granted)
            .collect();
        holds.sort_unstable();
        holds.dedup();
        if holds.len() < NOT_KEPT_MIN {
            overlaps.clear();
        }
        overlaps
    }
}
