//! The holder was away between its read and its write, longer than its lease: it was stopped, or cut off from the store. What became of
//! the write?

use super::absence::{Absence, CUT_OFF, Manner, STOPPED};
use super::edge::{self, FENCED_LIMITS};
use super::{Court, inconclusive, stale};
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Op};
use crate::protocol::Action;
use crate::verdict::{Next, Outcome, Verdict};

/// The process that is away, and the one that may get the lock meanwhile.
const AWAY: &str = "A";
const OTHER: &str = "B";

/// Judges a holder that was stopped.
pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let nothing = || {
        inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to pause for longer than its lease.",
            "pause",
            "a holder that is seen to be stopped for longer than the TTL, and to go on.",
        )
    };
    let helps = "knows after the pause that its lease is over";
    judge_absence(court, STOPPED, helps, nothing)
}

/// Judges a holder that was cut off from the store.
pub(super) fn judge_cut(court: &Court<'_>) -> Verdict {
    let nothing = || {
        inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to be cut off for longer than its lease.",
            "cut",
            "a holder that takes its lock through the address it is given, and is cut off for longer than the TTL.",
        )
    };
    let helps = "knows by its own clock that its lease is over";
    judge_absence(court, CUT_OFF, helps, nothing)
}

fn judge_absence(
    court: &Court<'_>,
    manner: Manner,
    watchdog_helps: &'static str,
    nothing: impl Fn() -> Verdict,
) -> Verdict {
    let overlaps = court.guilty_overlaps();
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps, watchdog_helps);
    }
    let absence = Absence::of(court, AWAY, manner);
    let Some(absence) = absence.filter(|absence| absence.lasted_ns() > court.ttl_ns()) else {
        return nothing();
    };
    let (Some(away), Some(other)) = (court.facts.first_of(AWAY), court.facts.first_of(OTHER))
    else {
        return court.unanswered();
    };
    // Whoever was stopped writes after it. Whoever was cut off may write while it is.
    let lease_ns = absence.from.at_ns.saturating_add(court.ttl_ns());
    let late = |op: &&Op| op.who == AWAY && op.action == Action::Write && op.mark.at_ns > lease_ns;
    let write = court.facts.ops.iter().find(late);
    match (write, away.learnt) {
        (Some(write), _) if write.refused => refused(court, write, absence),
        (Some(_), _) => stale::kept(court, away, other, absence),
        (None, Some(learnt)) if learnt > absence.from => declined(court, other, absence),
        (None, _) => court.unanswered(),
    }
}

/// The verdict of the TTL edge, with suggestions that help whoever was away.
fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], watchdog_helps: &'static str) -> Verdict {
    let suggested = [
        court.next("watchdog", watchdog_helps),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ];
    let mut verdict = edge::broken(court, overlaps);
    let suggested = suggested.into_iter().flatten();
    verdict.next = suggested
        .filter(|next: &Next| !court.runs(&next.command))
        .collect();
    verdict
}

fn refused(court: &Court<'_>, write: &Op, absence: Absence) -> Verdict {
    let mut verdict = Verdict {
        witness: vec![format!(
            "{}; B came in and wrote",
            absence.on_a_lease(court)
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

/// A found out by itself that its lock was lost.
fn declined(court: &Court<'_>, other: &Hold, absence: Absence) -> Verdict {
    let came_in = if other.granted < absence.until {
        "; B came in meanwhile"
    } else {
        ""
    };
    Verdict {
        witness: vec![format!(
            "{}{came_in}; then A knew that its lock was lost, and did not write",
            absence.on_a_lease(court)
        )],
        limits: Some("a pause between looking and writing is not covered; a fence would be".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself: it wrote nothing after its lock was lost.",
        )
    }
}
