//! Two locks were taken in opposite order, or in the same order: what ended the wait, and at what cost?

use std::collections::BTreeMap;

use super::cause::Cause;
use super::overlap::overlap_evidence;
use super::overwritten::FENCED_LIMITS;
use super::{Court, evidence};
use crate::holds::Scenario;
use crate::holds::check::Overlap;
use crate::holds::facts::{Cycle, Hold, Mark, Op};
use crate::protocol::Action;
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

const WHY: &str =
    "A lease that ends while its holder waits no longer protects what the holder believes.";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let cycles = court.facts.cycles();
    let Some(cycle) = cycles.first() else {
        // Without a deadlock, the end of a lease has another cause: the machine.
        let guilty = court.checks.overlaps_within_lease();
        if !guilty.is_empty() || court.checks.is_damaged_within_lease() {
            return broken(court, None, &guilty);
        }
        if let Some(overrun) = court.overrun() {
            return overrun;
        }
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no wait cycle came about.",
            Lack::Cycle,
            "two who wait for each other.",
        );
    };
    let overlaps = court.guilty_overlaps();
    if let Some(doubt) = court.not_renewed_in_a_stall(&overlaps) {
        return doubt;
    }
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, Some(cycle), &overlaps);
    }
    if let Some(ended) = ended_by_store(court, cycle) {
        return ended;
    }
    match court.refused_op() {
        Some(op) => {
            let mut verdict = Verdict {
                witness: vec![format!(
                    "{}; then the TTL ended both leases, and both processes got both locks",
                    cycle_in_words(cycle)
                )],
                limits: Some(FENCED_LIMITS.into()),
                ..Verdict::bare(
                    Outcome::Held,
                    format!(
                        "No damage: the TTL ended both leases, both processes got both locks, and the resource refused {} ({}).",
                        op.who,
                        court.fences(op)
                    ),
                )
            };
            let believed = of_each_lock(&court.checks.overlaps());
            verdict.belief.text = believed.map(|believed| {
                format!("still {believed}; harmless, because the resource asked for the fence")
            });
            verdict
        }
        None if !court.checks.overlaps().is_empty() => Verdict::inconclusive(
            "The TTL ended both leases, and both processes got both locks. Nothing broke: their work did not meet at the resource.",
            Lack::Clash,
            "two who use the number at once. Run it again.",
        ),
        None => court.unanswered(),
    }
}

/// Returns the verdict if the store told one of the two processes that it had lost its lock, and the other one continued.
fn ended_by_store(court: &Court<'_>, cycle: &Cycle) -> Option<Verdict> {
    let lost = |hold: &&Hold| {
        let is_told = |mark: Mark| mark.at_ns >= cycle.since.at_ns;
        cycle.who.contains(&hold.who) && hold.learned_at.is_some_and(is_told)
    };
    let victim = court.facts.holds.iter().find(lost)?;
    let after = |hold: &&Hold| {
        cycle.who.contains(&hold.who)
            && hold.who != victim.who
            && hold.key == victim.key
            && hold.granted.at_ns >= cycle.since.at_ns
    };
    let next = court.facts.holds.iter().find(after)?;
    let wrote = |op: &Op| op.who == next.who && op.action == Action::Write && !op.refused;
    court.facts.ops.iter().find(|op| wrote(op))?;
    // Whoever states the validity of its lock knows the end of its lease.
    let is_known = victim.valid_until_ns.is_some_and(|until_ns| {
        victim
            .learned_at
            .is_some_and(|learned| until_ns <= learned.at_ns)
    });
    let said = court.facts.failures.iter();
    let said = said.clone().find(|failed| failed.who == victim.who);
    let said = said.map_or_else(String::new, |failed| {
        format!("; {}: {}", failed.who, failed.message)
    });
    Some(Verdict {
        witness: vec![format!("{}{said}", cycle_in_words(cycle))],
        limits: Some(format!(
            "{} did not do its work: a process that is ended this way has to start again",
            victim.who
        )),
        next: court
            .next_scenario(
                Scenario::DeadlockSorted,
                "both take the locks in the same order",
            )
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Held,
            format!(
                "{} ended the deadlock after {} ms: {} lost its lock and {}, {} went on.",
                if is_known { "The lease" } else { "The store" },
                ms(cycle.lasted_ns),
                victim.who,
                if is_known { "knew" } else { "was told" },
                next.who
            ),
        )
    })
}

