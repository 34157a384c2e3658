//! The holder released the lock after its lease had expired: whose lock did it release?
//!
//! A is the process that is paused, B the one that gets the lock meanwhile, and C the one that tries after the late release.

use super::absence::{Absence, STOPPED, kept};
use super::cause::Cause;
use super::overlap::overlap_evidence;
use super::{Court, evidence};
use crate::holds::check::Overlap;
use crate::holds::facts::Mark;
use crate::holds::{HOLDER, OTHER, Scenario, THIRD};
use crate::protocol::ReleaseResult;
use crate::text::numbers::{count, ms};
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    // By design of this scenario, the paused process still believes in its lock after the lease. That is not what the verdict
    // is about.
    let ttl_ns = court.ttl_ns();
    let mut overlaps = court.checks.overlaps();
    let untimed = court.claims.untimed;
    overlaps.retain(|overlap| {
        let is_running = overlap.is_within_lease() || court.checks.has_no_end(overlap);
        overlap.first.who != HOLDER || is_running
    });
    // B's lease began when A's had ended, which was at the earliest one TTL after A's request. A session may be older.
    let asked = court
        .facts
        .first_of(HOLDER)
        .map_or(0, |hold| hold.asked.at_ns);
    let end_of_two_leases = asked.saturating_add(ttl_ns.saturating_mul(2));
    let mut guilty = overlaps.clone();
    guilty.retain(|overlap| {
        let is_running =
            overlap.from_ns < end_of_two_leases && !court.checks.may_have_lost_one(overlap);
        is_running || court.checks.has_no_end(overlap)
    });
    if !guilty.is_empty() {
        return broken(court, &guilty);
    }
    if court.is_damaged() || !overlaps.is_empty() {
        return Verdict::inconclusive(
            "C got the lock, but B's own lease may have been over by then.",
            Lack::Calm,
            "a machine that is less busy, or a longer --ttl.",
        );
    }
    let Some(pause) = Absence::of(court, HOLDER, STOPPED) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to pause.",
            Lack::Pause,
            "a holder that is seen to be stopped, and to go on.",
        );
    };
    let late = court.facts.first_of(HOLDER);
    let (Some(late), Some(new)) = (late, court.facts.first_of(OTHER)) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B never got the lock while A was paused.",
            Lack::Overrun,
            "a lease that ends while its holder is paused.",
        );
    };
    let Some((released, _)) = late.released else {
        return court.unanswered();
    };
    if untimed {
        return kept(court, late, new, pause);
    }
    let mut waits = court.facts.waits.iter();
    let third = waits.find(|wait| wait.who == THIRD && wait.asked > released);
    let Some(refused) = third.and_then(|wait| wait.refused()) else {
        return court.unanswered();
    };
    // B's lease began when A's had ended, at the earliest.
    let is_running = court.claims.keep_alive
        || court.claims.expires_after_work
        || refused.at_ns < end_of_two_leases;
    let in_between =
        new.granted.at_ns < pause.until.at_ns && new.unquestioned_until_ns() > refused.at_ns;
    if !(in_between && is_running) {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not hold the lock when A released it.",
            Lack::Overrun,
            "somebody who holds the lock when the late one releases it.",
        );
    }
    acquit(court, pause.from, pause.until)
}

fn acquit(court: &Court<'_>, stopped: Mark, continued: Mark) -> Verdict {
    let overlaps = court.checks.overlaps();
    let mut verdict = Verdict {
        witness: vec![format!(
            "A was stopped for {} ms on a lease of {} ms; B got the lock; C was refused",
            ms(continued.at_ns.saturating_sub(stopped.at_ns)),
            count(court.header.ttl_ms as i64)
        )],
        limits: Some("A had done its work before the pause; work after it is another trial".into()),
        next: court
            .next_scenario(Scenario::TtlEdge, "")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Held,
            "A's late release changed nothing: B kept its lock, and C was refused.",
        )
    };
    verdict.belief.text = overlaps.first().map(|overlap| {
        format!(
            "A and B both believed that they held it, for {} ms: A was not told that its lease was over",
            ms(overlap.lasted_ns())
        )
    });
    verdict
}

