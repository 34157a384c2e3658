//! Judges `failed-renewal`: a reply to A was lost while it held its lock, and a renewal met an error. Did A keep its lock?

use super::Court;
use super::false_release::met_evidence;
use super::kept_alive::{
    LostHold, control_ns, evidence_of, excuse, losses, not_claimed, only_told,
};
use crate::history::Fault;
use crate::holds::check::SLACK_NS;
use crate::holds::facts::{Hold, Mark};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

/// How long a lease must be for a lock to renew it again after a failure, on a busy machine too.
const LEASE_NS: u64 = 2_000_000_000;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if !court.claims.keep_alive {
        return not_claimed();
    }
    let failed = failed_renewals(court);
    let Some((_, met, fault)) = failed.first() else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no request of A's failed while it held the lock.",
            Lack::Renewal,
            "a lock that renews its lease through the address it is given, with requests of its own.",
        );
    };
    let (losses, undisturbed): (Vec<_>, Vec<_>) = losses(court).into_iter().partition(|loss| {
        failed
            .iter()
            .any(|(hold, met, _)| std::ptr::eq(*hold, loss.hold) && *met < loss.at)
    });
    if let Some(loss) = losses.first() {
        let of_loss = failed
            .iter()
            .find(|(hold, ..)| std::ptr::eq(*hold, loss.hold));
        let (met, fault) = of_loss.map_or((*met, *fault), |(_, met, fault)| (*met, *fault));
        let excuse = only_told(&losses)
            .or_else(|| cut_by_the_lab(court, loss, fault))
            .or_else(|| excuse(court, &losses, LEASE_NS))
            .or_else(|| failed_late(left_ns(court, loss.hold, met)));
        let lost_ns = loss.at.at_ns.saturating_sub(met.at_ns);
        return excuse.unwrap_or_else(|| Verdict {
            evidence: [met_evidence(met, fault, HOLDER)]
                .into_iter()
                .chain(evidence_of(&losses))
                .collect(),
            why: Some(format!(
                "One request of A's had failed {} ms before, and the store answered B within {} ms. The lease ran for at least {} ms more: there was time for another renewal.",
                ms(lost_ns),
                ms(control_ns(court)),
                ms(left_ns(court, loss.hold, met))
            )),
            ..Verdict::bare(
                Outcome::Broken,
                "A lost its lock after one failed request, although it could have renewed it.",
            )
        });
    }
    if !undisturbed.is_empty() {
        let excuse = only_told(&undisturbed).or_else(|| excuse(court, &undisturbed, LEASE_NS));
        return excuse.unwrap_or_else(|| not_renewed(court, &undisturbed));
    }
    let refused: Option<Vec<String>> = failed
        .iter()
        .map(|(hold, met, fault)| {
            let refused = last_refusal(court, hold, *met)?;
            let after = ms(refused.at_ns.saturating_sub(met.at_ns));
            let what = match fault.error() {
                Some(error) => format!("a renewal of A's met {error}"),
                None => "the reply to a request of A's was lost while it held the lock, and its connection cut".into(),
            };
            Some(format!(
                "{what}; {after} ms later B was still refused the lock, on a lease of {} ms",
                ms(court.ttl_ns())
            ))
        })
        .collect();
    match refused {
        Some(witness) => Verdict {
            witness,
            limits: Some(
                "one request failed at a time, and a lost reply may be that to another request than a renewal: cut shows what happens when all fail"
                    .into(),
            ),
            ..Verdict::bare(
                Outcome::Held,
                "A kept its lock when a request failed: it renewed it in time.",
            )
        },
        None => court.unanswered(),
    }
}

/// Returns the verdict on a lock that was lost although none of its renewals had failed by then.
fn not_renewed(court: &Court<'_>, losses: &[LostHold<'_>]) -> Verdict {
    Verdict {
        evidence: evidence_of(losses),
        why: Some(format!(
            "No request of A's had failed during that hold, and the store answered B within {} ms, on a lease of {} ms.",
            ms(control_ns(court)),
            ms(court.ttl_ns())
        )),
        ..Verdict::bare(
            Outcome::Broken,
            "A lost a lock that it claims to renew, and nothing had disturbed it.",
        )
    }
}

/// Returns how much of the lease was left for certain when a request failed. If the reply to a renewal was lost, the store may have carried it out,
/// but the reply may also be that to the beginning of a transaction.
fn left_ns(court: &Court<'_>, hold: &Hold, met: Mark) -> u64 {
    let over_ns = hold.asked.at_ns.saturating_add(court.ttl_ns());
    over_ns.saturating_sub(met.at_ns)
}

/// Returns an inconclusive verdict if a busy machine explains that no other renewal came in time.
fn failed_late(left_ns: u64) -> Option<Verdict> {
    (left_ns < SLACK_NS).then(|| {
        Verdict::inconclusive(
            format!(
                "A lost its lock after a request had failed, but only {} ms of the lease were left for certain by then.",
                ms(left_ns)
            ),
            Lack::Time,
            "a lock that renews its lease earlier, or a longer --ttl.",
        )
    })
}

/// Returns the verdict on a lock that ends with its connection, if the lab cut that connection with the reply.
fn cut_by_the_lab(court: &Court<'_>, loss: &LostHold<'_>, fault: Fault) -> Option<Verdict> {
    let is_cut = fault == Fault::ReplyLost && court.claims.belongs_to_session();
    is_cut.then(|| {
        Verdict::inconclusive(
            format!(
                "{}'s lock ends with its connection, and the lab cut that with the reply.",
                loss.hold.who
            ),
            Lack::Lease,
            "a lock with a lease of its own, or the trial dead-connection.",
        )
    })
}

/// Returns the first spoiled reply to A during each of its holds, while nothing was asked of it.
fn failed_renewals<'a>(court: &'a Court<'_>) -> Vec<(&'a Hold, Mark, Fault)> {
    let holds = court.facts.holds.iter();
    let own = holds.filter(|hold| hold.who == HOLDER && hold.key == FIRST_LOCK);
    let failed = own.filter_map(|hold| {
        let is_during =
            |mark: Mark| mark > hold.granted && hold.release.is_none_or(|release| mark < release);
        let mut faults = court.facts.faults.iter();
        let met = faults.find(|seen| {
            seen.fault.spoils_reply() && seen.who == hold.who && is_during(seen.mark)
        })?;
        Some((hold, met.mark, met.fault))
    });
    failed.collect()
}

/// Returns when B was last refused A's lock, if a lease that ran when the renewal failed would have been over.
fn last_refusal(court: &Court<'_>, hold: &Hold, met: Mark) -> Option<Mark> {
    let over_ns = met.at_ns.saturating_add(court.ttl_ns());
    let waits = court.facts.waits.iter();
    let others = waits.filter(|wait| wait.who == OTHER && wait.key == hold.key);
    let late = others.filter(|wait| wait.asked.at_ns > over_ns);
    let refused = late.filter_map(|wait| wait.refused());
    refused
        .filter(|mark| mark.at_ns < hold.unquestioned_until_ns())
        .max()
}