fn broken(court: &Court<'_>, cycle: Option<&Cycle>, overlaps: &[Overlap<'_>]) -> Verdict {
    let cause = overlaps.first().map(|overlap| Cause::of(court, overlap));
    let headline = cause.as_ref().map(Cause::headline);
    let headline = headline.unwrap_or_else(|| "Two holders at once".into());
    let is_end_of_lease = cause.as_ref().is_none_or(Cause::is_end_of_lease);
    let how = if cycle.is_some() && is_end_of_lease {
        ": the TTL ended both leases, and both processes got both locks"
    } else {
        ""
    };
    let because = format!("{headline}{how}.{}", court.losses());
    let why = cause.and_then(|cause| cause.why());
    let cycle = cycle.map(|cycle| {
        let until = cycle.until.map_or_else(String::new, |until| {
            format!(", until {} ms", ms(until.at_ns))
        });
        let sentence = format!("wait cycle: {}{until}", cycle.waits());
        evidence(cycle.since, &cycle.who[0], "wait cycle", sentence)
    });
    let double = overlap_evidence(overlaps.first());
    let mut verdict = Verdict {
        evidence: cycle
            .into_iter()
            .chain(double)
            .chain(court.interleaving())
            .collect(),
        why: why.or_else(|| Some(WHY.into())),
        next: court
            .next_scenario(
                Scenario::DeadlockSorted,
                "both take the locks in the same order",
            )
            .into_iter()
            .collect(),
        ..Verdict::bare(Outcome::Broken, because)
    };
    verdict.belief.text = of_each_lock(&court.checks.overlaps());
    verdict
}

/// Returns words such as "two holders of product_A for 51.4 ms, of product_B for 51.1 ms".
fn of_each_lock(overlaps: &[Overlap<'_>]) -> Option<String> {
    let mut each: BTreeMap<&str, u64> = BTreeMap::new();
    for overlap in overlaps {
        let longest = each.entry(&overlap.first.key).or_default();
        *longest = (*longest).max(overlap.lasted_ns());
    }
    let each: Vec<String> = each
        .iter()
        .map(|(key, lasted)| format!("of {key} for {} ms", ms(*lasted)))
        .collect();
    (!each.is_empty()).then(|| format!("two holders {}", each.join(", ")))
}

fn cycle_in_words(cycle: &Cycle) -> String {
    format!("{}, for {} ms", cycle.waits(), ms(cycle.lasted_ns))
}

pub(super) fn judge_sorted(court: &Court<'_>) -> Verdict {
    let overlaps = court.checks.overlaps();
    let cycles = court.facts.cycles();
    let guilty = court.checks.overlaps_within_lease();
    if !guilty.is_empty() || court.checks.is_damaged_within_lease() {
        return broken(court, cycles.first(), &guilty);
    }
    if court.is_damaged() || !overlaps.is_empty() {
        return Verdict::inconclusive(
            "A lease may have been over before its holder was done: the order was not what mattered.",
            Lack::Calm,
            "a machine that is less busy, or a longer --ttl.",
        );
    }
    if court.facts.additions() < 2 {
        return court.unanswered();
    }
    let Some(waited) = court.checks.met_taken() else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: nobody met a lock taken.",
            Lack::Contention,
            "somebody who meets a lock taken. Run it again.",
        );
    };
    Verdict {
        witness: vec![format!(
            "{} met {} taken and waited {} ms for it",
            waited.who,
            waited.key,
            ms(waited.granted.at_ns.saturating_sub(waited.asked.at_ns))
        )],
        limits: Some(
            "works only if everybody sorts; one program that does not brings the deadlock back"
                .into(),
        ),
        ..Verdict::bare(
            Outcome::Held,
            "Both finished, one after the other: no wait cycle, never two holders, no update lost.",
        )
    }
}
