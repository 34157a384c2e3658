//! Judges `lost-release`: replies to A's releases were lost, some of them when B had the lock. Was A's answer true, was B's lock left alone,
//! and did the lock come free?
//!
//! A is the process whose replies are lost, B the one that wants the lock as well, and C the one that tries while B has it.

use super::false_release::{grant_after, lost_reply, releases};
use super::{Court, false_release};
use crate::holds::facts::Hold;
use crate::holds::{OTHER, THIRD};
use crate::protocol::ReleaseResult;
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Lack, Outcome, Verdict};

mod freed;

use freed::Freed;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let within = court.checks.overlaps_within_lease();
    if let Some(freed) = Freed::of(court) {
        return freed.verdict(court);
    }
    if court.checks.is_damaged_within_lease() || !within.is_empty() {
        return court.mixed_within_lease();
    }
    if let Some(broken) = false_release::judge(court) {
        return broken;
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let lost = releases(court);
    if lost.is_empty() {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no reply to A was lost while A released the lock.",
            Lack::Loss,
            "a lock that releases through the address it is given.",
        );
    }
    let beside: Vec<u64> = lost
        .iter()
        .filter_map(|hold| refused_beside(court, hold))
        .collect();
    if beside.is_empty() {
        return Verdict::inconclusive(
            "Nothing broke, and too little was tested: no reply was lost while B certainly held the lock until C was refused.",
            Lack::Contention,
            "a reply that is lost when another process has the lock, on a lease that is running.",
        );
    }
    let next: Option<Vec<u64>> = lost.iter().map(|hold| grant_after(court, hold)).collect();
    match next {
        Some(next) => {
            // A reply that was only held back in the end is no lost one.
            let cut = lost.iter().filter(|hold| lost_reply(court, hold).is_some());
            acquitted(&lost, &next, cut.count(), beside.len())
        }
        None => court.unanswered(),
    }
}

/// Returns how long after A's answer C was refused, if B certainly held the lock from the loss of the reply until then.
fn refused_beside(court: &Court<'_>, hold: &Hold) -> Option<u64> {
    let answered = court.checks.release_answered(hold)?;
    let lost = lost_reply(court, hold)?;
    let waits = court.facts.waits.iter();
    let tries = waits.filter(|wait| wait.who == THIRD && wait.key == hold.key);
    let mut refused = tries.filter(|wait| wait.asked > answered);
    let refused = refused.find_map(|wait| wait.refused())?;
    let mut others = court.facts.holds.iter();
    let is_beside = others.any(|other| {
        let is_other = other.who == OTHER && other.key == hold.key;
        let checks = &court.checks;
        is_other && checks.certainly_held(other, lost.at_ns, refused.at_ns)
    });
    is_beside.then(|| refused.at_ns.saturating_sub(answered.at_ns))
}

fn acquitted(lost: &[&Hold], next: &[u64], cut: usize, beside: usize) -> Verdict {
    let count = |outcome| {
        let said = lost
            .iter()
            .filter(|hold| hold.released.map(|(_, outcome)| outcome) == outcome);
        said.count()
    };
    let said = [
        (count(Some(ReleaseResult::Released)), "released"),
        (count(Some(ReleaseResult::AlreadyLost)), "already lost"),
        (count(Some(ReleaseResult::Unknown)), "unknown"),
        (count(None), "error"),
    ];
    let said = said.into_iter().filter(|(times, _)| *times > 0);
    let said: Vec<String> = said
        .map(|(times, what)| format!("{times} × {what}"))
        .collect();
    let latest_ns = next.iter().copied().max().unwrap_or_default();
    Verdict {
        witness: vec![
            format!(
                "a reply to A's release was lost, and its connection cut, {}: A's answers: {}; B had the lock {} ms after that at the latest",
                in_words(cut as i64, "time", "times"),
                said.join(", "),
                ms(latest_ns)
            ),
            format!(
                "{}, B had the lock before A learned of the loss, and C was refused after A's answer",
                in_words(beside as i64, "time", "times")
            ),
        ],
        limits: Some("what A does about its release long after its answer was not seen".into()),
        ..Verdict::bare(
            Outcome::Held,
            "The lock came free, and A's release left B's lock alone.",
        )
    }
}
