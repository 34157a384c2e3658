//! Judges `failover` and `restart-empty`: the store failed while A held the lock, and came back. Did another process get the lock meanwhile?

use std::time::Duration;

use fencepost::stores::kinds::REDLOCK;

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_at_once, two_holders};
use super::overwritten::FENCED_LIMITS;
use super::server_loss::{believed_until, fenced, guilty_overlaps};
use super::{Court, did, evidence, fences, not_granted, op_evidence};
use crate::history::Change;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER, Trial};
use crate::protocol::Action;
use crate::store::TrialStore;
use crate::text::numbers::ms;
use crate::verdict::{Evidence, Lack, Next, Outcome, Verdict};

const WHY_FAILOVER: &str =
    "A primary answers before its replica has the write; what was not copied died with it.";
const WHY_EMPTY: &str =
    "The lock was in the memory of one server; when that is gone, nobody knows it was taken.";

const WHY_MAJORITY: &str =
    "The lock was on two of three: one forgot it, and the third had never heard of it.";

const WHY_KNEW: &str =
    "Whoever knows that its lock is lost must not write: it keeps nobody out any more.";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let killed = court.facts.server_that(|change| change == Change::Killed);
    let guilty = guilty_overlaps(court, killed.map(|(mark, _)| mark));
    let is_damaged = court.is_damaged();
    let claims = court.claims;
    let is_covered = claims.fencing
        || claims.keep_alive && court.facts.stalls.is_empty()
        || court.checks.is_damaged_while_leased();
    let known = write_after_loss(court);
    if let Some((learned, write)) = known.filter(|_| guilty.is_empty() && is_damaged && is_covered)
    {
        return wrote_after_loss(court, learned, write);
    }
    if !guilty.is_empty() || is_damaged && is_covered {
        // If fences were to prevent the damage, they say why they did not.
        let fences = fences::judge(court).filter(|_| guilty.is_empty());
        return fences.unwrap_or_else(|| broken(court, &guilty, killed.map(|(mark, _)| mark)));
    }
    if is_damaged {
        return Verdict::inconclusive(
            "B got the lock, but A's lease may have been over by then.",
            Lack::Calm,
            "a machine that is less busy, or a longer --ttl.",
        );
    }
    let again = court.facts.server_that(Change::serves_again);
    let (Some((_, dead)), Some((again, new))) = (killed, again) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no server failed while A held the lock.",
            Lack::Failure,
            "a server that is seen to die, and one that is seen to serve again.",
        );
    };
    let failure = StoreFailure { dead, again, new };
    let of = |who| court.facts.first_of_lock(who, FIRST_LOCK);
    let (Some(holder), Some(other)) = (of(HOLDER), of(OTHER)) else {
        return not_granted::judge(court, &failure);
    };
    if let Some((learned, write)) = known {
        return harmless_after_loss(court, learned, write);
    }
    let last = court.facts.ops.iter().rev().find(|op| op.who == HOLDER);
    match (last, holder.learned_at) {
        (Some(op), _) if op.refused => refused(court, &failure, op, other),
        (_, Some(learned)) if learned > again => match holder.decided() {
            Some(decided) if again < other.granted && other.granted < decided => {
                declined(&failure, learned, other)
            }
            _ => court.not_overtaken(),
        },
        (Some(op), _) if op.action == Action::Write => kept_out(court, &failure, holder, other),
        _ => court.unanswered(),
    }
}

/// How the store failed.
pub(super) struct StoreFailure<'a> {
    pub(super) dead: &'a str,
    pub(super) again: Mark,
    pub(super) new: &'a str,
}

impl StoreFailure<'_> {
    /// Returns words such as "the primary died of signal 9 while A held the lock".
    fn death(&self) -> String {
        format!("the {} died of signal 9 while A held the lock", self.dead)
    }
}

/// Returns when A said that its lock was lost, and the first write that the resource accepted from A afterwards.
fn write_after_loss<'a>(court: &'a Court<'_>) -> Option<(Mark, &'a Op)> {
    let holder = court.facts.first_of_lock(HOLDER, FIRST_LOCK)?;
    let said = holder.said_lost?;
    let mut ops = court.facts.ops.iter();
    let write = ops.find(|op| {
        let is_own = op.who == HOLDER && op.hold == holder.id;
        is_own && op.action == Action::Write && !op.refused && op.mark > said
    })?;
    Some((said, write))
}

/// Returns the verdict on a run in which A knew that its lock was lost, and wrote nevertheless.
fn wrote_after_loss(court: &Court<'_>, learned: Mark, write: &Op) -> Verdict {
    let again = court.facts.server_that(Change::serves_again);
    let said = evidence(learned, HOLDER, "lost", "A says that its lock is lost");
    let wrote = match court.lost() {
        Some(lost) => lost.evidence(),
        None => op_evidence(write, did(write)),
    };
    Verdict {
        evidence: takeover(court, again)
            .into_iter()
            .chain([said, wrote])
            .collect(),
        why: Some(WHY_KNEW.into()),
        next: fenced(court).into_iter().collect(),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "A said at {} ms that its lock was lost, and wrote all the same.{}",
                ms(learned.at_ns),
                court.losses()
            ),
        )
    }
}

