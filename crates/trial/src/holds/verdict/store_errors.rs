//! Judges `store-errors`: the store answered A with errors. Was one taken for a grant, for a release or for a renewal, and did the lock come
//! free again?
//!
//! A is the process that meets the errors, and B the one that wants the lock as well.

use super::false_release::{grant_after, met_evidence, releases};
use super::overlap::{overlap_evidence, two_holders};
use super::spoiled::{answers, meets_holder, next_grant, requests, taken_for_a_grant};
use super::{Court, false_release};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Lack, Outcome, Verdict};

mod renewal;

use renewal::Renewal;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let within = court.checks.overlaps_within_lease();
    let grant = within
        .iter()
        .find_map(|overlap| taken_for_a_grant(court, overlap));
    // A lock that also lets somebody in who met no error does not need errors for it.
    let always = within
        .iter()
        .any(|overlap| taken_for_a_grant(court, overlap).is_none());
    if let Some((overlap, met)) = grant.filter(|_| !always) {
        return grant_on_error(court, overlap, met);
    }
    if court.checks.is_damaged_within_lease() || !within.is_empty() {
        return court.mixed_within_lease();
    }
    if let Some(broken) = false_release::judge(court) {
        return broken;
    }
    let renewal = Renewal::of(court);
    if let Some(broken) = renewal.as_ref().and_then(|renewal| renewal.broken(court)) {
        return broken;
    }
    if renewal::met_elsewhere(court, renewal.as_ref())
        && let Some(overrun) = court.overrun()
    {
        return overrun;
    }
    acquitted(court, renewal.as_ref())
}

fn acquitted(court: &Court<'_>, renewal: Option<&Renewal<'_>>) -> Verdict {
    let (requests, releases) = (requests(court), releases(court));
    if !requests.iter().any(|wait| meets_holder(court, wait)) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no request of A's met an error while B certainly held the lock.",
            Lack::Contention,
            "a lock that asks its store through the address it is given, without encryption, and that goes on after an error.",
        );
    }
    if releases.is_empty() {
        return Verdict::inconclusive(
            "Nothing broke, and too little was tested: no release of A's met an error.",
            Lack::Error,
            "a lock that releases through the address it is given, without encryption.",
        );
    }
    let after_requests: Option<Vec<u64>> = requests
        .iter()
        .map(|wait| next_grant(court, wait))
        .collect();
    let after_releases: Option<Vec<u64>> = releases
        .iter()
        .map(|hold| grant_after(court, hold))
        .collect();
    let (Some(after_requests), Some(after_releases)) = (after_requests, after_releases) else {
        return court.unanswered();
    };
    let renewed = match renewal {
        Some(renewal) => match renewal.witness(court) {
            Ok(witness) => Some(witness),
            Err(verdict) => return *verdict,
        },
        None if court.claims.keep_alive => return renewal::not_met(),
        None => None,
    };
    acquit(
        &requests,
        &after_requests,
        &releases,
        &after_releases,
        renewed,
    )
}

fn grant_on_error(
    court: &Court<'_>,
    overlap: &Overlap<'_>,
    (met, fault): (Mark, Fault),
) -> Verdict {
    let (first, second) = (&overlap.first.who, &overlap.second.who);
    let error = fault.error().unwrap_or_default();
    let mut verdict = Verdict {
        evidence: [met_evidence(met, fault, second)]
            .into_iter()
            .chain(overlap_evidence(Some(overlap)))
            .chain(court.interleaving())
            .collect(),
        why: Some(format!(
            "The store answered {second}'s request with {error} while {first} held the lock. {second} took that for a grant, or asked again and was let in."
        )),
        next: court
            .next("safe", "an error is no grant")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "Two holders at once: {second}'s request met an error, and {second} had the lock beside {first}.{}",
                court.losses()
            ),
        )
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

fn acquit(
    requests: &[&Wait],
    after_requests: &[u64],
    releases: &[&Hold],
    after_releases: &[u64],
    renewed: Option<String>,
) -> Verdict {
    let latest = |after: &[u64]| ms(after.iter().copied().max().unwrap_or_default());
    let mut witness = vec![
        format!(
            "the store answered {} of A's with an error; A's answers: {}; B had the lock {} ms after that at the latest",
            in_words(requests.len() as i64, "request", "requests"),
            answers(requests),
            latest(after_requests)
        ),
        format!(
            "the store answered {} of A's with an error: B had the lock {} ms after that at the latest",
            in_words(releases.len() as i64, "release", "releases"),
            latest(after_releases)
        ),
    ];
    let limits = match renewed {
        Some(renewed) => {
            witness.push(renewed);
            "commands inside a transaction (MULTI) met no error"
        }
        None => "it does not claim to renew its lease, so no renewal met an error",
    };
    Verdict {
        witness,
        limits: Some(limits.into()),
        ..Verdict::bare(
            Outcome::Held,
            "An error was no grant and no release, and the lock came free again.",
        )
    }
}
