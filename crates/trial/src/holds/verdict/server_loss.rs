//! A server lost A's lock, whether it died or lives on: which overlaps count against the lock, and the words that these scenarios share.

use super::Court;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark};
use crate::text::numbers::ms;
use crate::verdict::Next;

/// Returns the overlaps that count against this lock. Fences excuse an overlap only after the failure; a lease that may have expired also
/// excuses it, and so does a lease that may not have been renewed because the machine stalled.
pub(super) fn guilty_overlaps<'a>(court: &'a Court<'_>, killed: Option<Mark>) -> Vec<Overlap<'a>> {
    let mut overlaps = court.checks.overlaps();
    let is_early =
        |overlap: &Overlap<'_>| killed.is_none_or(|killed| overlap.from_ns < killed.at_ns);
    overlaps.retain(|overlap| {
        let is_renewed = court.claims.keep_alive && !court.checks.has_stalled_before(overlap);
        let has_no_end = is_renewed || court.checks.has_no_end(overlap);
        let is_running = has_no_end || overlap.is_within_lease();
        // Whoever claims to survive the failure promises more than its fences.
        let is_excused = court.claims.fencing && !court.claims.survives;
        is_running && (!is_excused || is_early(overlap))
    });
    overlaps
}

/// Returns for how long A, which wrote nothing, may have believed in its lock beside B.
pub(super) fn believed_until(learned: Mark, other: &Hold) -> String {
    match learned.at_ns.saturating_sub(other.granted.at_ns) {
        0 => "two holders were not seen at once".into(),
        most => format!(
            "two holders for at most {} ms; harmless here, because A wrote nothing meanwhile",
            ms(most)
        ),
    }
}

/// Suggests a lock whose late writes the resource refuses.
pub(super) fn fenced(court: &Court<'_>) -> Option<Next> {
    court.next("fenced", "lets the resource refuse A")
}