/// Returns the verdict on a run in which A wrote although it had said that its lock was lost, and nobody else was at work by then.
fn harmless_after_loss(court: &Court<'_>, learned: Mark, write: &Op) -> Verdict {
    if court.claims.fencing {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A wrote before B got the lock.",
            Lack::Contention,
            "somebody who gets the lock before A writes. Run it again.",
        );
    }
    // A process may write and report a loss in two threads. Only a request that came after the report found A informed.
    if write.asked.is_none_or(|asked| asked < learned) {
        return Verdict::inconclusive(
            "A said that its lock was lost while it was asked to write: it may have written before it knew.",
            Lack::Order,
            "a report of the loss before the write, or none. Run it again.",
        );
    }
    wrote_after_loss(court, learned, write)
}

/// Returns the server that serves again as a piece of evidence.
fn takeover(court: &Court<'_>, again: Option<(Mark, &str)>) -> Option<Evidence> {
    let (mark, server) = again?;
    let mut changes = court.facts.servers.iter();
    let changed = changes.find(|changed| changed.mark == mark)?;
    let without = court.facts.is_without_lock(server);
    let sentence = changed.change.describe(server, without);
    Some(evidence(mark, "lab", "serves_again", sentence))
}

fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>], killed: Option<Mark>) -> Verdict {
    let again = court.facts.server_that(Change::serves_again);
    let first = overlaps.first();
    let after_failure = again.filter(|(mark, _)| {
        first.is_none_or(|overlap| overlap.from_ns > mark.at_ns) && killed.is_some()
    });
    let last = court.facts.servers.last().map(|changed| changed.change);
    let how = match (after_failure, last) {
        (Some((_, server)), Some(Change::RestartedEmpty)) => {
            format!(": the {server} came back without A's lock")
        }
        (Some((_, server)), Some(Change::Elected)) => {
            format!(": B got the lock from the {server}")
        }
        (Some((_, server)), _) => format!(": the {server} took over without A's lock"),
        (None, _) => ", and no server had failed yet".into(),
    };
    let mut verdict = Verdict {
        evidence: takeover(court, after_failure)
            .into_iter()
            .chain(overlap_evidence(first))
            .chain(court.damage_evidence())
            .collect(),
        why: match after_failure {
            Some((_, server)) => {
                why_not_survived(court, first, server).or_else(|| why(court).map(Into::into))
            }
            None => first.and_then(|overlap| Cause::of(court, overlap).why()),
        },
        next: court.suggest([fenced(court), with_delay(court)]),
        ..Verdict::bare(
            Outcome::Broken,
            format!("{}{how}.{}", two_at_once(first), court.losses()),
        )
    };
    verdict.belief.text = first.map(two_holders);
    verdict
}

/// Returns why a lock broke that claims to survive a failover, if it was granted while a server was cut off.
fn why_not_survived(
    court: &Court<'_>,
    first: Option<&Overlap<'_>>,
    server: &str,
) -> Option<String> {
    let Overlap { first, second, .. } = first.filter(|_| court.claims.survives)?;
    let (cut_off, _) = court.facts.server_that(|change| change == Change::CutOff)?;
    (first.granted > cut_off).then(|| {
        format!(
            "The lock claims that what it grants survives a failover. It was granted to {} while the {server} was cut off, and to {} by \
             the {server} after that: a grant must wait until the {server} has it.",
            first.who, second.who
        )
    })
}

