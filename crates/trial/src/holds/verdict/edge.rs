//! The holder worked longer than its lease: was anything lost?

use super::cause::Cause;
use super::{Court, Lost, belief_in, did, inconclusive, op_evidence};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Op};
use crate::protocol::Action;
use crate::text::numbers::{count, ms};
use crate::verdict::{Next, Outcome, Verdict};

const WHY: &str =
    "A token guards the release, not the work: A is never asked again whether it still holds.";
/// The reason for locks that do not say that their release checks a token.
const WHY_WITHOUT_TOKEN: &str =
    "The lease ended, the work did not: A is never asked again whether it still holds.";
/// The reason for locks that their holder's process keeps alive, if it was stopped.
const WHY_STOPPED: &str =
    "A stopped process keeps no lock alive, and A is never asked again whether it still holds.";
/// The reason for locks that their holder's process keeps alive, if it was cut off from the store.
const WHY_CUT_OFF: &str = "Who cannot reach the store keeps no lock alive, and A is never asked again whether it still holds.";
pub(super) const FENCED_LIMITS: &str =
    "every resource must check the fence, on reads too; what cannot check is not protected";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let overlaps = court.guilty_overlaps();
    if court.is_damaged() || !overlaps.is_empty() {
        return broken(court, &overlaps);
    }
    let (Some(slow), Some(other)) = (court.facts.first_of("A"), court.facts.first_of("B")) else {
        return court.unanswered();
    };
    let last = court.facts.ops.iter().rev().find(|op| op.who == "A");
    let write = last.filter(|op| op.action == Action::Write);
    let overran = |at_ns: u64| at_ns > slow.granted.at_ns.saturating_add(court.ttl_ns());
    match (write, slow.learnt) {
        (Some(write), _) if !overran(write.mark.at_ns) => inconclusive(
            "Nothing broke, and nothing was tested: A was done before its lease was over.",
            "overrun",
            "work beyond the lease: --work longer than --ttl.",
        ),
        (Some(write), _) if write.refused => refused(court, slow, write),
        (Some(write), _) => kept_out(court, slow, write, other),
        (None, Some(learnt)) if overran(learnt.at_ns) => declined_to_write(),
        (None, Some(learnt)) if other.granted > learnt => stopped_early(court, slow, learnt, other),
        (None, Some(_)) => court.unanswered(),
        (None, None) => court.unanswered(),
    }
}

pub(super) fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>]) -> Verdict {
    let belief = court.findings.overlaps();
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
                evidence: super::deadlock::overlap_evidence(overlaps.first())
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
    verdict.next = [
        court.next("watchdog", "renews the lease while A works"),
        court.next("fenced", "lets the resource refuse A"),
        court.next("advisory", "has no lease: it lasts as long as A does"),
    ]
    .into_iter()
    .flatten()
    .filter(|next: &Next| !court.runs(&next.command))
    .collect();
    verdict
}

/// Returns whether this is the overlap of the two holds that wrote.
fn is_between(overlap: &Overlap<'_>, lost: &Lost<'_>) -> bool {
    let of = |held: &Hold, op: &Op| held.who == op.who && held.hold == op.hold;
    of(overlap.first, lost.write) && of(overlap.second, lost.between)
        || of(overlap.first, lost.between) && of(overlap.second, lost.write)
}

