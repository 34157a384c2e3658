//! The store's replies came late, so the holder learned of its grant when much of the lease was over: did it count its lease from there?
//!
//! A is the process whose replies are late, and B the one that may get the lock when the lease is over.

use super::{Court, overwritten};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::protocol::Action;
use crate::text::numbers::{count, ms};
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let overlaps = court.guilty_overlaps();
    let slow = court.facts.first_of_lock(HOLDER, FIRST_LOCK);
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps, slow);
    }
    let Some(slow) = slow else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not granted the lock when the replies were slow.",
            Lack::Grant,
            "a lock that waits for the store's answer for most of its lease.",
        );
    };
    // Without a late reply, the grant was not late, and the lease not short.
    let was_slowed = court.facts.fault_of(HOLDER, Fault::Slowed);
    let is_slow = was_slowed.is_some_and(|mark| mark < slow.asked);
    let late_ns = slow.granted.at_ns.saturating_sub(slow.asked.at_ns);
    if !is_slow || late_ns < court.ttl_ns() / 2 {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A learned of its grant in time.",
            Lack::Delay,
            "a lock that asks its store through the address it is given.",
        );
    }
    let Some(other) = court.facts.first_of_lock(OTHER, FIRST_LOCK) else {
        return court.unanswered();
    };
    let lease_ns = slow.asked.at_ns.saturating_add(court.ttl_ns());
    let late =
        |op: &&Op| op.who == HOLDER && op.action == Action::Write && op.mark.at_ns > lease_ns;
    let write = court.facts.ops.iter().find(late);
    match (write, slow.learned_at) {
        (Some(write), _) if write.refused => refused(court, slow, write),
        (Some(write), _) => kept_out(court, slow, write, other),
        (None, Some(learned)) => declined(court, slow, learned, other),
        (None, None) => court.unanswered(),
    }
}

/// Returns when the first of the late replies to A's request was handed on: the reply that granted the lock came no earlier.
fn arrived(court: &Court<'_>, slow: &Hold) -> Option<Mark> {
    let mut faults = court.facts.faults.iter();
    let arrived = faults.find(|seen| {
        let is_meanwhile = slow.asked < seen.mark && seen.mark < slow.granted;
        seen.fault == Fault::ReplyArrives && seen.who == HOLDER && is_meanwhile
    });
    arrived.map(|seen| seen.mark)
}

/// Returns words such as "A learned of its grant 301.2 ms after it had asked, on a lease of 500 ms".
fn learned_late(court: &Court<'_>, slow: &Hold) -> String {
    format!(
        "A learned of its grant {} ms after it had asked, on a lease of {} ms",
        ms(slow.granted.at_ns.saturating_sub(slow.asked.at_ns)),
        count(i64::try_from(court.header.ttl_ms).unwrap_or(i64::MAX))
    )
}

fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], slow: Option<&Hold>) -> Verdict {
    let mut verdict = overwritten::broken(court, overlaps);
    let lease_ns = court.ttl_ns();
    let write = court.lost().map(|lost| lost.write.mark.at_ns);
    let overran = slow.zip(write).filter(|(slow, wrote_ns)| {
        slow.granted.at_ns < *wrote_ns && *wrote_ns > slow.asked.at_ns.saturating_add(lease_ns)
    });
    if let Some((slow, wrote_ns)) = overran {
        verdict.why = Some(format!(
            "A lease runs from its request: {}, and A wrote {} ms after it had asked.",
            learned_late(court, slow),
            ms(wrote_ns.saturating_sub(slow.asked.at_ns))
        ));
    }
    verdict.next = court.suggest([
        court.next("watchdog", "counts from the request, and stops itself"),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ]);
    verdict
}

fn refused(court: &Court<'_>, slow: &Hold, write: &Op) -> Verdict {
    let late = learned_late(court, slow);
    court.refused(write, format!("{late}; B got the lock and used the number"))
}

/// Returns the verdict on a run in which A knew by its own clock that its lease was over, at a time at which a lease counted from the reply
/// was still running.
fn declined(court: &Court<'_>, slow: &Hold, learned: Mark, other: &Hold) -> Verdict {
    let from_reply = arrived(court, slow).map(|mark| mark.at_ns.saturating_add(court.ttl_ns()));
    let Some(left_ns) = from_reply.and_then(|end_ns| end_ns.checked_sub(learned.at_ns + 1)) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A's lease may have been over by then, even counted from the reply.",
            Lack::Calm,
            "a machine that is less busy, or a longer --ttl.",
        );
    };
    if slow.decided().is_none_or(|decided| other.granted > decided) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not get the lock before A was asked to write.",
            Lack::Overrun,
            "somebody who gets the lock when the lease is over, and before A is asked to write.",
        );
    }
    Verdict {
        witness: vec![
            format!(
                "{}; B got the lock; then A knew that its lock was lost, and did not write",
                learned_late(court, slow)
            ),
            format!(
                "counted from the reply, its lease would have run for {} ms more at least",
                ms(left_ns)
            ),
        ],
        limits: Some("a pause between looking and writing is not covered; a fence would be".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A counted its lease from the request: it wrote nothing after its lock was lost.",
        )
    }
}

/// Returns the verdict on a run in which B got the lock only after A had released it. That shows something if the lease could last: B would
/// have got it otherwise.
fn kept_out(court: &Court<'_>, slow: &Hold, write: &Op, other: &Hold) -> Verdict {
    let waited_ns = write.mark.at_ns.saturating_sub(slow.asked.at_ns);
    let is_renewed = court.claims.keep_alive
        && waited_ns > court.ttl_ns().saturating_mul(2)
        && !court.checks.has_stalled(slow.asked, write.mark);
    if !court.checks.lasts_by_itself() && !is_renewed {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not get the lock when A's lease was over.",
            Lack::Overrun,
            "somebody who gets the lock when the lease is over, and before A writes.",
        );
    }
    let release = slow.release.filter(|sent| other.granted > *sent);
    let (Some(release), true) = (release, other.asked < write.mark) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not wait while A worked.",
            Lack::Contention,
            "somebody who waits for the lock while A works beyond its lease.",
        );
    };
    Verdict {
        witness: vec![format!(
            "{}; B waited, and came in {} ms after A's release was sent",
            learned_late(court, slow),
            ms(other.granted.at_ns.saturating_sub(release.at_ns))
        )],
        limits: Some("nobody else could work meanwhile: A's lock did not end".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A kept its lock although the replies were slow: B got it only after A had released it.",
        )
    }
}
