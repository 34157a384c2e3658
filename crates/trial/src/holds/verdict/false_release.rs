//! What the trials share in which a reply to a release of A's is lost, or an error comes in its place: which releases that were, whether the
//! lock came free again, and whether A called one done that was not.

use super::{Court, evidence, stalled};
use crate::history::Fault;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::protocol::ReleaseResult;
use crate::text::numbers::ms;
use crate::verdict::{Evidence, Outcome, Verdict};

/// Returns the verdict on a lock that called a release done although the lock was still taken long after it.
pub(super) fn judge(court: &Court<'_>) -> Option<Verdict> {
    FalseRelease::of(court).map(|lie| lie.verdict(court))
}

/// Returns the holds of A whose releases were spoiled.
pub(super) fn releases<'a>(court: &'a Court<'_>) -> Vec<&'a Hold> {
    let holds = court.facts.holds.iter();
    let own = holds.filter(|hold| hold.who == HOLDER && hold.key == FIRST_LOCK);
    own.filter(|hold| court.checks.spoiled_release(hold).is_some())
        .collect()
}

/// Returns what spoiled the reply to the release of this hold. A reply that was held back and then lost is a lost one.
pub(super) fn met_by_release(court: &Court<'_>, hold: &Hold) -> Option<(Mark, Fault)> {
    let first = court.checks.spoiled_release(hold)?;
    Some(match lost_reply(court, hold) {
        Some(lost) if first.1 == Fault::ReplyHeld => (lost, Fault::ReplyLost),
        _ => first,
    })
}

/// Returns when a reply to the release of this hold was lost.
pub(super) fn lost_reply(court: &Court<'_>, hold: &Hold) -> Option<Mark> {
    let (release, answered) = (hold.release?, court.checks.release_answered(hold)?);
    let mut faults = court.facts.faults.iter();
    let lost = faults.find(|seen| {
        let is_meanwhile = release < seen.mark && seen.mark < answered;
        seen.fault == Fault::ReplyLost && seen.who == hold.who && is_meanwhile
    });
    lost.map(|seen| seen.mark)
}

/// Returns how long after that the lock was granted to B, before A asked for it again.
pub(super) fn grant_after(court: &Court<'_>, hold: &Hold) -> Option<u64> {
    let (met, _) = court.checks.spoiled_release(hold)?;
    let mut waits = court.facts.waits.iter();
    let own_next =
        waits.find(|wait| wait.who == hold.who && wait.key == hold.key && wait.asked > met);
    let mut others = court.facts.holds.iter();
    let next =
        others.find(|other| other.who == OTHER && other.key == hold.key && other.granted > met)?;
    // Afterwards, it may be that request of A's which freed it.
    let is_first = own_next.is_none_or(|own| next.granted < own.asked);
    is_first.then(|| next.granted.at_ns.saturating_sub(met.at_ns))
}

/// A release that was spoiled and called done, although the lock was still taken long after it.
struct FalseRelease<'a> {
    hold: &'a Hold,
    met: (Mark, Fault),
    released: Mark,
    /// The last refusal to B.
    refused: &'a Wait,
}

impl<'a> FalseRelease<'a> {
    /// Returns the first of them. Only a lock whose release frees it at once if nothing goes wrong is accused.
    fn of(court: &'a Court<'_>) -> Option<Self> {
        let own = releases(court).into_iter();
        let mut lies = own.filter_map(|hold| Self::of_hold(court, hold));
        lies.next().filter(|_| frees_at_once(court))
    }

    fn of_hold(court: &'a Court<'_>, hold: &'a Hold) -> Option<Self> {
        let (released, outcome) = hold.released?;
        let met = met_by_release(court, hold)?;
        let late_ns = released.at_ns.saturating_add(court.ttl_ns() / 2);
        let own_next = next_of(court, HOLDER, released);
        let waits = court.facts.waits.iter();
        let late = waits.filter(|wait| {
            wait.who == OTHER && wait.key == hold.key && wait.asked.at_ns >= late_ns
        });
        let of_this = |answered: Mark| own_next.is_none_or(|next| answered < next.asked);
        let refused = late.filter(|wait| wait.wait_ms == 0);
        let mut refused = refused.filter(|wait| wait.refused().is_some_and(of_this));
        let is_taken_by_b = |wait: &Wait| {
            let next = next_of(court, OTHER, released);
            next.is_some_and(|next| next.granted < wait.asked)
        };
        let refused = refused.find(|wait| !is_taken_by_b(wait))?;
        let is_explained = may_have_taken_it_unseen(court, hold, released, refused);
        (outcome == ReleaseResult::Released && !is_explained).then_some(Self {
            hold,
            met,
            released,
            refused,
        })
    }

