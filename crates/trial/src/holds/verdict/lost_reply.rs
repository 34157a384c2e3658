//! The store's replies to a request were lost, one after the other: did an error count as a grant, and did the lock come free again?
//!
//! A is the process whose replies are lost, and B the one that wants the lock as well.

use super::overlap::{overlap_evidence, two_holders};
use super::{Court, evidence, inconclusive};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let within = court.findings.overlaps_within_lease();
    if let Some((overlap, lost)) = within
        .iter()
        .find_map(|overlap| taken_for_a_grant(court, overlap))
    {
        return broken(court, overlap, lost);
    }
    if court.findings.is_damaged_within_lease() || !within.is_empty() {
        // What every lock promises is judged after this.
        return court.unanswered();
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let lost = lost_replies(court);
    if lost.is_empty() {
        return inconclusive(
            "Nothing broke, and nothing was tested: no reply to A was lost while A asked for the lock.",
            "loss",
            "a lock that asks its store through the address it is given.",
        );
    }
    if !lost.iter().any(|wait| meets_holder(court, wait)) {
        return inconclusive(
            "Nothing broke, and nothing was tested: no reply to A was lost while B certainly held the lock.",
            "contention",
            "a reply that is lost while another process holds the lock, on a lease that is running.",
        );
    }
    let next: Option<Vec<u64>> = lost.iter().map(|wait| next_grant(court, wait)).collect();
    match next {
        Some(next) => held(&lost, &next),
        None => court.unanswered(),
    }
}

/// Returns the requests of A for the lock during which a reply was lost.
fn lost_replies<'a>(court: &'a Court<'_>) -> Vec<&'a Wait> {
    let waits = court.facts.waits.iter();
    let own = waits.filter(|wait| wait.who == HOLDER && wait.key == FIRST_LOCK);
    own.filter(|wait| lost_during(court, wait).is_some())
        .collect()
}

fn lost_during(court: &Court<'_>, wait: &Wait) -> Option<Mark> {
    let (answered, _) = wait.answer?;
    let mut faults = court.facts.faults.iter();
    let lost = faults.find(|(mark, who, fault)| {
        *fault == Fault::ReplyLost && *who == wait.who && wait.asked < *mark && *mark < answered
    });
    lost.map(|(mark, ..)| *mark)
}

/// Returns whether B certainly held the lock from this request to its answer.
fn meets_holder(court: &Court<'_>, wait: &Wait) -> bool {
    let Some((answered, _)) = wait.answer else {
        return false;
    };
    let holds = court.facts.holds.iter();
    let mut others = holds.filter(|held| held.who == OTHER && held.key == wait.key);
    others.any(|held| {
        let findings = &court.findings;
        findings.certainly_held(held, wait.asked.at_ns, answered.at_ns)
    })
}

/// Returns how long after this request was answered B had the lock, or zero if B had it then.
fn next_grant(court: &Court<'_>, wait: &Wait) -> Option<u64> {
    let (answered, _) = wait.answer?;
    let holds = court.facts.holds.iter();
    let mut others = holds.filter(|held| held.who == OTHER && held.key == wait.key);
    let has_it =
        |held: &&Hold| held.granted < answered && held.unquestioned_until_ns() > answered.at_ns;
    if others.clone().any(|held| has_it(&held)) {
        return Some(0);
    }
    let next = others.find(|held| held.granted > answered)?;
    Some(next.granted.at_ns.saturating_sub(answered.at_ns))
}

/// Returns whether the second holder was granted the lock by a request whose reply was lost.
fn taken_for_a_grant<'a>(
    court: &Court<'_>,
    overlap: &'a Overlap<'a>,
) -> Option<(&'a Overlap<'a>, Mark)> {
    let second = overlap.second;
    let own = |wait: &&Wait| wait.who == second.who && wait.granted() == Some(second.granted);
    let wait = court.facts.waits.iter().find(own)?;
    Some((overlap, lost_during(court, wait)?))
}

fn broken(court: &Court<'_>, overlap: &Overlap<'_>, lost: Mark) -> Verdict {
    let (first, second) = (&overlap.first.who, &overlap.second.who);
    let sentence = format!("the store's reply to {second} is lost");
    let mut verdict = Verdict {
        evidence: [evidence(lost, second, "reply_lost", sentence)]
            .into_iter()
            .chain(overlap_evidence(Some(overlap)))
            .chain(court.interleaving())
            .collect(),
        why: Some(format!(
            "The reply to {second}'s request was lost while {first} held the lock, and {second} took that for a grant."
        )),
        next: court
            .next("safe", "an error is no grant")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "Two holders at once: {second} got no answer, and took the lock for its own.{}",
                court.losses()
            ),
        )
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

fn held(lost: &[&Wait], next: &[u64]) -> Verdict {
    let count = |is: fn(&Wait) -> bool| lost.iter().filter(|wait| is(wait)).count();
    let granted = count(|wait| wait.granted().is_some());
    let failed = count(|wait| matches!(wait.answer, Some((_, WaitEnd::Unknown))));
    let refused = count(|wait| wait.refused().is_some());
    let said: Vec<String> = [(failed, "error"), (refused, "refusal"), (granted, "grant")]
        .into_iter()
        .filter(|(times, _)| *times > 0)
        .map(|(times, what)| format!("{times} × {what}"))
        .collect();
    let latest_ns = next.iter().copied().max().unwrap_or_default();
    Verdict {
        witness: vec![
            format!(
                "a reply to A was lost, and its connection cut, in {}: A's answers: {}",
                in_words(lost.len() as i64, "request", "requests"),
                said.join(", ")
            ),
            format!(
                "B had the lock {} ms after A's answer at the latest",
                ms(latest_ns)
            ),
        ],
        limits: Some("replies to a release or to a renewal were not lost".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A lost reply was no grant beside B's, and the lock came free again.",
        )
    }
}
