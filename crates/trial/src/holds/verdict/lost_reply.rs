//! The store's replies to a request were lost, one after the other: did an error count as a grant, and did the lock come free again?
//!
//! A is the process whose replies are lost, and B the one that wants the lock as well.

use super::overlap::{overlap_evidence, two_holders};
use super::spoiled::{answers, meets_holder, next_grant, requests, taken_for_a_grant};
use super::{Court, evidence};
use crate::holds::check::Overlap;
use crate::holds::facts::{Mark, Wait};
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let within = court.checks.overlaps_within_lease();
    if let Some((overlap, (lost, _))) = within
        .iter()
        .find_map(|overlap| taken_for_a_grant(court, overlap))
    {
        return broken(court, overlap, lost);
    }
    if court.checks.is_damaged_within_lease() || !within.is_empty() {
        return court.mixed_within_lease();
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let lost = requests(court);
    if lost.is_empty() {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no reply to A was lost while A asked for the lock.",
            Lack::Loss,
            "a lock that asks its store through the address it is given.",
        );
    }
    if !lost.iter().any(|wait| meets_holder(court, wait)) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no reply to A was lost while B certainly held the lock.",
            Lack::Contention,
            "a reply that is lost while another process holds the lock, on a lease that is running.",
        );
    }
    let next: Option<Vec<u64>> = lost.iter().map(|wait| next_grant(court, wait)).collect();
    match next {
        Some(next) => acquit(&lost, &next),
        None => court.unanswered(),
    }
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
            "The reply to {second}'s request was lost while {first} held the lock. {second} took that for a grant, or asked again and was let in."
        )),
        next: court
            .next("safe", "an error is no grant")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "Two holders at once: the reply to {second}'s request was lost, and {second} had the lock beside {first}.{}",
                court.losses()
            ),
        )
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

fn acquit(lost: &[&Wait], next: &[u64]) -> Verdict {
    let latest_ns = next.iter().copied().max().unwrap_or_default();
    Verdict {
        witness: vec![
            format!(
                "a reply to A was lost, and its connection cut, in {}: A's answers: {}",
                in_words(lost.len() as i64, "request", "requests"),
                answers(lost)
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