fn why(court: &Court<'_>) -> Option<&'static str> {
    let mut changes = court.facts.servers.iter().map(|changed| changed.change);
    match changes.clone().next_back()? {
        Change::RestartedEmpty if changes.any(|change| change == Change::CutOff) => {
            Some(WHY_MAJORITY)
        }
        Change::Promoted => Some(WHY_FAILOVER),
        Change::RestartedEmpty => Some(WHY_EMPTY),
        _ => None,
    }
}

/// Suggests the same trial with a restart delay, during which a server that may have forgotten does not vote.
fn with_delay(court: &Court<'_>) -> Option<Next> {
    let trial = court.trial.as_ref()?;
    let is_redlock = trial.store.is(&REDLOCK);
    if !is_redlock || trial.store.restart_delay().is_some() {
        return None;
    }
    let store = format!("redlock?restart_delay={}ms", trial.ttl_ms);
    let delayed = Trial {
        store: TrialStore::named(&store)?,
        ..trial.clone()
    };
    Some(Next {
        command: delayed.command(trial.strategy.argument()),
        remark: "keeps a server that forgot from voting",
    })
}

/// Returns the verdict on a run in which the resource refused the step with the older fence.
fn refused(court: &Court<'_>, failure: &StoreFailure<'_>, op: &Op, other: &Hold) -> Verdict {
    let overlaps = court.checks.overlaps();
    let mut verdict = Verdict {
        witness: vec![format!(
            "{}; B was granted it {} ms after the {} was there",
            failure.death(),
            ms(other.granted.at_ns.saturating_sub(failure.again.at_ns)),
            failure.new
        )],
        limits: Some(FENCED_LIMITS.into()),
        ..Verdict::bare(
            Outcome::Held,
            format!(
                "No damage: the resource refused A's late write ({}).",
                court.fences(op)
            ),
        )
    };
    if court.trial.is_some() {
        let note = "fences grow across servers as long as the new one's clock is not behind";
        verdict.notes.push(note.into());
    }
    verdict.belief.text = overlaps.first().map(|overlap| {
        format!(
            "still two holders for {} ms; harmless, because the resource asked for the fence",
            ms(overlap.lasted_ns())
        )
    });
    verdict
}

/// Returns the verdict on a run in which A learned before it wrote that its lock was gone.
///
/// It is not known whether A believed in its lock until then, so this is not a certain overlap. It may have been one, though.
fn declined(failure: &StoreFailure<'_>, learned: Mark, other: &Hold) -> Verdict {
    let after = ms(learned.at_ns.saturating_sub(failure.again.at_ns));
    let mut verdict = Verdict {
        witness: vec![format!(
            "{}; B was granted it at {} ms",
            failure.death(),
            ms(other.granted.at_ns)
        )],
        limits: Some(format!(
            "A said so {after} ms after the {} was there; a write before that is not covered",
            failure.new
        )),
        ..Verdict::bare(
            Outcome::Held,
            "A stopped itself: it wrote nothing after its lock was lost.",
        )
    };
    verdict.belief.text = Some(believed_until(learned, other));
    verdict
}

/// Returns the verdict on a run in which B got the lock only after A had released it.
fn kept_out(court: &Court<'_>, failure: &StoreFailure<'_>, holder: &Hold, other: &Hold) -> Verdict {
    let Some(release) = holder.release else {
        return court.unanswered();
    };
    let waited = other.asked < release && other.granted > release;
    let store = TrialStore::named(&court.header.store);
    if let Some(delay) = store.and_then(|store| store.restart_delay())
        && waited
        && other.asked >= failure.again
    {
        return delayed(court, failure, other, delay);
    }
    if court.facts.is_without_lock(failure.new) || other.asked < failure.again {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not ask while A still held the lock.",
            Lack::Contention,
            "somebody who asks for the lock after the failure, before A releases it.",
        );
    }
    let may_forget = court.facts.server_that(Change::may_forget).is_some();
    if !waited || may_forget {
        let mut inspected = court.facts.inspections.iter();
        let is_visible = inspected.any(|seen| seen.server.as_deref() == Some(failure.new));
        return Verdict::inconclusive(
            if is_visible {
                "Nothing broke, and nothing was tested: the lock survived the failure."
            } else {
                "Nothing broke, and nothing was tested: B got the lock only after A had released it. The lab cannot see whether the store \
                 had forgotten it."
            },
            Lack::Loss,
            "a store that forgets the lock: it must fail before the lock is copied.",
        );
    }
    Verdict {
        witness: vec![format!(
            "{}; B asked the {} and waited {} ms",
            failure.death(),
            failure.new,
            ms(other.granted.at_ns.saturating_sub(other.asked.at_ns))
        )],
        limits: Some(
            "one failure, no pause: a holder stopped beyond its lease is another trial".into(),
        ),
        ..Verdict::bare(
            Outcome::Held,
            "The lock survived: B got it only after A had released it. No update is lost.",
        )
    }
}

/// Returns the verdict on a run in which the server that had forgotten the lock did not vote.
fn delayed(
    court: &Court<'_>,
    failure: &StoreFailure<'_>,
    other: &Hold,
    delay: Duration,
) -> Verdict {
    if delay < Duration::from_nanos(court.ttl_ns()) {
        return Verdict::inconclusive(
            "B was kept out, but the delay is shorter than A's lease: later it might not have been.",
            Lack::Delay,
            "a restart_delay that is as long as the TTL, or longer.",
        );
    }
    if !court.facts.is_without_lock(failure.new) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no server is known to have forgotten the lock.",
            Lack::Loss,
            "a server that is seen to come back without the lock.",
        );
    }
    Verdict {
        witness: vec![format!(
            "{}, came back without it, and did not vote; B waited {} ms",
            failure.death(),
            ms(other.granted.at_ns.saturating_sub(other.asked.at_ns))
        )],
        limits: Some(
            "the delay must be the longest TTL or more; clients in other languages do not know it"
                .into(),
        ),
        ..Verdict::bare(
            Outcome::Held,
            "The lock survived: the server that forgot it had no vote. No update is lost.",
        )
    }
}
