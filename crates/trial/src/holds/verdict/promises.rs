//! What every lock promises in every scenario, whatever the scenario asks: one holder within a lease, a lock that lasts as long
//! as its lease, and a lock that somebody can take when nobody has it.
//!
//! These judgments take precedence over an acquittal of the scenario, and over its finding that nothing was tested.

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_holders};
use super::{Court, evidence, fences, stalled, stuck};
use crate::history::Fault;
use crate::holds::Scenario;
use crate::holds::check::Late;
use crate::holds::facts::{GaveUp, Hold, UnseenGrant};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

/// Returns the verdict of the scenario, unless one of the promises decides otherwise: BROKEN over STUCK over the rest.
pub(super) fn judge(court: &Court<'_>, verdict: Verdict) -> Verdict {
    if verdict.outcome == Outcome::Broken {
        return verdict;
    }
    let broken = fences::judge(court)
        .or_else(|| exclusion(court))
        .or_else(|| kept_for_its_lease(court));
    if let Some(worse) = broken.or_else(|| stuck::judge(court)) {
        return worse;
    }
    if let Some(stuck) = court.checks.stuck_in_doubt() {
        let lasted = ms(stuck.lasted_ns);
        return stalled(format!(
            "Nobody got the lock for {lasted} ms, but the lab itself stalled meanwhile."
        ));
    }
    // In a storm, whoever is paused or killed on its way holds up those behind it, and whoever gives up a lock may say so late.
    if verdict.outcome != Outcome::Held || court.header.scenario == Scenario::Storm.name() {
        return verdict;
    }
    if let Some((first, second)) = court.checks.granted_before_loss_was_told() {
        return told_later(first, second);
    }
    match court.checks.granted_late() {
        Some(late) => granted_late(court, &late),
        None => verdict,
    }
}

/// Returns the verdict on a run in which a process got the lock within the lease of another, which said only later that its lock was lost. It
/// may have given the lock up by then.
fn told_later(first: &Hold, second: &Hold) -> Verdict {
    Verdict::inconclusive(
        format!(
            "{} got the lock {} ms after {}'s request for it, within its lease, and {} said only later that it was lost.",
            second.who,
            ms(second.granted.at_ns.saturating_sub(first.asked.at_ns)),
            first.who,
            first.who
        ),
        Lack::Kept,
        "a lock that is kept for its lease, or a holder that says at once that it gave it up.",
    )
}

/// Returns the verdict if there were two holders within a lease.
fn exclusion(court: &Court<'_>) -> Option<Verdict> {
    let overlaps = court.checks.overlaps_within_lease();
    let overlap = overlaps.first()?;
    let cause = Cause::of(court, overlap);
    // In a storm, other holds may have been mixed as well, after the end of their leases.
    let of_all = court.header.scenario != Scenario::Storm.name();
    let (mixed, losses) = if of_all {
        (court.interleaving(), court.losses())
    } else {
        (None, String::new())
    };
    let mut verdict = Verdict {
        evidence: overlap_evidence(Some(overlap))
            .into_iter()
            .chain(mixed)
            .collect(),
        why: cause.why(),
        ..Verdict::bare(Outcome::Broken, format!("{}.{losses}", cause.headline()))
    };
    verdict.belief.text = Some(two_holders(overlap));
    Some(verdict)
}

/// Withdraws an acquittal if the lock did not use the store on trial. What convicts a lock convicts it wherever it keeps its records.
pub(super) fn through_the_store(court: &Court<'_>, verdict: Verdict) -> Verdict {
    match court.facts.unseen.first() {
        Some(UnseenGrant { who, .. }) if verdict.outcome == Outcome::Held => Verdict::inconclusive(
            format!(
                "{who} was granted the lock without the store: nothing came through the address that it was given."
            ),
            Lack::Traffic,
            "a program that uses the endpoints of init, and no others.",
        ),
        _ => verdict,
    }
}

