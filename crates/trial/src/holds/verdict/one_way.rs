//! Judges a holder whose road to its store was open in one direction only, for longer than its lease: `cut-replies` and `cut-requests`.
//!
//! A is the holder, and B the one that may get the lock meanwhile. If A's requests still arrive, the store may keep A's lock alive although A
//! cannot know it.

use super::absence::{Absence, Manner, UNHEARD, WITHOUT_REPLIES, kept};
use super::{Court, pause};
use crate::history::Fault;
use crate::holds::{HOLDER, OTHER};
use crate::verdict::{Lack, Outcome, Verdict};

/// Judges a holder that no reply reached.
pub(super) fn judge_replies(court: &Court<'_>) -> Verdict {
    let verdict = judge(court, WITHOUT_REPLIES);
    let verdict = match verdict.outcome {
        Outcome::Inconclusive => kept_by_requests(court).unwrap_or(verdict),
        _ => verdict,
    };
    with_passed(court, verdict, "A's requests still reached its store")
}

/// Judges a holder of which no request arrived.
pub(super) fn judge_requests(court: &Court<'_>) -> Verdict {
    let verdict = judge(court, UNHEARD);
    with_passed(court, verdict, "what its store sent still reached A")
}

fn judge(court: &Court<'_>, manner: Manner) -> Verdict {
    let nothing = || {
        Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A's road to its store was not seen to be cut for longer than its lease.",
            Lack::Cut,
            "a holder that takes its lock through the address it is given, and is cut off in one direction for longer than the TTL.",
        )
    };
    let helps = "counts its lease from the last renewal that its store confirmed";
    pause::judge_absence(court, manner, helps, nothing)
}

/// Returns when something was seen to pass in the direction that was open.
fn passed(court: &Court<'_>) -> bool {
    let passed = court.facts.fault_of(HOLDER, Fault::PassedOneWay);
    passed.is_some()
}

/// Returns the verdict on a lock that its store kept, because the requests of its holder arrived; `None` if that is not what happened.
fn kept_by_requests(court: &Court<'_>) -> Option<Verdict> {
    let absence = Absence::of(court, HOLDER, WITHOUT_REPLIES)?;
    let is_long = absence.lasted_ns() > court.ttl_ns();
    let is_kept = is_long && court.claims.keep_alive && passed(court);
    let (away, other) = (court.facts.first_of(HOLDER)?, court.facts.first_of(OTHER)?);
    is_kept.then(|| kept(court, away, other, absence))
}

/// Adds whether the direction that was open was used at all.
fn with_passed(court: &Court<'_>, mut verdict: Verdict, words: &str) -> Verdict {
    if verdict.outcome != Outcome::Held {
        return verdict;
    }
    if passed(court) {
        verdict.witness.push(words.into());
    } else {
        let unused = "nothing passed in the other direction, so this was a cut like any other";
        verdict.limits = Some(match verdict.limits.take() {
            Some(limits) => format!("{limits}; {unused}"),
            None => unused.into(),
        });
    }
    verdict
}
