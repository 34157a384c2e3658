//! A holder wrote when its lease was over: the verdict if that did damage, and the verdict if the resource refused the write because of its
//! fence.

use super::cause::Cause;
use super::lost_update::LostUpdate;
use super::overlap::{self, overlap_evidence, two_holders};
use super::{Court, belief_in, did, op_evidence};
use crate::history::Fault;
use crate::holds::HOLDER;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Op};
use crate::text::numbers::{count, ms};
use crate::verdict::{Outcome, Verdict};

const WHY: &str =
    "A token guards the release, not the work: A is never asked again whether it still holds.";
/// The reason for locks that do not say that their release checks a token.
const WHY_WITHOUT_TOKEN: &str =
    "The lease ended, the work did not: A is never asked again whether it still holds.";
/// The reason for locks that their holder's process keeps alive, if it was stopped.
const WHY_STOPPED: &str =
    "A stopped process keeps no lock alive, and A is never asked again whether it still holds.";
/// The reason for locks that their holder's process keeps alive, if it was cut off from the store.
const WHY_CUT_OFF: &str = "A process that cannot reach the store cannot renew its lock, and A is never asked again whether it still holds.";
/// What a fence does not cover.
pub(super) const FENCED_LIMITS: &str =
    "every resource must check the fence, on reads too; what cannot check is not protected";

impl Court<'_> {
    /// Returns the verdict on a lock that let two processes in within a lease, or that promises fences and did not prevent damage; `None`
    /// if neither happened.
    pub(super) fn broken_within_lease(&self) -> Option<Verdict> {
        let guilty = self.checks.overlaps_within_lease();
        if !guilty.is_empty() || self.checks.is_damaged_within_lease() {
            return Some(overlap::broken(self, &guilty));
        }
        (self.claims.fencing && self.is_damaged()).then(|| {
            let mut verdict = broken(self, &self.guilty_overlaps());
            verdict.next.clear();
            verdict
        })
    }

    /// Returns the verdict on a lock whose late write the resource refused because of its fence.
    pub(super) fn refused(&self, write: &Op, witness: String) -> Verdict {
        let mut verdict = Verdict {
            witness: vec![witness],
            limits: Some(FENCED_LIMITS.into()),
            ..Verdict::bare(
                Outcome::Held,
                format!(
                    "No damage: the resource refused A's late write ({}).",
                    self.fences(write)
                ),
            )
        };
        verdict.belief.text = Some(harmless(self));
        verdict
    }
}

/// Returns the verdict on a lock that did not prevent damage, or that let two processes in.
pub(super) fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>]) -> Verdict {
    let belief = court.checks.overlaps();
    let lost = court.lost();
    let convicting = match &lost {
        Some(lost) => belief.iter().find(|overlap| is_between(overlap, lost)),
        None => overlaps.first(),
    };
    let cause = convicting.map(|overlap| Cause::of(court, overlap));
    let mut verdict = match &lost {
        Some(lost) => written_over(court, lost, cause.as_ref()),
        None => {
            let headline = cause.as_ref().map(Cause::headline);
            let headline = headline.unwrap_or_else(|| "Two holders at once".into());
            Verdict {
                evidence: overlap_evidence(overlaps.first())
                    .into_iter()
                    .chain(court.interleaving())
                    .collect(),
                ..Verdict::bare(Outcome::Broken, format!("{headline}.{}", court.losses()))
            }
        }
    };
    verdict.belief.code = belief_in(&belief);
    verdict.belief.text = convicting.or(belief.first()).map(two_holders);
    verdict.why = match cause.and_then(|cause| cause.why()) {
        Some(why) => Some(why),
        None => why_over(court, lost.as_ref()),
    };
    verdict.next = court.suggest([
        court.next("watchdog", "renews the lease while A works"),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ]);
    verdict
}

/// Returns whether this is the overlap of the two holds that wrote.
fn is_between(overlap: &Overlap<'_>, lost: &LostUpdate<'_>) -> bool {
    let of = |hold: &Hold, op: &Op| hold.who == op.who && hold.id == op.hold;
    of(overlap.first, lost.write) && of(overlap.second, lost.between)
        || of(overlap.first, lost.between) && of(overlap.second, lost.write)
}

/// Returns the verdict on a run in which A wrote over B's update. The sentence says "after its lease had ended" only if that is how B got
/// in.
fn written_over(court: &Court<'_>, lost: &LostUpdate<'_>, cause: Option<&Cause<'_>>) -> Verdict {
    let (late, other) = (&lost.write.who, &lost.between.who);
    let over = court
        .facts
        .hold_of(lost.write)
        .and_then(|hold| hold.lease_over)
        .filter(|over| over.at_ns <= lost.write.mark.at_ns);
    let how = match (cause, over) {
        (Some(cause), _) if !cause.is_end_of_lease() => {
            format!(". {}", cause.headline())
        }
        (_, Some(over)) => {
            let late = lost.write.mark.at_ns.saturating_sub(over.at_ns);
            format!(", {} ms or more after its lease had ended", ms(late))
        }
        (_, None) => String::new(),
    };
    Verdict {
        evidence: vec![
            op_evidence(lost.read, did(lost.read)),
            op_evidence(
                lost.between,
                format!(
                    "{other}, granted in between, writes {}",
                    count(lost.between.value)
                ),
            ),
            lost.evidence(),
        ],
        ..Verdict::bare(
            Outcome::Broken,
            format!("{late} wrote over {other}'s update{how}. One is lost."),
        )
    }
}

/// Returns why work beyond the lease, or a pause, did damage; `None` if no lease is known to have been over.
fn why_over(court: &Court<'_>, lost: Option<&LostUpdate<'_>>) -> Option<String> {
    let hold = match lost {
        Some(lost) => court.facts.hold_of(lost.write)?,
        None => court.facts.first_of(HOLDER)?,
    };
    let kept_alive = court.claims.keep_alive || court.claims.belongs_to_session();
    // What happened to it before this hold explains nothing.
    let from_ns = hold.asked.at_ns;
    let until_ns = lost.map_or(u64::MAX, |lost| lost.write.mark.at_ns);
    let was_cut_off = court.facts.faults.iter().any(|seen| {
        let is_meanwhile = from_ns <= seen.mark.at_ns && seen.mark.at_ns < until_ns;
        let is_cut = matches!(seen.fault, Fault::CutOff | Fault::RequestsCut);
        seen.who == hold.who && is_cut && is_meanwhile
    });
    let why = if kept_alive && court.checks.was_stopped(&hold.who, from_ns, until_ns) {
        WHY_STOPPED
    } else if kept_alive && was_cut_off {
        WHY_CUT_OFF
    } else if hold.lease_over.is_none() {
        return None;
    } else if court.claims.checks_owner {
        WHY
    } else {
        WHY_WITHOUT_TOKEN
    };
    Some(why.replace("A is", &format!("{} is", hold.who)))
}

/// Returns what the holders believed when the resource refused the late one.
pub(super) fn harmless(court: &Court<'_>) -> String {
    match court.checks.overlaps().first() {
        Some(overlap) => format!(
            "still two holders for {} ms; harmless, because the resource asked for the fence",
            ms(overlap.lasted_ns())
        ),
        None => "two holders were not seen at once".into(),
    }
}
