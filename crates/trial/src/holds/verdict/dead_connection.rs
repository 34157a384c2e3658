//! Judges `dead-connection`: A's connections to its store died silently while new ones worked. Did A keep its lock?

use super::kept_alive::{
    LostHold, control_ns, evidence_of, excuse, losses, not_claimed, only_told,
};
use super::{Court, evidence};
use crate::history::Fault;
use crate::holds::facts::{Hold, Mark};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

/// How long a lease must be for a lock to notice that nobody answers and to connect again, on a busy machine too.
const LEASE_NS: u64 = 2_000_000_000;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if !court.claims.keep_alive {
        return not_claimed();
    }
    let dead = court.facts.fault_of(HOLDER, Fault::ConnectionsDead);
    let (Some(dead), Some(holder)) = (dead, court.facts.first_of_lock(HOLDER, FIRST_LOCK)) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A had no open connection to its store that could die.",
            Lack::Connection,
            "a lock that keeps a connection to its store, through the address it is given.",
        );
    };
    let losses = losses(court);
    if !losses.is_empty() {
        let excuse = only_told(&losses).or_else(|| excuse(court, &losses, LEASE_NS));
        return excuse.unwrap_or_else(|| broken(court, dead, &losses));
    }
    if !was_renewed(court, dead, holder) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to have renewed its lease before its connections died.",
            Lack::Renewal,
            "somebody who is refused the lock when a lease that was never renewed would be over.",
        );
    }
    match refused(court, dead, holder) {
        Some(refused) => acquit(court, dead, refused),
        None => court.unanswered(),
    }
}

/// Returns whether B was refused A's lock before the connections died, when a lease that was never renewed would have been over. So A had a
/// connection for its renewals that could die, or makes a new one each time.
fn was_renewed(court: &Court<'_>, dead: Mark, holder: &Hold) -> bool {
    let over_ns = holder.asked.at_ns.saturating_add(court.ttl_ns());
    let mut waits = court.facts.waits.iter();
    waits.any(|wait| {
        let is_other = wait.who == OTHER && wait.key == holder.key;
        let is_late = wait.asked.at_ns > over_ns;
        is_other && is_late && wait.refused().is_some_and(|refused| refused < dead)
    })
}

/// Returns when B was last refused A's lock, if a lease that ran when the connections died would have been over.
fn refused(court: &Court<'_>, dead: Mark, holder: &Hold) -> Option<Mark> {
    let over_ns = dead.at_ns.saturating_add(court.ttl_ns());
    let waits = court.facts.waits.iter();
    let others = waits.filter(|wait| wait.who == OTHER && wait.key == holder.key);
    let late = others.filter(|wait| wait.asked.at_ns > over_ns);
    let refused = late.filter_map(|wait| wait.refused());
    refused
        .filter(|mark| mark.at_ns < holder.unquestioned_until_ns())
        .max()
}

fn broken(court: &Court<'_>, dead: Mark, losses: &[LostHold<'_>]) -> Verdict {
    if losses.first().is_some_and(|loss| loss.at < dead) {
        return Verdict {
            evidence: evidence_of(losses),
            why: Some("Nothing had happened to A's connections by then: A did not renew its lease, although its lock claims that.".into()),
            ..Verdict::bare(
                Outcome::Broken,
                "A lost its lock before its connections died.",
            )
        };
    }
    let lost_ns = losses.first().map_or(0, |loss| loss.at.at_ns);
    let sentence = "A's connections to its store die silently, and new ones work";
    Verdict {
        evidence: [evidence(dead, HOLDER, "connections_dead", sentence)]
            .into_iter()
            .chain(evidence_of(losses))
            .collect(),
        why: Some(format!(
            "A's connections had died {} ms before, and the store answered B within {} ms. On a lease of {} ms, a lock that is renewed \
             over a new connection is kept; one that belongs to its connection ends with it.",
            ms(lost_ns.saturating_sub(dead.at_ns)),
            ms(control_ns(court)),
            ms(court.ttl_ns())
        )),
        ..Verdict::bare(
            Outcome::Broken,
            "A lost its lock when its connections died silently, although new ones worked.",
        )
    }
}

fn acquit(court: &Court<'_>, dead: Mark, refused: Mark) -> Verdict {
    Verdict {
        witness: vec![format!(
            "A's open connections died silently, and new ones worked; {} ms later B was still refused the lock, on a lease of {} ms",
            ms(refused.at_ns.saturating_sub(dead.at_ns)),
            ms(court.ttl_ns())
        )],
        limits: Some("new connections worked at once, and the store was well".into()),
        ..Verdict::bare(
            Outcome::Held,
            "A kept its lock when its connections died: it made new ones in time.",
        )
    }
}
