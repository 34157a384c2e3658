//! The holder worked longer than its lease: was anything lost?

use super::Court;
use super::overwritten::broken;
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::{HOLDER, OTHER};
use crate::protocol::Action;
use crate::text::numbers::{count, ms};
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let overlaps = court.guilty_overlaps();
    if let Some(doubt) = court.not_renewed_in_a_stall(&overlaps) {
        return doubt;
    }
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps);
    }
    let (Some(slow), Some(other)) = (court.facts.first_of(HOLDER), court.facts.first_of(OTHER))
    else {
        return court.unanswered();
    };
    let last = court.facts.ops.iter().rev().find(|op| op.who == HOLDER);
    let write = last.filter(|op| op.action == Action::Write);
    let overran = |at_ns: u64| at_ns > slow.granted.at_ns.saturating_add(court.ttl_ns());
    match (write, slow.learned_at) {
        (Some(write), _) if !overran(write.mark.at_ns) => Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was done before its lease was over.",
            Lack::Overrun,
            "work beyond the lease: --work longer than --ttl.",
        ),
        (Some(write), _) if write.refused => refused(court, slow, write),
        (Some(write), _) => kept_out(court, slow, write, other),
        // Whoever declines while nobody else has the lock shows nothing.
        (None, Some(_))
            if slow
                .declined
                .is_none_or(|declined| declined < other.granted) =>
        {
            court.not_overtaken()
        }
        (None, Some(learned)) if overran(learned.at_ns) => court
            .not_kept(slow, other)
            .unwrap_or_else(declined_to_write),
        (None, Some(learned)) if other.granted > learned => court
            .not_kept(slow, other)
            .unwrap_or_else(|| stopped_early(court, slow, learned, other)),
        (None, Some(_)) => court.unanswered(),
        (None, None) => court.unanswered(),
    }
}

fn refused(court: &Court<'_>, slow: &Hold, write: &Op) -> Verdict {
    let witness = match slow.lease_over {
        Some(over) => format!(
            "A's lease was over by {} ms, and A wrote at {} ms",
            ms(over.at_ns),
            ms(write.mark.at_ns)
        ),
        None => format!("A wrote at {} ms, after B", ms(write.mark.at_ns)),
    };
    court.refused(write, witness)
}

/// Returns the verdict on a run in which the other process got the lock only after the first had released it.
fn kept_out(court: &Court<'_>, slow: &Hold, write: &Op, other: &Hold) -> Verdict {
    let Some(release) = slow.release else {
        return court.unanswered();
    };
    let waited = other.asked.at_ns < write.mark.at_ns && other.granted.at_ns > release.at_ns;
    if !waited {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not wait while A worked.",
            Lack::Contention,
            "somebody who waits for the lock while A works beyond its lease.",
        );
    }
    let worked = ms(write.mark.at_ns - slow.granted.at_ns);
    let limits = if court.claims.keep_alive {
        "renewing needs a running process: one paused beyond its lease loses it unnoticed"
    } else if court.claims.belongs_to_session() {
        "nobody else could work meanwhile: without a lease, B would have got the lock only after A's end"
    } else if court.checks.lasts_by_itself() {
        "A's lock had no expiry while it worked: a holder that dies there keeps it forever"
    } else {
        "A's lock outlasted its TTL, which it does not claim to do: what keeps it, and what ends it, was not tried"
    };
    let ttl = count(court.header.ttl_ms as i64);
    let lease = if court.claims.untimed {
        format!("and no lease of {ttl} ms ended its lock")
    } else {
        format!("on a lease of {ttl} ms")
    };
    Verdict {
        witness: vec![format!(
            "A worked {worked} ms {lease}; B waited, and got the lock {} ms after A released it",
            ms(other.granted.at_ns - release.at_ns)
        )],
        limits: Some(limits.into()),
        ..Verdict::bare(
            Outcome::Held,
            "B got the lock only after A had released it: never two holders, no update lost.",
        )
    }
}

fn declined_to_write() -> Verdict {
    Verdict {
        witness: vec!["A knew that its lock was lost, and did not write".into()],
        limits: Some("a pause between looking and writing is not covered; a fence would be".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself: it wrote nothing after its lock was lost.",
        )
    }
}

/// Returns the verdict on a run in which A gave up its lock before the lease was over, and did nothing with it afterwards.
fn stopped_early(court: &Court<'_>, slow: &Hold, learned: Mark, other: &Hold) -> Verdict {
    let lease_ns = slow.asked.at_ns.saturating_add(court.ttl_ns());
    Verdict {
        witness: vec![format!(
            "A said at {} ms that its lock was lost, {} ms before its lease could end, and did not write; B was granted it at {} ms",
            ms(learned.at_ns),
            ms(lease_ns.saturating_sub(learned.at_ns)),
            ms(other.granted.at_ns)
        )],
        limits: Some(
            "work beyond the lease was not tried: A gave up before. A pause between looking and writing is not covered"
                .into(),
        ),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself before its lease was over: it wrote nothing after its lock was lost.",
        )
    }
}
