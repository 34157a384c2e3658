//! The holder was away between its read and its write, longer than its lease: it was stopped, or cut off from the store. What became of
//! the write?
//!
//! A is the process that is away, and B the one that may get the lock meanwhile.

use super::absence::{Absence, CUT_OFF, Manner, STOPPED, SUSPENDED, kept};
use super::court::STARTED_BY_IT;
use super::{Court, overwritten};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::Op;
use crate::holds::{HOLDER, OTHER};
use crate::protocol::Action;
use crate::verdict::{Lack, Outcome, Verdict};

/// Judges a holder that was stopped.
pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let nothing = || {
        Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to pause for longer than its lease.",
            Lack::Pause,
            "a holder that is seen to be stopped for longer than the TTL, and to go on.",
        )
    };
    let helps = "knows after the pause that its lease is over";
    judge_absence(court, STOPPED, helps, nothing)
}

/// What a suspended machine hides from a lock.
const DID_NOT_ADVANCE: &str = "CLOCK_MONOTONIC did not advance for A meanwhile, as on a suspended machine: a lock that counts its lease by it cannot know that the lease is over";

/// Judges a holder whose machine was suspended.
pub(super) fn judge_suspended(court: &Court<'_>) -> Verdict {
    let nothing = || {
        Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to be suspended for longer than its lease.",
            Lack::Pause,
            "a holder that is seen to be stopped for longer than the TTL, and to go on.",
        )
    };
    let helps = "knows when it wakes that its lease is over";
    let mut verdict = judge_absence(court, SUSPENDED, helps, nothing);
    let suspended = court.facts.fault_of(HOLDER, Fault::Suspended);
    let read = court.facts.fault_of(HOLDER, Fault::ClockRead);
    let is_shown = suspended.is_some() && read > suspended;
    if verdict.outcome == Outcome::Held && !is_shown {
        return Verdict::inconclusive(
            "Not tried: A did not ask the C library for the time, so the lab could not show it a suspended machine.",
            Lack::Clock,
            "a program whose clocks the lab can set: not Go, and not linked statically.",
        );
    }
    if let Some(limits) = verdict.limits.as_mut().filter(|_| is_shown) {
        limits.push_str(&format!("; {STARTED_BY_IT}"));
    }
    if verdict.outcome == Outcome::Broken && is_shown {
        verdict.notes.push(DID_NOT_ADVANCE.into());
    }
    verdict
}

/// Judges a holder that was cut off from the store.
pub(super) fn judge_cut(court: &Court<'_>) -> Verdict {
    let nothing = || {
        Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to be cut off for longer than its lease.",
            Lack::Cut,
            "a holder that takes its lock through the address it is given, and is cut off for longer than the TTL.",
        )
    };
    let helps = "knows by its own clock that its lease is over";
    judge_absence(court, CUT_OFF, helps, nothing)
}

/// Judges a holder that was away in this manner. `nothing` is the verdict if that was not seen, or was too short.
pub(super) fn judge_absence(
    court: &Court<'_>,
    manner: Manner,
    watchdog_helps: &'static str,
    nothing: impl Fn() -> Verdict,
) -> Verdict {
    let overlaps = court.guilty_overlaps();
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps, watchdog_helps);
    }
    let absence = Absence::of(court, HOLDER, manner);
    let Some(absence) = absence.filter(|absence| absence.lasted_ns() > court.ttl_ns()) else {
        return nothing();
    };
    let (Some(away), Some(other)) = (court.facts.first_of(HOLDER), court.facts.first_of(OTHER))
    else {
        return court.unanswered();
    };
    // Whoever was stopped writes after it. Whoever was cut off may write while it is.
    let lease_ns = absence.from.at_ns.saturating_add(court.ttl_ns());
    let late =
        |op: &&Op| op.who == HOLDER && op.action == Action::Write && op.mark.at_ns > lease_ns;
    let write = court.facts.ops.iter().find(late);
    match (write, away.learned_at) {
        (Some(write), _) if write.refused => refused(court, write, absence),
        (Some(_), _) if court.checks.lasts_by_itself() => kept(court, away, other, absence),
        (Some(_), _) => not_overtaken(absence),
        (None, Some(learned)) if learned > absence.from => {
            // Whoever declines while nobody else has the lock shows nothing.
            let is_overtaken = |decided| other.granted > absence.from && other.granted < decided;
            if away.decided().is_some_and(is_overtaken) {
                declined(court, absence)
            } else {
                not_overtaken(absence)
            }
        }
        (None, _) => court.unanswered(),
    }
}

/// Returns the verdict on a run in which B came too late, so A's late write could do no damage.
fn not_overtaken(absence: Absence) -> Verdict {
    Verdict::inconclusive(
        format!(
            "Nothing broke, and nothing was tested: B did not get the lock while A was {}.",
            absence.manner.state
        ),
        Lack::Overrun,
        "somebody who gets the lock when the lease is over, and before A is asked to write.",
    )
}

/// Returns the verdict of the TTL edge, with suggestions that help whoever was away.
fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], watchdog_helps: &'static str) -> Verdict {
    let mut verdict = overwritten::broken(court, overlaps);
    verdict.next = court.suggest([
        court.next("watchdog", watchdog_helps),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ]);
    verdict
}

fn refused(court: &Court<'_>, write: &Op, absence: Absence) -> Verdict {
    let away = absence.on_a_lease(court);
    court.refused(write, format!("{away}; B got the lock and used the number"))
}

/// Returns the verdict on a run in which A found out by itself that its lock was lost.
fn declined(court: &Court<'_>, absence: Absence) -> Verdict {
    Verdict {
        witness: vec![format!(
            "{}; B got the lock meanwhile; then A knew that its lock was lost, and did not write",
            absence.on_a_lease(court)
        )],
        limits: Some("a pause between looking and writing is not covered; a fence would be".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself: it wrote nothing after its lock was lost.",
        )
    }
}