    fn verdict(&self, court: &Court<'_>) -> Verdict {
        let refused = self.refused.refused().unwrap_or(self.refused.asked);
        let after = ms(self.refused.asked.at_ns.saturating_sub(self.released.at_ns));
        if court.checks.has_stalled(self.released, refused) {
            return stalled(format!(
                "B was refused {after} ms after A's release, but the lab itself stalled meanwhile."
            ));
        }
        let (met, fault) = self.met;
        let what = match fault.error() {
            Some(error) => format!("The store answered A's release with {error}"),
            None if fault == Fault::ReplyHeld => "A reply to A's release was held back".into(),
            None => "A reply to A's release was lost".into(),
        };
        let because =
            format!("{what}, and A called it released: {after} ms later B was still refused.");
        let released = format!("A says that {} is released", self.hold.key);
        let refusal = format!("B is still refused, {after} ms later");
        Verdict {
            evidence: vec![
                met_evidence(met, fault, HOLDER),
                evidence(self.released, HOLDER, "released", released),
                evidence(refused, OTHER, "refused", refusal),
            ],
            why: Some(why(court)),
            next: court
                .next("safe", "what was not answered is not done")
                .into_iter()
                .collect(),
            ..Verdict::bare(Outcome::Broken, because)
        }
    }
}

fn why(court: &Court<'_>) -> String {
    let lease = if court.claims.untimed {
        String::new()
    } else {
        format!(", on a lease of {} ms", ms(court.ttl_ns()))
    };
    format!("Nobody else had the lock: the store kept it for A{lease}, and A did not know that.")
}

/// Returns whether a request whose outcome nobody knows may have taken the lock before this refusal: one of any other process, or one of A's
/// after its release.
fn may_have_taken_it_unseen(
    court: &Court<'_>,
    hold: &Hold,
    released: Mark,
    refused: &Wait,
) -> bool {
    let before = refused.refused().unwrap_or(refused.asked);
    court.facts.waits.iter().any(|wait| {
        let is_unknown = wait.refused().is_none() && wait.granted().is_none();
        let is_in_question = wait.who != hold.who || wait.asked > released;
        wait.key == hold.key && is_unknown && is_in_question && wait.asked < before
    })
}

/// Returns the first hold of the lock by this process that was granted after this time.
fn next_of<'a>(court: &'a Court<'_>, who: &str, after: Mark) -> Option<&'a Hold> {
    let mut holds = court.facts.holds.iter();
    holds.find(|hold| hold.who == who && hold.key == FIRST_LOCK && hold.granted > after)
}

/// Returns whether B got the lock with its first request after a release of A's that met no error.
fn frees_at_once(court: &Court<'_>) -> bool {
    let own = court.facts.holds.iter();
    let mut own = own.filter(|hold| hold.who == HOLDER && hold.key == FIRST_LOCK);
    own.any(|hold| {
        let Some((released, _)) = hold.released else {
            return false;
        };
        let mut asked = court.facts.waits.iter();
        let first =
            asked.find(|wait| wait.who == OTHER && wait.key == hold.key && wait.asked > released);
        let is_granted = first.is_some_and(|wait| wait.wait_ms == 0 && wait.granted().is_some());
        is_granted && court.checks.spoiled_release(hold).is_none()
    })
}

/// Returns the evidence of what came in place of a reply of the store.
pub(super) fn met_evidence(met: Mark, fault: Fault, who: &str) -> Evidence {
    match fault.error() {
        Some(error) => {
            let sentence = format!("the store answers {who} with {error}");
            evidence(met, who, "error", sentence)
        }
        None if fault == Fault::ReplyHeld => {
            let sentence = format!("the store's reply to {who} is held back");
            evidence(met, who, "reply_held", sentence)
        }
        None => {
            let sentence = format!("the store's reply to {who} is lost");
            evidence(met, who, "reply_lost", sentence)
        }
    }
}
