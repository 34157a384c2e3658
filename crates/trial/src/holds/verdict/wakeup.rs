//! The lock was released just when the next process was about to wait for it: was that process woken?

use super::{Court, evidence, inconclusive, stuck_duration};
use crate::history::Fault;
use crate::holds::check::Stuck;
use crate::holds::facts::{Hold, Mark};
use crate::text::numbers::ms;
use crate::verdict::{Outcome, Verdict};

const HOLDER: &str = "A";
const NEXT: &str = "B";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let guilty = court.guilty_overlaps();
    if !guilty.is_empty() || court.is_damaged() {
        return broken(court);
    }
    if let Some(stuck) = court.findings.stuck() {
        return asleep(court, &stuck);
    }
    let (Some(first), Some(next)) = (court.facts.first_of(HOLDER), court.facts.first_of(NEXT))
    else {
        return court.unanswered();
    };
    let Some(release) = first.release else {
        return court.unanswered();
    };
    if next.asked > release || next.granted < release {
        return inconclusive(
            "Nothing broke, and nothing was tested: B did not wait when A gave the lock back.",
            "contention",
            "somebody who waits for the lock when it is given back.",
        );
    }
    woken(court, release, next)
}

fn woken(court: &Court<'_>, release: Mark, next: &Hold) -> Verdict {
    let after = |mark: Mark| ms(next.granted.at_ns.saturating_sub(mark.at_ns));
    let witness = match court.facts.fault_of(NEXT, Fault::Continued) {
        Some(continued) => format!(
            "B was stopped on its way to waiting; A's release was sent meanwhile; B came in {} ms after it went on",
            after(continued)
        ),
        None => format!(
            "B waited when A's release was sent, and came in {} ms later",
            after(release)
        ),
    };
    Verdict {
        witness: vec![witness],
        limits: Some("one release at one moment: says nothing about others".into()),
        ..Verdict::bare(
            Outcome::Held,
            "B was woken: it got the lock that A gave back.",
        )
    }
}

/// Nobody holds the lock, but the waiter is not notified.
fn asleep(court: &Court<'_>, stuck: &Stuck) -> Verdict {
    let mut proof = Vec::new();
    let reached = court.facts.reached.iter().find(|(_, who, ..)| who == NEXT);
    if let Some((mark, ..)) = reached {
        let sentence = "B has looked up who is ahead of it, and does not watch yet";
        proof.push(evidence(*mark, NEXT, "looks", sentence));
    }
    let sentence = "A's release is done: nobody has the lock";
    proof.push(evidence(stuck.since, HOLDER, "released", sentence));
    for (who, mark) in &stuck.refused {
        let sentence = format!("{who} still waits, and gives up");
        proof.push(evidence(*mark, who, "refused", sentence));
    }
    Verdict {
        evidence: proof,
        why: court.why_strategy(),
        next: court
            .next("safe", "looks once more when it watches")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Stuck,
            format!(
                "Nobody has the lock, and {} later B still waits for it.",
                stuck_duration(stuck)
            ),
        )
    }
}

fn broken(court: &Court<'_>) -> Verdict {
    let overlaps = court.guilty_overlaps();
    Verdict {
        evidence: super::deadlock::overlap_evidence(overlaps.first())
            .into_iter()
            .chain(court.interleaving())
            .collect(),
        why: court.why_strategy(),
        ..Verdict::bare(
            Outcome::Broken,
            format!("Two holders at once.{}", court.losses()),
        )
    }
}
