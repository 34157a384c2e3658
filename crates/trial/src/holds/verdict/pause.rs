//! The holder was stopped between its read and its write, longer than its lease: what became of the write?

use super::edge::{self, FENCED_LIMITS};
use super::{Court, inconclusive, stale};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Op};
use crate::protocol::Action;
use crate::text::numbers::{count, ms};
use crate::verdict::{Outcome, Verdict};

/// The process that is paused, and the one that may get the lock meanwhile.
const PAUSED: &str = "A";
const OTHER: &str = "B";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let overlaps = court.guilty_overlaps();
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps);
    }
    let Some(pause) = witnessed(court) else {
        return inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to pause for longer than its lease.",
            "pause",
            "a holder that is seen to be stopped for longer than the TTL, and to go on.",
        );
    };
    let (Some(paused), Some(other)) = (court.facts.first_of(PAUSED), court.facts.first_of(OTHER))
    else {
        return court.unanswered();
    };
    let (stopped, continued) = pause;
    let late = |op: &&Op| op.who == PAUSED && op.action == Action::Write && op.mark > continued;
    let write = court.facts.ops.iter().find(late);
    match (write, paused.learnt) {
        (Some(write), _) if write.refused => refused(court, write, pause),
        (Some(_), _) => stale::kept(court, paused, other, pause),
        (None, Some(learnt)) if learnt > stopped => declined(court, other, pause),
        (None, _) => court.unanswered(),
    }
}

/// The verdict of the TTL edge, with suggestions that help against a pause.
fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>]) -> Verdict {
    let suggested = [
        court.next("watchdog", "knows after the pause that its lease is over"),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ];
    let mut verdict = edge::broken(court, overlaps);
    let suggested = suggested.into_iter().flatten();
    verdict.next = suggested
        .filter(|next| !court.runs(&next.command))
        .collect();
    verdict
}

/// Returns when A was stopped and when it went on, if the pause certainly was longer than its lease.
fn witnessed(court: &Court<'_>) -> Option<(Mark, Mark)> {
    let stopped = court.facts.fault_of(PAUSED, Fault::Stopped)?;
    let continued = court.facts.fault_of(PAUSED, Fault::Continued)?;
    let lasted_ns = continued.at_ns.saturating_sub(stopped.at_ns);
    (lasted_ns > court.ttl_ns()).then_some((stopped, continued))
}

/// "A was stopped for 602.4 ms on a lease of 500 ms"
fn lasted(court: &Court<'_>, (stopped, continued): (Mark, Mark)) -> String {
    format!(
        "A was stopped for {} ms on a lease of {} ms",
        ms(continued.at_ns.saturating_sub(stopped.at_ns)),
        count(court.header.ttl_ms as i64)
    )
}

fn refused(court: &Court<'_>, write: &Op, pause: (Mark, Mark)) -> Verdict {
    let mut verdict = Verdict {
        witness: vec![format!("{}; B came in and wrote", lasted(court, pause))],
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
fn declined(court: &Court<'_>, other: &Hold, pause: (Mark, Mark)) -> Verdict {
    let came_in = if other.granted < pause.1 {
        "; B came in meanwhile"
    } else {
        ""
    };
    Verdict {
        witness: vec![format!(
            "{}{came_in}; then A knew that its lock was lost, and did not write",
            lasted(court, pause)
        )],
        limits: Some("a pause between looking and writing is not covered; a fence would be".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself: it wrote nothing after its lock was lost.",
        )
    }
}
