//! The lock was released just when the next process was about to wait for it: was that process woken?

use super::Court;
use super::overlap::broken;
use crate::history::Fault;
use crate::holds::facts::{Hold, Mark};
use crate::holds::{HOLDER, OTHER};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    // The holder does not mean to work beyond its lease here. If it did, the lab or the machine was slow.
    let guilty = court.checks.overlaps_within_lease();
    if !guilty.is_empty() || court.checks.is_damaged_within_lease() {
        return broken(court, &guilty);
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let (Some(first), Some(next)) = (court.facts.first_of(HOLDER), court.facts.first_of(OTHER))
    else {
        return court.unanswered();
    };
    let Some(release) = first.release else {
        return court.unanswered();
    };
    if next.asked > release || next.granted < release {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not wait when A released the lock.",
            Lack::Contention,
            "somebody who waits for the lock when it is released.",
        );
    }
    woken(court, release, next)
}

fn woken(court: &Court<'_>, release: Mark, next: &Hold) -> Verdict {
    let after = |mark: Mark| ms(next.granted.at_ns.saturating_sub(mark.at_ns));
    let witness = match court.facts.fault_of(OTHER, Fault::Continued) {
        Some(continued) => format!(
            "B was stopped on its way to waiting; A's release was sent meanwhile; B got the lock {} ms after it went on",
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
            "B was woken: it got the lock that A released.",
        )
    }
}
