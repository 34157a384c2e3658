//! The checks of waits that time out, and of long ones.

use super::{Checks, Overlap, with_slack};
use crate::holds::facts::{Hold, Mark, Wait};
use crate::protocol::ReleaseResult;

/// A lock that was handed over from a holder to a process that waited for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HandOver<'a> {
    /// The hold that was released.
    pub from: &'a Hold,
    /// When its release was sent.
    pub release: Mark,
    /// The next hold.
    pub to: &'a Hold,
    /// The wait of another process that was refused meanwhile.
    pub gave_up: Option<&'a Wait>,
}

impl HandOver<'_> {
    /// Returns how long it took from the release.
    pub fn took_ns(&self) -> u64 {
        let granted_ns = self.to.granted.at_ns;
        granted_ns.saturating_sub(self.release.at_ns)
    }

    /// Returns how long the next holder had waited.
    pub fn waited_ns(&self) -> u64 {
        let granted_ns = self.to.granted.at_ns;
        granted_ns.saturating_sub(self.to.asked.at_ns)
    }
}

impl<'a> Checks<'a> {
    /// Returns every release during which the next holder was waiting, in order.
    pub fn hand_overs(&self) -> Vec<HandOver<'a>> {
        let holds = &self.facts.holds;
        let each = holds.windows(2).filter_map(|two| {
            let [from, to] = two else {
                return None;
            };
            let release = from.release.filter(|release| to.asked < *release)?;
            let is_next = from.key == to.key && from.who != to.who && to.granted > release;
            let gave_up = self.facts.waits.iter().find(|wait| {
                let refused = wait.refused();
                let meanwhile = refused.is_some_and(|refused| refused < release);
                wait.key == from.key && wait.wait_ms > 0 && wait.asked > from.granted && meanwhile
            });
            is_next.then_some(HandOver {
                from,
                release,
                to,
                gave_up,
            })
        });
        each.collect()
    }

    /// Returns two hand-overs that took much longer than each one in which nobody had given up. The lab did not stall. What happens
    /// once may be the machine.
    pub fn held_up_by_who_gave_up(&self) -> Option<[HandOver<'a>; 2]> {
        let all = self.hand_overs();
        let (after, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.gave_up.is_some());
        let usual_ns = others.iter().map(HandOver::took_ns).max()?;
        let is_late = |one: &&HandOver<'_>| {
            one.took_ns() > with_slack(usual_ns) && !self.has_stalled(one.release, one.to.granted)
        };
        let mut late = after.iter().filter(is_late);
        Some([*late.next()?, *late.next()?])
    }

    /// Returns an overlap that shows that a wait used up a lease: the first process got the lock after another had released it, so its
    /// lease cannot have begun before that release was sent. Yet somebody else was granted the lock within a TTL, and no session may have ended.
    pub fn lease_used_up(&self) -> Option<(HandOver<'a>, Overlap<'a>)> {
        let overlaps = self.overlaps();
        let hand_overs = self.hand_overs().into_iter();
        hand_overs
            .filter(|one| self.was_released_in_time(one))
            .find_map(|one| {
                let ends_ns = one.release.at_ns.saturating_add(self.ttl_ns);
                let overlap = overlaps.iter().find(|overlap| {
                    let is_first = overlap.first.granted == one.to.granted;
                    is_first && overlap.from_ns < ends_ns && !self.may_have_lost_one(overlap)
                })?;
                Some((one, *overlap))
            })
    }

    /// Returns a hold whose process said that it was over when most of its lease must have been left: it was granted after a wait of more than
    /// half a TTL, and cannot have begun before another process had released the lock. The lab did not stall, and nothing failed.
    pub fn over_after_wait(&self) -> Option<(HandOver<'a>, Mark)> {
        let half_ns = self.ttl_ns / 2;
        // Whoever keeps a margin stops before its lease is over.
        let most_ns = self.ttl_ns / 3 * 2;
        let hand_overs = self.hand_overs().into_iter();
        hand_overs
            .filter(|one| one.waited_ns() > half_ns && self.was_released_in_time(one))
            .find_map(|one| {
                let learned = one.to.learned_at?;
                let left = learned.at_ns.saturating_sub(one.release.at_ns) < most_ns;
                let ends_as_told = one
                    .to
                    .valid_until_ns
                    .is_some_and(|end| end <= learned.at_ns);
                let is_excused = ends_as_told
                    || self.had_failed(one.to, learned)
                    || self.has_stalled(one.to.asked, learned)
                    || self.may_have_lost_session(one.to, learned.at_ns);
                (left && !is_excused).then_some((one, learned))
            })
    }

    /// Returns whether the lock certainly belonged to its holder until it was released.
    fn was_released_in_time(&self, one: &HandOver<'_>) -> bool {
        let HandOver { from, release, .. } = one;
        let outcome = from.released.map(|(_, outcome)| outcome);
        let is_running = release.at_ns < from.asked.at_ns.saturating_add(self.ttl_ns);
        let was_kept = self.claims.keep_alive && !self.has_stalled(from.asked, *release);
        outcome == Some(ReleaseResult::Released) && (is_running || self.claims.untimed || was_kept)
    }
}
