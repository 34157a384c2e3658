//! What every lock owes its holder while the lease runs and the store keeps its records: nobody else gets it, and the lock
//! is still there.
//!
//! A lease starts no earlier than it was requested. So it certainly runs until a TTL after the request, and no stall of the lab
//! can turn a right lock into a wrong one where only leases are compared. A session may be older than the request. An answer that came late
//! may be that to a second request.

use super::{Checks, Overlap};
use crate::holds::facts::{Hold, Mark, Op};
use crate::protocol::ReleaseResult;

impl<'a> Checks<'a> {
    /// Returns until when the leases of both holds were certainly running, as far as that is known at this time: a TTL after the earlier
    /// request. Returns zero if one of them belongs to a session that may have ended by then.
    pub(super) fn leased_until_ns(&self, holds: [&Hold; 2], at_ns: u64) -> u64 {
        if holds
            .into_iter()
            .any(|hold| self.may_have_lost_session(hold, at_ns))
        {
            return 0;
        }
        let asked_ns = holds.map(|hold| hold.asked.at_ns).into_iter().min();
        asked_ns.unwrap_or_default().saturating_add(self.ttl_ns)
    }

    /// Returns the overlaps that no lock may allow: both leases were running, or the lock has none, and no server had failed.
    pub fn overlaps_within_lease(&self) -> Vec<Overlap<'a>> {
        let mut overlaps = self.overlaps();
        overlaps.retain(|overlap| {
            let is_running = overlap.is_within_lease() || self.has_no_end(overlap);
            is_running && !self.had_server_failed(overlap.from_ns)
        });
        overlaps
    }

    /// Returns whether operations of two holds interleave although both leases were running, and no server had failed. An update
    /// that is lost this way is one of those interleavings.
    pub fn is_damaged_within_lease(&self) -> bool {
        let mut mixed = self.interleavings_while_leased();
        mixed.any(|op| !self.had_server_failed(op.mark.at_ns))
    }

    /// Returns whether operations of two holds interleave although both leases were running, whatever happened to the servers.
    pub fn is_damaged_while_leased(&self) -> bool {
        self.interleavings_while_leased().next().is_some()
    }

    /// Returns the last operation of each interleaving during which both leases were certainly running, or the lock has none.
    fn interleavings_while_leased(&self) -> impl Iterator<Item = &'a Op> {
        self.interleavings().filter_map(|(between, op)| {
            let (one, other) = (self.facts.hold_of(between)?, self.facts.hold_of(op)?);
            let lease_ns = self.leased_until_ns([one, other], op.mark.at_ns);
            // A lock that says for how long it is valid promises no more than that.
            let valid_ns = [one, other].map(|hold| hold.valid_until_ns.unwrap_or(u64::MAX));
            let is_running = op.mark.at_ns < valid_ns.into_iter().fold(lease_ns, u64::min);
            // What arrives when its hold was given back was not done while it lasted.
            let is_given_back = other.release.is_some_and(|release| release < op.mark);
            let is_leased = is_running || self.lasts_until([one, other], op.mark.at_ns);
            (is_leased && !is_given_back).then_some(op)
        })
    }

    /// Returns a hold whose release was answered with "already lost" although its lease was still running.
    ///
    /// Its process had not said before that the lock was lost: whoever ends its own hold early takes nothing from anybody.
    pub fn lost_within_lease(&self) -> Option<&'a Hold> {
        self.facts.holds.iter().find(|hold| {
            let Some((answered, ReleaseResult::AlreadyLost)) = hold.released else {
                return false;
            };
            let lease_ns = hold.asked.at_ns.saturating_add(self.ttl_ns);
            let until_ns = hold.valid_until_ns.unwrap_or(u64::MAX).min(lease_ns);
            answered.at_ns < until_ns
                && hold.learned_at.is_none()
                && hold.silent.is_none()
                // The store may have released it at the first request, and a second one found nothing.
                && self.spoiled_release(hold).is_none()
                && !self.may_be_released_unseen(hold, answered.at_ns)
                && !self.may_be_asked_twice(hold, answered.at_ns)
                && !self.had_server_failed(answered.at_ns)
                && !self.may_have_lost_session(hold, answered.at_ns)
        })
    }

    /// Returns whether this process certainly had the lock from one time to the other: it had been granted it before, had not said anything
    /// against it, and its lease was running, is renewed by a process that nobody disturbs, or does not exist.
    pub fn certainly_held(&self, hold: &Hold, from_ns: u64, until_ns: u64) -> bool {
        let lasts = self.claims.untimed || self.claims.keep_alive || self.claims.expires_after_work;
        let is_running = lasts || until_ns < hold.asked.at_ns.saturating_add(self.ttl_ns);
        hold.granted.at_ns < from_ns && hold.unquestioned_until_ns() > until_ns && is_running
    }

    /// Returns whether a lock of this kind may be kept for longer than its TTL by a holder that does nothing for it.
    pub fn lasts_by_itself(&self) -> bool {
        self.claims.untimed || self.claims.expires_after_work
    }

    /// Returns whether the answer to a release took so long that its client may have asked again, although nothing was lost: then the store
    /// had done it at the first request, and the second one found nothing.
    fn may_be_asked_twice(&self, hold: &Hold, answered_ns: u64) -> bool {
        let Some(release) = hold.release else {
            return false;
        };
        let took_ns = answered_ns.saturating_sub(release.at_ns);
        took_ns > self.ttl_ns / 4
            || self.stalls.touch(release.at_ns, answered_ns)
            || self.was_stopped(&hold.who, release.at_ns, answered_ns)
    }

    /// Returns the first hold of another process that was granted after this time, but within the lease of this one, which had not been given
    /// up by then.
    pub fn granted_beside(&self, first: &Hold, after: Mark) -> Option<&'a Hold> {
        let ends = [first.learned_at, first.release, first.silent, first.killed];
        let until = ends.into_iter().flatten().min();
        let mut others = self.facts.holds.iter().filter(|other| {
            let is_between =
                after < other.granted && until.is_none_or(|until| other.granted < until);
            other.key == first.key && other.who != first.who && is_between
        });
        others.find(|second| self.is_within_undisturbed_lease(first, second))
    }

    /// Returns two holds, the second of which was granted within the lease of the first, although nobody had disturbed the first process: it
    /// said only later that its lock was lost. It may have given the lock up before it said so.
    pub fn granted_before_loss_was_told(&self) -> Option<(&'a Hold, &'a Hold)> {
        let told = self.facts.holds.iter().enumerate();
        let mut told = told.filter(|(_, hold)| hold.learned_at.is_some());
        told.find_map(|(place, first)| {
            let ends = [first.learned_at, first.release, first.silent, first.killed];
            let until = ends.into_iter().flatten().min()?;
            let later = self.facts.holds[place + 1..].iter();
            let mut others = later
                .take_while(|other| other.granted < until)
                .filter(|other| other.key == first.key && other.who != first.who);
            let second = others.find(|second| self.is_within_undisturbed_lease(first, second))?;
            Some((first, second))
        })
    }

    fn is_within_undisturbed_lease(&self, first: &Hold, second: &Hold) -> bool {
        let at_ns = second.granted.at_ns;
        let leased_until_ns = self.leased_until_ns([first, second], at_ns);
        at_ns < leased_until_ns.min(first.valid_until_ns.unwrap_or(u64::MAX))
            && !self.had_server_failed(at_ns)
            && !self.was_stopped(&first.who, first.asked.at_ns, at_ns)
            && !self.was_disturbed(&first.who, at_ns)
    }

    /// Returns whether the first answer to a release may have been lost in a storm: the lock asked again, and its store had done it already.
    fn may_be_released_unseen(&self, hold: &Hold, answered_ns: u64) -> bool {
        self.is_storm && self.was_out_of_reach(&hold.who, hold.asked.at_ns, answered_ns)
    }

    /// Returns whether anything had happened to a server by then after which it may have lost what it had.
    pub(super) fn had_server_failed(&self, at_ns: u64) -> bool {
        self.first_failure_ns
            .is_some_and(|first_ns| first_ns <= at_ns)
    }
}