/// Withdraws an acquittal if the lab stopped waiting for the end of the trial, and names that in place of what is missing otherwise.
pub(super) fn to_its_end(court: &Court<'_>, verdict: Verdict) -> Verdict {
    // A storm that ends early is judged by what it has shown.
    let is_storm = court.header.scenario == Scenario::Storm.name();
    let has_begun = court.facts.not_begun().is_none();
    match court.facts.given_up.first() {
        Some(GaveUp { why, .. }) if has_begun && !is_storm && !verdict.outcome.is_conviction() => {
            Verdict::inconclusive(
                format!("Nothing broke, and the lab stopped waiting {why}."),
                Lack::Answers,
                "a trial that comes to its end. If it never does, the lab has a defect: please report the history.",
            )
        }
        _ => verdict,
    }
}

/// Returns the verdict if a holder was told within its own lease that its lock was gone.
fn kept_for_its_lease(court: &Court<'_>) -> Option<Verdict> {
    let hold = court.checks.lost_within_lease()?;
    let (answered, _) = hold.released?;
    let after = ms(answered.at_ns.saturating_sub(hold.asked.at_ns));
    let sentence = format!("{}'s release: no longer the owner", hold.who);
    let granted = format!("{} is granted {}", hold.who, hold.key);
    Some(Verdict {
        evidence: vec![
            evidence(hold.granted, &hold.who, "granted", granted),
            evidence(answered, &hold.who, "already_lost", sentence),
        ],
        why: Some(why_gone(court, hold)),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{}'s lock was gone within its lease: {after} ms after it was requested, its release found it lost.",
                hold.who
            ),
        )
    })
}

/// Returns what happened to the lock between its grant and its release.
fn why_gone(court: &Court<'_>, hold: &Hold) -> String {
    let until_ns = hold.released.map_or(0, |(mark, _)| mark.at_ns);
    let others = court.facts.holds.iter();
    let mut others = others.filter(|other| other.key == hold.key && other.who != hold.who);
    let is_between = |at_ns: u64| hold.granted.at_ns < at_ns && at_ns < until_ns;
    let taker = others.clone().find(|other| is_between(other.granted.at_ns));
    let releaser = others.find(|other| {
        other
            .released
            .is_some_and(|(mark, _)| is_between(mark.at_ns))
    });
    let over = court
        .facts
        .faults
        .iter()
        .find(|seen| seen.fault == Fault::OverReleased && is_between(seen.mark.at_ns));
    if let Some(over) = over {
        if over.who == hold.who {
            return format!(
                "{} released its earlier hold once more while it had the lock again, and only that can have freed it.",
                over.who
            );
        }
        return format!(
            "{} released it once too often while {} held the lock, and only that can have freed it.",
            over.who, hold.who
        );
    }
    match (releaser, taker) {
        (Some(releaser), _) => format!(
            "{}'s release came while {} held the lock, and only that can have freed it.",
            releaser.who, hold.who
        ),
        (None, Some(taker)) => format!("{} was granted it meanwhile.", taker.who),
        (None, None) => {
            "Nobody else was granted it or released it meanwhile: the lock itself lost it.".into()
        }
    }
}

/// Returns the verdict on a run in which the waiter got a free lock, but so late that "it was woken" would be wrong. The lab may have
/// stalled, so nobody is accused.
fn granted_late(court: &Court<'_>, late: &Late<'_>) -> Verdict {
    let (who, took) = (&late.wait.who, ms(late.took_ns));
    if court.checks.has_stalled(late.wait.asked, late.answered) {
        return stalled(format!(
            "{who} got the lock only {took} ms after it was free, but the lab itself stalled meanwhile."
        ));
    }
    Verdict::inconclusive(
        format!(
            "{who} got the lock only {took} ms after it was free: too late for a lock that nobody has, unless the machine \
             stalled."
        ),
        Lack::Calm,
        "a machine that is less busy. If it happens again, the lock does not wake its waiters.",
    )
}

/// Returns what is worth knowing about single tries that took long. How long an answer takes depends on the machine as well, so
/// this decides nothing.
pub(super) fn notes(court: &Court<'_>) -> Vec<String> {
    let slow = court.checks.slow_tries();
    let note = |late: &Late<'_>| {
        let stalled = court.checks.has_stalled(late.wait.asked, late.answered);
        format!(
            "{} was asked not to wait (wait_ms 0), and its answer took {} ms{}",
            late.wait.who,
            ms(late.took_ns),
            if stalled {
                "; the lab itself stalled meanwhile"
            } else {
                ""
            }
        )
    };
    slow.iter().map(note).collect()
}