/// How C, or whoever else, got the lock beside the holder.
enum LetIn {
    /// Within A's lease.
    WithinLease,
    /// After A's release, which may have freed the lock.
    AfterRelease,
    /// After A's release, which says that it freed nothing.
    AfterNothing,
    /// Before A released.
    Before,
}

impl LetIn {
    fn of(court: &Court<'_>, overlap: &Overlap<'_>) -> Self {
        let released = court.facts.first_of(HOLDER).and_then(|hold| hold.released);
        let is_after = |mark: Mark| mark.at_ns <= overlap.second.granted.at_ns;
        match released {
            _ if overlap.first.who == HOLDER || overlap.second.who == HOLDER => Self::WithinLease,
            Some((mark, ReleaseResult::AlreadyLost)) if is_after(mark) => Self::AfterNothing,
            Some((mark, _)) if is_after(mark) => Self::AfterRelease,
            _ => Self::Before,
        }
    }

    fn headline(&self, court: &Court<'_>, overlap: &Overlap<'_>) -> String {
        let (first, second) = (&overlap.first.who, &overlap.second.who);
        match self {
            Self::WithinLease => Cause::of(court, overlap).headline(),
            Self::AfterRelease => {
                format!("A's late release gave {first}'s lock away: {second} got the lock, too")
            }
            Self::AfterNothing | Self::Before => {
                format!("Two holders at once: {second} got the lock while {first} held it")
            }
        }
    }

    fn why(&self, court: &Court<'_>, overlap: &Overlap<'_>) -> Option<String> {
        let (first, second) = (&overlap.first.who, &overlap.second.who);
        let mut halted = court.facts.halted.iter();
        let between_steps = halted.any(|halted| halted.who == HOLDER);
        match self {
            Self::WithinLease => Cause::of(court, overlap).why(),
            Self::AfterRelease => {
                let flaw = court.why_strategy().filter(|_| between_steps);
                Some(flaw.unwrap_or_else(|| why_freed(court, first)))
            }
            Self::AfterNothing => Some(format!(
                "A's late release found its lock already lost and freed nothing; {second} got the lock beside {first} all the same."
            )),
            Self::Before => Some(format!(
                "A had not released anything yet, and {first} had not either, when {second} got the lock."
            )),
        }
    }
}

/// Returns why a late release freed the lock of `other`, as far as the lock's claims say how it releases.
fn why_freed(court: &Court<'_>, other: &str) -> String {
    if court.claims.blind_release {
        "The release deletes the lock that is there, without asking whose it is.".into()
    } else if court.claims.checks_owner {
        format!(
            "The lock claims that its release asks whose lock it is; A's release freed {other}'s all the same."
        )
    } else {
        format!("A's release came late, and the lock that it freed was {other}'s.")
    }
}

fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>]) -> Verdict {
    let late = court.facts.first_of(HOLDER);
    let released = late.and_then(|hold| hold.released);
    let released = released.map(|(mark, _)| {
        let over = late.and_then(|hold| hold.lease_over);
        let since = over.map_or_else(String::new, |over| {
            format!("; its lease was over by {} ms", ms(over.at_ns))
        });
        evidence(
            mark,
            HOLDER,
            "released",
            format!("A's release is done{since}"),
        )
    });
    let first = overlaps.first();
    let let_in = first.map(|overlap| (LetIn::of(court, overlap), overlap));
    let because = match &let_in {
        Some((let_in, overlap)) => {
            format!("{}.{}", let_in.headline(court, overlap), court.losses())
        }
        None => format!("Two used the number at once.{}", court.losses()),
    };
    let why = let_in.and_then(|(let_in, overlap)| let_in.why(court, overlap));
    let mut verdict = Verdict {
        evidence: released
            .into_iter()
            .chain(overlap_evidence(overlaps.first()))
            .chain(court.interleaving())
            .collect(),
        why,
        next: court
            .next("safe", "the release asks whose lock it is")
            .into_iter()
            .collect(),
        ..Verdict::bare(Outcome::Broken, because)
    };
    verdict.belief.text = overlaps.first().map(|overlap| {
        format!(
            "two holders for {} ms: {} and {}",
            ms(overlap.lasted_ns()),
            overlap.first.who,
            overlap.second.who
        )
    });
    verdict
}