/// A wrote over B's update. The sentence says "after its lease had ended" only if that is how B got in.
fn written_over(court: &Court<'_>, lost: &Lost<'_>, cause: Option<&Cause<'_>>) -> Verdict {
    let (late, other) = (&lost.write.who, &lost.between.who);
    let over = court
        .facts
        .hold_of(lost.write)
        .and_then(|held| held.lease_over)
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
fn why_over(court: &Court<'_>, lost: Option<&Lost<'_>>) -> Option<String> {
    let held = match lost {
        Some(lost) => court.facts.hold_of(lost.write)?,
        None => court.facts.first_of("A")?,
    };
    let kept_alive = court.claims.keep_alive || court.claims.ends_with_holder();
    let had = |fault| court.facts.fault_of(&held.who, fault).is_some();
    let why = if kept_alive && had(Fault::Stopped) {
        WHY_STOPPED
    } else if kept_alive && had(Fault::CutOff) {
        WHY_CUT_OFF
    } else if held.lease_over.is_none() {
        return None;
    } else if court.claims.checks_owner {
        WHY
    } else {
        WHY_WITHOUT_TOKEN
    };
    Some(why.replace("A is", &format!("{} is", held.who)))
}

/// "two holders for 0.9 ms: B from 2,011.2 to 2,012.1, A from 8.6 to 3,009.7 ms"
pub(super) fn two_holders(overlap: &Overlap<'_>) -> String {
    let span = |held: &Hold| {
        let (from, to) = (ms(held.granted.at_ns), ms(held.believed_until_ns));
        format!("{} from {from} to {to}", held.who)
    };
    format!(
        "two holders for {} ms: {}, {} ms",
        ms(overlap.lasted_ns()),
        span(overlap.second),
        span(overlap.first)
    )
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
    let mut verdict = Verdict {
        witness: vec![witness],
        limits: Some(FENCED_LIMITS.into()),
        ..Verdict::bare(
            Outcome::Held,
            format!(
                "No damage: the resource refused A's late write ({}).",
                court.fences(write)
            ),
        )
    };
    verdict.belief.text = Some(harmless(court));
    verdict
}

/// Returns what the holders believed when the resource refused the late one.
pub(super) fn harmless(court: &Court<'_>) -> String {
    match court.findings.overlaps().first() {
        Some(overlap) => format!(
            "still two holders for {} ms; harmless, because the resource asked for the fence",
            ms(overlap.lasted_ns())
        ),
        None => "two holders were not seen at once".into(),
    }
}

/// The other process got the lock only after the first had released it.
fn kept_out(court: &Court<'_>, slow: &Hold, write: &Op, other: &Hold) -> Verdict {
    let Some(release) = slow.release else {
        return court.unanswered();
    };
    let waited = other.asked.at_ns < write.mark.at_ns && other.granted.at_ns > release.at_ns;
    if !waited {
        return inconclusive(
            "Nothing broke, and nothing was tested: B did not wait while A worked.",
            "contention",
            "somebody who waits for the lock while A works beyond its lease.",
        );
    }
    let worked = ms(write.mark.at_ns - slow.granted.at_ns);
    let limits = if court.claims.keep_alive {
        "renewing needs a running process: one paused beyond its lease loses it unnoticed"
    } else if court.claims.ends_with_holder() {
        "nobody else could work meanwhile: without a lease, only A's end would have let B in"
    } else {
        "A's lock had no expiry while it worked: a holder that dies there keeps it forever"
    };
    let ttl = count(court.header.ttl_ms as i64);
    let lease = if court.claims.untimed {
        format!("and no lease of {ttl} ms ended its lock")
    } else {
        format!("on a lease of {ttl} ms")
    };
    Verdict {
        witness: vec![format!(
            "A worked {worked} ms {lease}; B waited, and came in {} ms after A",
            ms(other.granted.at_ns - release.at_ns)
        )],
        limits: Some(limits.into()),
        ..Verdict::bare(
            Outcome::Held,
            "B got the lock only after A had given it back: never two holders, no update lost.",
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

/// A gave up its lock before the lease was over, and did nothing with it afterwards.
fn stopped_early(court: &Court<'_>, slow: &Hold, learnt: Mark, other: &Hold) -> Verdict {
    let lease_ns = slow.asked.at_ns.saturating_add(court.ttl_ns());
    Verdict {
        witness: vec![format!(
            "A said at {} ms that its lock was lost, {} ms before its lease could end, and did not write; B was granted it at {} ms",
            ms(learnt.at_ns),
            ms(lease_ns.saturating_sub(learnt.at_ns)),
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
