//! The server's clock jumped back while A held the lock, and A died: does A's lease still end in its time?

use super::Court;
use super::recovery::recovered;
use crate::history::{Change, Fault};
use crate::holds::HOLDER;
use crate::text::numbers::ms;
use crate::verdict::{Lack, Verdict};

/// Judges what came after the death. A lock that nobody can have for three TTLs is judged with those of the other scenarios.
pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let behind = court
        .facts
        .server_that(|change| change == Change::ClockBehind);
    let Some((behind, _)) = behind else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: the server's clock was not seen to jump back.",
            Lack::Clock,
            "a server that keeps the lock, and that tells the time which the lab has set.",
        );
    };
    let died = court.facts.fault_of(HOLDER, Fault::Killed);
    let (Some(hold), Some(died)) = (court.facts.first_of(HOLDER), died) else {
        return court.unanswered();
    };
    let has_no_end = court.claims.keep_alive || court.claims.untimed;
    let lease_ns = hold.asked.at_ns.saturating_add(court.ttl_ns());
    if hold.granted > behind || died < behind || behind.at_ns >= lease_ns && !has_no_end {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A held nothing when the server's clock jumped back.",
            Lack::Hold,
            "a lease that runs when the clock jumps: a longer --ttl.",
        );
    }
    let Some((_, next)) = court.checks.recovery() else {
        return court.unanswered();
    };
    let mut verdict = recovered(court, died, Some(hold), next);
    let jumped = format!(
        "the server's clock jumped back {} ms after A's grant",
        ms(behind.at_ns.saturating_sub(hold.granted.at_ns))
    );
    if !verdict.witness.is_empty() {
        verdict.witness.insert(0, jumped);
    }
    verdict
}
