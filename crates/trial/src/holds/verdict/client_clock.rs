//! The time of day of a process was wrong while the lock was held: did B get the lock beside A?

use std::collections::HashSet;

use super::cause::Cause;
use super::court::STARTED_BY_IT;
use super::overlap::{overlap_evidence, two_holders};
use super::{Court, evidence};
use crate::history::Fault;
use crate::holds::check::{NOT_KEPT_MIN, Overlap};
use crate::holds::facts::{Hold, Mark, Wait};
use crate::holds::{HOLDER, OTHER};
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

/// How often a time of day is wrong at least: the holder's is behind, the other's is ahead, and runs fast.
const SPELLS: usize = 3;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let spells = spells(court);
    let overlaps = guilty_overlaps(court);
    if !overlaps.is_empty() || is_damaged(court) {
        return broken(court, &overlaps, &spells);
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    if let Some(unread) = spells.iter().find(|spell| spell.read.is_none()) {
        return Verdict::inconclusive(
            format!(
                "Not tried: {} did not ask the C library for the time, so the lab could not set its clock.",
                unread.who
            ),
            Lack::Clock,
            "a program whose clock the lab can set: not Go, and not linked statically.",
        );
    }
    let kept_out = |spell: &&Spell<'_>| is_kept_out(court, spell);
    let proven: Vec<&Spell<'_>> = spells.iter().filter(kept_out).collect();
    let kinds: HashSet<Fault> = proven.iter().map(|spell| spell.fault).collect();
    if kinds.len() < SPELLS || proven.len() < spells.len() {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not meet A's lock each time that a clock was wrong.",
            Lack::Contention,
            "a holder that is granted its lock, and somebody who is refused meanwhile.",
        );
    }
    let words: Vec<String> = proven.iter().map(|spell| spell.words()).collect();
    Verdict {
        witness: vec![format!("B was kept out while {}", words.join("; while "))],
        limits: Some(format!(
            "the time of day of processes only: what the server's clock does is another trial; {STARTED_BY_IT}"
        )),
        ..Verdict::bare(
            Outcome::Held,
            "Never two holders, whatever the time of day: the lock does not count by it.",
        )
    }
}

/// A time in which the time of day of a process was wrong.
struct Spell<'a> {
    who: &'a str,
    fault: Fault,
    from: Mark,
    until_ns: u64,
    /// When the process was first seen to have asked for the time.
    read: Option<Mark>,
}

impl Spell<'_> {
    fn covers(&self, at_ns: u64) -> bool {
        (self.from.at_ns..=self.until_ns).contains(&at_ns)
    }

    /// Returns words such as "B's time of day was an hour ahead".
    fn words(&self) -> String {
        let how = match self.fault {
            Fault::ClockAhead => "was an hour ahead",
            Fault::ClockBehind => "was an hour behind",
            _ => "ran a thousand times as fast",
        };
        format!("{}'s time of day {how}", self.who)
    }

    /// Returns what is worth knowing about a clock that may have had no part in it.
    fn note(&self) -> String {
        format!(
            "{} meanwhile; this run does not show whether that is the reason",
            self.words()
        )
    }
}

fn spells<'a>(court: &'a Court<'_>) -> Vec<Spell<'a>> {
    let faults = court.facts.faults.iter();
    let wrong = faults.enumerate().filter(|(_, seen)| {
        matches!(
            seen.fault,
            Fault::ClockAhead | Fault::ClockBehind | Fault::ClockFast
        )
    });
    wrong
        .map(|(place, began)| {
            let later = court.facts.faults[place + 1..].iter();
            let mut own = later.filter(|seen| seen.who == began.who);
            let right = own.clone().find(|seen| seen.fault == Fault::ClockRight);
            let until_ns = right.map_or(court.facts.end_ns, |seen| seen.mark.at_ns);
            let read =
                own.find(|seen| seen.fault == Fault::ClockRead && seen.mark.at_ns <= until_ns);
            Spell {
                who: &began.who,
                fault: began.fault,
                from: began.mark,
                until_ns,
                read: read.map(|seen| seen.mark),
            }
        })
        .collect()
}

