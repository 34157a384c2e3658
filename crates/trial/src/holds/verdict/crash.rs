//! The holder was killed: did somebody else get its lock?

use super::Court;
use super::recovery::{never, recovered};
use crate::history::Fault;
use crate::holds::HOLDER;
use crate::holds::facts::Hold;
use crate::verdict::{Lack, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let Some(died) = court.facts.fault_of(HOLDER, Fault::Killed) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not killed while it held the lock.",
            Lack::Kill,
            "a holder that is seen to die of the lab's signal.",
        );
    };
    let hold = court.facts.first_of(HOLDER);
    let mut halted = court.facts.halted.iter();
    let halted = halted.any(|halted| halted.who == HOLDER);
    let holds_on = |hold: &Hold| {
        // The lease began no earlier than it was requested.
        let is_running = died.at_ns < hold.asked.at_ns.saturating_add(court.ttl_ns());
        let has_no_end = court.claims.keep_alive || court.claims.untimed;
        hold.killed.is_some() && (is_running || has_no_end)
    };
    if !halted && !hold.is_some_and(holds_on) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A held nothing any more when it was killed.",
            Lack::Hold,
            "a lease that outlives the kill: a longer --ttl.",
        );
    }
    match court.checks.recovery() {
        Some((_, next)) => recovered(court, died, hold, next),
        None if let Some(never) = never(court, died) => never,
        None if court
            .facts
            .inspections
            .iter()
            .any(|inspection| !inspection.taken || inspection.ttl_left_ms.is_some()) =>
        {
            Verdict::inconclusive(
                "B did not get the lock, although the store says that time frees it.",
                Lack::Calm,
                "a machine that is less busy, or a longer --ttl.",
            )
        }
        None => court.unanswered(),
    }
}
