//! Whether a lock stays taken after the store's reply to a request for it was lost, or an error came in its place.

use super::{Checks, Stuck, StuckBy};
use crate::history::Fault;
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};

impl Checks<'_> {
    /// Returns a lock that nobody could take for three TTLs after its store's reply to a request was lost, or replaced by an error.
    /// Whoever asked was told of an error, so it does not hold the lock.
    pub(super) fn stuck_after_lost_reply(&self) -> Option<Stuck> {
        let waits = &self.facts.waits;
        let last = waits.iter().rev().find(|wait| wait.wait_ms > 0)?;
        let refused = last.refused()?;
        let failed = |wait: &Wait| {
            let (answered, end) = wait.answer?;
            let is_other = wait.key == last.key && wait.who != last.who && answered < refused;
            (is_other && end == WaitEnd::Unknown).then_some(answered)
        };
        let mut failures = waits.iter().rev();
        let (lost, since) = failures.find_map(|wait| Some((wait, failed(wait)?)))?;
        let may_have_it =
            |hold: &Hold| hold.key == last.key && hold.unquestioned_until_ns() > since.at_ns;
        let from_ns = since.at_ns.max(last.asked.at_ns);
        let lasted_ns = refused.at_ns.saturating_sub(from_ns);
        let proven = self.was_lost(lost, since)
            && !self.facts.holds.iter().any(may_have_it)
            && self.counts_as_stuck(lasted_ns)
            && self.looks_stuck();
        proven.then(|| Stuck {
            since,
            refused: vec![(last.who.clone(), refused)],
            lasted_ns,
            by: StuckBy::LostReply {
                who: lost.who.clone(),
            },
        })
    }

    /// Returns the first fault that spoiled a reply to the release of this hold, or held it back, before the release was answered or failed.
    pub fn spoiled_release(&self, hold: &Hold) -> Option<(Mark, Fault)> {
        let (release, until) = (hold.release?, self.release_answered(hold)?);
        let mut faults = self.facts.faults.iter();
        let spoiled = faults.find(|seen| {
            let spoils = seen.fault.spoils_reply() || seen.fault == Fault::ReplyHeld;
            spoils && seen.who == hold.who && release < seen.mark && seen.mark < until
        });
        spoiled.map(|seen| (seen.mark, seen.fault))
    }

    /// Returns when the release of this hold was answered, or failed.
    pub fn release_answered(&self, hold: &Hold) -> Option<Mark> {
        let release = hold.release?;
        let failed = || {
            let mut failures = self.facts.failures.iter();
            let own = failures.find(|failed| failed.who == hold.who && failed.mark > release);
            own.map(|failed| failed.mark)
        };
        hold.released.map(|(mark, _)| mark).or_else(failed)
    }

    /// Returns whether a reply was lost or replaced between this request and its answer.
    fn was_lost(&self, wait: &Wait, answered: Mark) -> bool {
        let mut faults = self.facts.faults.iter();
        faults.any(|seen| {
            let is_meanwhile = wait.asked < seen.mark && seen.mark < answered;
            seen.fault.spoils_reply() && seen.who == wait.who && is_meanwhile
        })
    }
}
