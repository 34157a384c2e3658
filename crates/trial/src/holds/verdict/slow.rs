//! The store's replies came late, so the holder learned of its grant when much of the lease was over: did it count its lease from there?

use super::edge::{self, FENCED_LIMITS};
use super::{Court, inconclusive};
use crate::history::Fault;
use crate::holds::FIRST;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Op};
use crate::protocol::Action;
use crate::text::numbers::{count, ms};
use crate::verdict::{Next, Outcome, Verdict};

/// The process whose replies are late, and the one that may get the lock when the lease is over.
const SLOW: &str = "A";
const OTHER: &str = "B";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let overlaps = court.guilty_overlaps();
    let slow = court.facts.first_of_lock(SLOW, FIRST);
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps, slow);
    }
    let Some(slow) = slow else {
        return inconclusive(
            "Nothing broke, and nothing was tested: A was not granted the lock when the replies were slow.",
            "grant",
            "a lock that waits for the store's answer for most of its lease.",
        );
    };
    // Without a late reply, the grant was not late, and the lease not short.
    let was_slowed = court.facts.fault_of(SLOW, Fault::Slowed);
    let is_slow = was_slowed.is_some_and(|mark| mark < slow.asked);
    let late_ns = slow.granted.at_ns.saturating_sub(slow.asked.at_ns);
    if !is_slow || late_ns < court.ttl_ns() / 2 {
        return inconclusive(
            "Nothing broke, and nothing was tested: A learned of its grant in time.",
            "delay",
            "a lock that asks its store through the address it is given.",
        );
    }
    let Some(other) = court.facts.first_of_lock(OTHER, FIRST) else {
        return court.unanswered();
    };
    let lease_ns = slow.asked.at_ns.saturating_add(court.ttl_ns());
    let late = |op: &&Op| op.who == SLOW && op.action == Action::Write && op.mark.at_ns > lease_ns;
    let write = court.facts.ops.iter().find(late);
    match (write, slow.learnt) {
        (Some(write), _) if write.refused => refused(court, slow, write),
        (Some(write), _) => kept_out(court, slow, write, other),
        (None, Some(_)) => declined(court, slow, other),
        (None, None) => court.unanswered(),
    }
}

/// "A learned of its grant 301.2 ms after it had asked, on a lease of 500 ms"
fn learned_late(court: &Court<'_>, slow: &Hold) -> String {
    format!(
        "A learned of its grant {} ms after it had asked, on a lease of {} ms",
        ms(slow.granted.at_ns.saturating_sub(slow.asked.at_ns)),
        count(i64::try_from(court.header.ttl_ms).unwrap_or(i64::MAX))
    )
}

fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], slow: Option<&Hold>) -> Verdict {
    let mut verdict = edge::broken(court, overlaps);
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
    verdict.next = [
        court.next("watchdog", "counts from the request, and stops itself"),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ]
    .into_iter()
    .flatten()
    .filter(|next: &Next| !court.runs(&next.command))
    .collect();
    verdict
}

fn refused(court: &Court<'_>, slow: &Hold, write: &Op) -> Verdict {
    let mut verdict = Verdict {
        witness: vec![format!(
            "{}; B came in and wrote",
            learned_late(court, slow)
        )],
        limits: Some(FENCED_LIMITS.into()),
        ..Verdict::bare(
            Outcome::Held,
            format!(
                "No damage: the resource refused A's late write ({}).",
                court.fences(write)
            ),
        )
    };
    verdict.belief.text = Some(edge::harmless(court));
    verdict
}

/// A knew by its own clock that its lease was over.
fn declined(court: &Court<'_>, slow: &Hold, other: &Hold) -> Verdict {
    let came_in = match slow.learnt {
        Some(learnt) if other.granted < learnt => "; B came in",
        _ => "",
    };
    Verdict {
        witness: vec![format!(
            "{}{came_in}; then A knew that its lock was lost, and did not write",
            learned_late(court, slow)
        )],
        limits: Some("a pause between looking and writing is not covered; a fence would be".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A counted its lease from the request: it wrote nothing after its lock was lost.",
        )
    }
}

/// B got the lock only after A had released it.
fn kept_out(court: &Court<'_>, slow: &Hold, write: &Op, other: &Hold) -> Verdict {
    let release = slow.release.filter(|sent| other.granted > *sent);
    let (Some(release), true) = (release, other.asked < write.mark) else {
        return inconclusive(
            "Nothing broke, and nothing was tested: B did not wait while A worked.",
            "contention",
            "somebody who waits for the lock while A works beyond its lease.",
        );
    };
    Verdict {
        witness: vec![format!(
            "{}; B waited, and came in {} ms after A's release was sent",
            learned_late(court, slow),
            ms(other.granted.at_ns.saturating_sub(release.at_ns))
        )],
        ..Verdict::bare(
            Outcome::Held,
            "A kept its lock although the replies were slow: B got it only after A had given it back.",
        )
    }
}
