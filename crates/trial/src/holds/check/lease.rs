//! What every lock owes its holder while the lease runs and the store keeps its records: nobody else gets it, and the lock
//! is still there.
//!
//! A lease starts no earlier than it was requested. So it certainly runs until a TTL after the request, and no stall of the lab
//! can turn a right lock into a wrong one where only leases are compared.

use super::{Checks, Overlap};
use crate::holds::facts::{Hold, Op};
use crate::protocol::ReleaseResult;

impl<'a> Checks<'a> {
    /// Returns the overlaps that no lock may allow: both leases were running, or the lock has none, and no server had failed.
    pub fn overlaps_within_lease(&self) -> Vec<Overlap<'a>> {
        let mut overlaps = self.overlaps();
        overlaps.retain(|overlap| {
            let is_running = overlap.is_within_lease(self.ttl_ns) || self.has_no_end(overlap);
            is_running
                && !self.had_server_failed(overlap.from_ns)
                && !self.may_have_lost_session_in_storm(overlap)
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
            let asked_ns = one.asked.at_ns.min(other.asked.at_ns);
            let lease_ns = asked_ns.saturating_add(self.ttl_ns);
            // A lock that says for how long it is valid promises no more than that.
            let valid_ns = [one, other].map(|held| held.valid_until_ns.unwrap_or(u64::MAX));
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
        self.facts.holds.iter().find(|held| {
            let Some((answered, ReleaseResult::AlreadyLost)) = held.released else {
                return false;
            };
            let lease_ns = held.asked.at_ns.saturating_add(self.ttl_ns);
            let until_ns = held.valid_until_ns.unwrap_or(u64::MAX).min(lease_ns);
            answered.at_ns < until_ns
                && held.learned_at.is_none()
                && held.silent.is_none()
                // The store may have released it at the first request, and a second one found nothing.
                && self.spoiled_release(held).is_none()
                && !self.may_be_released_unseen(held, answered.at_ns)
                && !self.had_server_failed(answered.at_ns)
                && !self.may_lose_session(held, answered.at_ns)
        })
    }

    /// Returns whether this process certainly had the lock from one time to the other: it had been granted it before, had not said anything
    /// against it, and its lease was running, is renewed by a process that nobody disturbs, or does not exist.
    pub fn certainly_held(&self, held: &Hold, from_ns: u64, until_ns: u64) -> bool {
        let lasts = self.claims.untimed || self.claims.keep_alive || self.claims.expires_after_work;
        let is_running = lasts || until_ns < held.asked.at_ns.saturating_add(self.ttl_ns);
        held.granted.at_ns < from_ns && held.unquestioned_until_ns() > until_ns && is_running
    }

    /// Returns whether a lock of this kind may be kept for longer than its TTL by a holder that does nothing for it.
    pub fn lasts_by_itself(&self) -> bool {
        self.claims.untimed || self.claims.expires_after_work
    }

    /// Returns whether the lock belongs to a session that a server may have ended: when it was out of action, or when it lost the process's
    /// connection.
    fn may_lose_session(&self, held: &Hold, until_ns: u64) -> bool {
        let may_end =
            self.had_outage(held.asked.at_ns, until_ns) || self.was_disturbed(&held.who, until_ns);
        self.claims.ends_with_holder() && may_end
    }

    /// Returns whether the first answer to a release may have been lost in a storm: the lock asked again, and its store had done it already.
    fn may_be_released_unseen(&self, held: &Hold, answered_ns: u64) -> bool {
        self.is_storm && self.was_out_of_reach(&held.who, held.asked.at_ns, answered_ns)
    }

    /// Returns whether the lock belongs to a session that may have ended when its process was out of reach of its store in a storm.
    fn may_have_lost_session_in_storm(&self, overlap: &Overlap<'_>) -> bool {
        let asked_ns = overlap.first.asked.at_ns.min(overlap.second.asked.at_ns);
        // What was over before either asked has ended no session of theirs.
        let was_away = |held: &Hold| self.is_out_of_reach(&held.who, asked_ns, overlap.from_ns);
        let holds = [overlap.first, overlap.second];
        self.is_storm && self.claims.ends_with_holder() && holds.into_iter().any(was_away)
    }

    /// Returns whether anything had happened to a server by then after which it may have lost what it had.
    fn had_server_failed(&self, at_ns: u64) -> bool {
        self.first_failure_ns
            .is_some_and(|first_ns| first_ns <= at_ns)
    }
}