/// Returns the overlaps that count against this lock: within a lease, or although the lock claims that its lease does not end. In the
/// second case the machine must not have stalled, no session may have ended, and a fence excuses it. What happens to a renewed lease once may
/// be the machine, too.
fn guilty_overlaps<'a>(court: &'a Court<'_>) -> Vec<Overlap<'a>> {
    let claims = court.claims;
    let has_no_end = (claims.keep_alive || claims.untimed) && !claims.fencing;
    let mut overlaps = court.checks.overlaps();
    overlaps.retain(|overlap| {
        let (first, second) = (overlap.first, overlap.second);
        let is_calm = !court.checks.has_stalled(first.asked, second.granted)
            && !court.checks.may_have_lost_one(overlap);
        overlap.is_within_lease() || has_no_end && is_calm
    });
    let is_within = |overlap: &Overlap<'_>| overlap.is_within_lease();
    let holds: HashSet<Mark> = overlaps.iter().map(|one| one.first.granted).collect();
    if !claims.untimed && holds.len() < NOT_KEPT_MIN && !overlaps.iter().any(is_within) {
        overlaps.clear();
    }
    overlaps
}

/// Returns whether operations were mixed up although the lock promises that they are not.
fn is_damaged(court: &Court<'_>) -> bool {
    court.checks.is_damaged_while_leased() || court.claims.fencing && court.is_damaged()
}

/// Returns whether B asked while A held the lock in this spell, and did not get it before A's release.
fn is_kept_out(court: &Court<'_>, spell: &Spell<'_>) -> bool {
    let waits = court.facts.waits.iter();
    let mut waits = waits.filter(|wait| wait.who == OTHER && spell.covers(wait.asked.at_ns));
    waits.any(|wait| {
        let mut holds = court.facts.holds.iter().filter(|hold| hold.who == HOLDER);
        holds.any(|hold| hold.key == wait.key && meets(hold, wait))
    })
}

/// Returns whether this request met this hold, and got nothing while it lasted.
fn meets(hold: &Hold, wait: &Wait) -> bool {
    let Some(release) = hold.release else {
        return false;
    };
    let is_held = hold.granted < wait.asked && wait.asked < release;
    let is_refused = wait.refused().is_some_and(|refused| refused < release);
    let came_after = wait.granted().is_some_and(|granted| granted > release);
    is_held && (is_refused || came_after)
}

fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], spells: &[Spell<'_>]) -> Verdict {
    let first = overlaps.first();
    let began_ns = first.map(|overlap| overlap.from_ns);
    let around = spells
        .iter()
        .find(|spell| began_ns.is_some_and(|began_ns| spell.covers(began_ns)));
    // B was refused within a lease when every clock was right. Nobody knows what would have happened beyond one.
    let is_within = first.is_some_and(|overlap| overlap.is_within_lease());
    let spell = around.filter(|_| is_within);
    let headline = match (spell, first) {
        (Some(spell), _) => format!("Two holders at once: {}", spell.words()),
        (None, Some(overlap)) => Cause::of(court, overlap).headline(),
        (None, None) => "Two used the number at once".into(),
    };
    let mut verdict = Verdict {
        evidence: spell
            .map(set)
            .into_iter()
            .chain(overlap_evidence(first))
            .chain(court.damage_evidence())
            .collect(),
        why: first.and_then(|overlap| why(court, overlap, spell)),
        ..Verdict::bare(Outcome::Broken, format!("{headline}.{}", court.losses()))
    };
    verdict.belief.text = first.map(two_holders);
    verdict
        .notes
        .extend(around.filter(|_| !is_within).map(Spell::note));
    verdict
}

/// Returns the change of the clock as evidence.
fn set(spell: &Spell<'_>) -> Evidence {
    evidence(spell.from, spell.who, "clock", spell.words())
}

/// Returns why B got the lock. The clock is the reason only if B was refused when every clock was right.
fn why(court: &Court<'_>, overlap: &Overlap<'_>, spell: Option<&Spell<'_>>) -> Option<String> {
    let cause = Cause::of(court, overlap).why();
    let Some(spell) = spell.filter(|spell| was_refused_before(court, spell)) else {
        return cause;
    };
    Some(format!(
        "B was refused when every clock was right, and got the lock when {}: the lock counts by the time of day, which anybody may set.",
        spell.words()
    ))
}

/// Returns whether B was kept out before any clock was wrong.
fn was_refused_before(court: &Court<'_>, spell: &Spell<'_>) -> bool {
    let first = spells(court).first().map_or(spell.from, |first| first.from);
    let mut waits = court.facts.waits.iter().filter(|wait| wait.who == OTHER);
    waits.any(|wait| wait.refused().is_some_and(|refused| refused < first))
}
