//! The checks of several names: names that a lock takes for one, and names that are lost while another is kept.

use std::collections::HashMap;

use super::free::FreeLocks;
use super::{Checks, Overlap, nanoseconds};
use crate::holds::facts::{Hold, Mark, Wait};
use crate::protocol::ReleaseResult;

/// A name that was refused although nobody had it, while another process had another name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collision<'a> {
    /// The hold of the other name.
    pub hold: &'a Hold,
    /// The request that was refused.
    pub wait: &'a Wait,
    /// When it was refused.
    pub refused: Mark,
    /// When the other name was free again.
    pub freed: Mark,
    /// The next request for the name.
    pub next: &'a Wait,
    /// When that was granted.
    pub granted: Mark,
}

impl<'a> Collision<'a> {
    /// Returns the two names, whichever of them was held.
    fn names(&self) -> [&'a str; 2] {
        let mut names = [self.hold.key.as_str(), self.wait.key.as_str()];
        names.sort_unstable();
        names
    }
}

impl<'a> Checks<'a> {
    /// Returns two refusals that show that the lock takes two names for one. Each time nobody had the name, somebody waited for it in
    /// vain while another process had the other name, and it was granted as soon as that one was free.
    ///
    /// Returns nothing if a free name was ever refused without such a reason. A refusal does not count if the lab stalled or the
    /// machine was slow, or if the process itself had another name.
    pub fn names_taken_for_one(&self) -> Option<[Collision<'a>; 2]> {
        let locks = FreeLocks::of(self.facts, self.claims);
        let mut seen: HashMap<[&str; 2], Collision<'a>> = HashMap::new();
        let mut twice = None;
        for wait in self.facts.waits.iter().filter(|wait| wait.wait_ms > 0) {
            let Some(refused) = wait.refused().filter(|at| is_free(&locks, wait, *at)) else {
                continue;
            };
            let is_slow = self.has_stalled(wait.asked, refused) || !self.is_prompt(wait, refused);
            // A lock that lets a process have one name at a time does not confuse names.
            if is_slow || self.has_another(wait, refused) {
                continue;
            }
            let collision = self.collision(wait, refused)?;
            let first = seen.insert(collision.names(), collision);
            twice = twice.or(first.map(|first| [first, collision]));
        }
        twice
    }

    /// Returns the hold of another name that explains the refusal of a free one.
    fn collision(&self, wait: &'a Wait, refused: Mark) -> Option<Collision<'a>> {
        let mut holds = self.facts.holds.iter();
        holds.find_map(|hold| {
            let is_held = hold.granted < wait.asked
                && hold.unquestioned_until_ns() > refused.at_ns
                && hold.key != wait.key
                && hold.who != wait.who;
            let (freed, _) = hold.released.filter(|_| is_held)?;
            let mut later = self.facts.waits.iter();
            let next = later.find(|next| next.key == wait.key && next.asked > freed)?;
            let granted = next.granted()?;
            Some(Collision {
                hold,
                wait,
                refused,
                freed,
                next,
                granted,
            })
        })
    }

    /// Returns whether what this process was granted just before and just after this wait came in less than half of its time.
    fn is_prompt(&self, wait: &Wait, refused: Mark) -> bool {
        let own = self.facts.holds.iter().filter(|hold| hold.who == wait.who);
        let before = own.clone().rfind(|hold| hold.granted < wait.asked);
        let after = own.clone().find(|hold| hold.asked > refused);
        let longest_ns = nanoseconds(wait.wait_ms) / 2;
        let mut near = before.into_iter().chain(after);
        near.all(|hold| hold.granted.at_ns.saturating_sub(hold.asked.at_ns) < longest_ns)
    }

    /// Returns whether the process itself had a name while it waited for this one.
    fn has_another(&self, wait: &Wait, refused: Mark) -> bool {
        let mut own = self.facts.holds.iter().filter(|hold| hold.who == wait.who);
        own.any(|hold| hold.granted < refused && hold.unquestioned_until_ns() > wait.asked.at_ns)
    }

    /// Returns two overlaps, one after the other, that a lock which keeps its leases alive may not allow: the second hold began when the
    /// first had been lost, the lab did not stall, and no session may have ended. A single case may be caused by the machine.
    pub fn lost_in_two_rounds(&self) -> Option<[Overlap<'a>; 2]> {
        if !self.claims.keep_alive {
            return None;
        }
        let mut overlaps = self.overlaps();
        overlaps.retain(|overlap| {
            let asked = overlap.first.asked.min(overlap.second.asked);
            !self.has_stalled(asked, overlap.second.granted) && !self.may_have_lost_one(overlap)
        });
        let first = *overlaps.first()?;
        let is_later = |later: &&Overlap<'_>| later.first.asked.at_ns > first.from_ns;
        let later = overlaps.iter().find(is_later)?;
        Some([first, *later])
    }

    /// Returns two holds, one after the other, of which their process said that they were lost, although the lock claims to keep its leases alive:
    /// nothing of the process had failed, the lab did not stall, and no session may have ended. A single case may be caused by the machine.
    pub fn said_lost_in_two_rounds(&self) -> Option<[(&'a Hold, Mark); 2]> {
        let lost = |hold: &'a Hold| {
            let learned = hold.known_lost().filter(|_| self.claims.keep_alive)?;
            let was_away = self.has_stalled(hold.asked, learned)
                || self.was_stopped(&hold.who, hold.asked.at_ns, learned.at_ns)
                || self.may_have_lost_session(hold, learned.at_ns);
            let is_open = hold.release.is_none_or(|release| learned < release);
            (is_open && !was_away && !self.had_failed(hold, learned)).then_some((hold, learned))
        };
        let mut holds = self.facts.holds.iter();
        let first = holds.by_ref().find_map(lost)?;
        let again = holds.filter_map(lost);
        let again = again.into_iter().find(|(hold, _)| hold.asked > first.1)?;
        Some([first, again])
    }

    /// Returns whether a request of the hold's process had failed by this moment.
    pub(super) fn had_failed(&self, hold: &Hold, until: Mark) -> bool {
        let mut failures = self.facts.failures.iter();
        failures.any(|seen| seen.who == hold.who && seen.mark < until)
    }

    /// Returns the release of another name after which this overlap began: the second process was refused before it, and granted the lock
    /// after it.
    pub fn freed_by_another(&self, overlap: &Overlap<'a>) -> Option<&'a Hold> {
        let Overlap { first, second, .. } = overlap;
        let mut holds = self.facts.holds.iter();
        holds.find(|other| {
            let (Some(sent), Some((answered, _))) = (other.release, other.released) else {
                return false;
            };
            let mut waits = self.facts.waits.iter();
            let was_refused = waits.any(|wait| {
                let refused = wait.refused().is_some_and(|refused| refused < sent);
                wait.key == first.key && wait.asked > first.granted && refused
            });
            other.key != first.key && answered < second.asked && was_refused
        })
    }
}

/// Returns whether nobody had the lock from the request to the answer.
fn is_free(locks: &FreeLocks<'_>, wait: &Wait, refused: Mark) -> bool {
    let is_released = |hold: &Hold| {
        let outcome = hold.released.map(|(_, outcome)| outcome);
        outcome == Some(ReleaseResult::Released)
    };
    locks.since(wait, refused).is_some_and(|free| {
        free.mark.at_ns <= wait.asked.at_ns && free.freed_by.is_none_or(is_released)
    })
}
