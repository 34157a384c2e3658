//! A process died while it held two locks, and came back with the same process id: was it taken for the dead one, and were the locks free again?

use super::overlap::{self, overlap_evidence, two_holders};
use super::{Court, evidence};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER, SECOND_LOCK, THIRD};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

const LIMITS: &str = "one machine, whose name stays the same; what the process starts in turn has other process ids, and nothing of the dead one was still on its way";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let guilty = court.checks.overlaps_within_lease();
    if let Some(verdict) = guilty.iter().find_map(|overlap| let_in(court, overlap)) {
        return verdict;
    }
    if !guilty.is_empty() {
        return overlap::broken(court, &guilty);
    }
    if let Some(verdict) = court.broken_within_lease().or_else(|| court.overrun()) {
        return verdict;
    }
    match Return::of(court) {
        Ok(seen) => acquit(court, &seen),
        Err(missing) => missing.verdict(),
    }
}

/// Returns the hold of this lock with which A died.
fn left_behind<'a>(court: &'a Court<'_>, key: &str) -> Option<(&'a Hold, Mark)> {
    let hold = court.facts.first_of_lock(HOLDER, key)?;
    Some((hold, hold.killed?))
}

/// Returns when a process was seen to come back, and its name in that life.
fn came_back<'a>(court: &'a Court<'_>) -> Option<(Mark, &'a str)> {
    let mut faults = court.facts.faults.iter();
    let came = faults.find(|seen| seen.fault == Fault::SamePid);
    came.map(|seen| (seen.mark, seen.who.as_str()))
}

/// Returns until when the lease of this hold certainly ran.
fn lease_end_ns(court: &Court<'_>, hold: &Hold) -> u64 {
    hold.asked.at_ns.saturating_add(court.ttl_ns())
}

/// Returns the verdict on two holders, if the first is the process that came back, it got the lock within the lease of the dead one, and the
/// second got it soon after the end of that lease. `None` if it was otherwise.
fn let_in(court: &Court<'_>, overlap: &Overlap<'_>) -> Option<Verdict> {
    let (first, second) = (overlap.first, overlap.second);
    let (came, who) = came_back(court)?;
    let (dead, died) = left_behind(court, &first.key)?;
    let end_ns = lease_end_ns(court, dead);
    // Soon after that end: later, it may have been the end of a lease of its own.
    let soon_ns = end_ns..end_ns.saturating_add(court.ttl_ns() / 4);
    let within = first.granted.at_ns < end_ns && soon_ns.contains(&second.granted.at_ns);
    let is_within_lease = !court.claims.untimed && overlap.is_within_lease();
    if first.who != who || !within || !is_within_lease {
        return None;
    }
    let proof = [
        evidence(
            died,
            HOLDER,
            "killed",
            format!("A is killed (signal 9) while it holds {}", dead.key),
        ),
        evidence(
            came,
            who,
            "same process id",
            format!("{who} has the process id that A had"),
        ),
    ];
    let mut verdict = Verdict {
        evidence: proof
            .into_iter()
            .chain(overlap_evidence(Some(overlap)))
            .collect(),
        why: Some(format!(
            "{who} got the lock {} ms before A's lease was over, and {} got it {} ms after that end, within {who}'s own lease: \
             as if {who} had been let in on what was left of A's.",
            ms(end_ns - first.granted.at_ns),
            second.who,
            ms(second.granted.at_ns - end_ns),
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{who}, which has the dead A's process id, got A's lock, and then {} got it, too.{}",
                second.who,
                court.losses()
            ),
        )
    };
    verdict.belief.text = Some(two_holders(overlap));
    Some(verdict)
}

/// What an acquittal needs, and was not seen.
struct Unseen {
    because: &'static str,
    what: Lack,
    advice: &'static str,
}

impl Unseen {
    fn verdict(&self) -> Verdict {
        let because = format!("Nothing broke, and nothing was shown: {}.", self.because);
        Verdict::inconclusive(because, self.what, self.advice)
    }
}

/// What happened to the locks of the dead process.
struct Return<'a> {
    /// The hold with which A died, and when.
    dead: &'a Hold,
    died: Mark,
    /// The name of the process that came back, and its hold of the same lock.
    who: &'a str,
    again: &'a Hold,
    /// The hold of the other lock, by whoever asked for what A had left behind.
    taken: &'a Hold,
}

impl<'a> Return<'a> {
    fn of(court: &'a Court<'_>) -> Result<Self, Unseen> {
        let facts = court.facts;
        let both = left_behind(court, FIRST_LOCK).zip(left_behind(court, SECOND_LOCK));
        let ((dead, died), _) = both.ok_or(Unseen {
            because: "A was not killed while it held both locks",
            what: Lack::Kill,
            advice: "a holder that is seen to die of the lab's signal.",
        })?;
        let (_, who) = came_back(court).ok_or(Unseen {
            because: "no process was seen to come back with A's process id",
            what: Lack::Pid,
            advice: "a process that starts again; the notes say what happened.",
        })?;
        let answers = Unseen {
            because: "A did not get the lock in its second life, or did not release it",
            what: Lack::Answers,
            advice: "answers to everything that was asked; the notes say what happened.",
        };
        let again = facts.first_of_lock(who, FIRST_LOCK);
        let again = again
            .filter(|hold| hold.released.is_some())
            .ok_or(answers)?;
        // Only a lock that ends with its process may be free before.
        let in_time = again.asked.at_ns < lease_end_ns(court, dead);
        if !(in_time || court.claims.untimed) {
            return Err(Unseen {
                because: "A's lease was over when A came back and asked",
                what: Lack::Start,
                advice: "a program that starts sooner, or a longer --ttl.",
            });
        }
        let released = again.release.map_or(u64::MAX, |mark| mark.at_ns);
        let other = facts.first_of_lock(OTHER, FIRST_LOCK);
        let is_kept_out =
            |hold: &&Hold| hold.asked.at_ns < released && hold.granted.at_ns > released;
        other.filter(is_kept_out).ok_or(Unseen {
            because: "nobody was seen to be kept out while A had the lock again",
            what: Lack::Contention,
            advice: "somebody who wants the lock while A has it in its second life.",
        })?;
        let taken = facts.first_of_lock(THIRD, SECOND_LOCK).ok_or(Unseen {
            because: "nobody got the second lock, which the dead A had left behind",
            what: Lack::Answers,
            advice: "answers to everything that was asked; the notes say what happened.",
        })?;
        Ok(Self {
            dead,
            died,
            who,
            again,
            taken,
        })
    }
}

fn acquit(court: &Court<'_>, seen: &Return<'_>) -> Verdict {
    let Return { who, again, .. } = seen;
    let since = |mark: Mark| ms(again.granted.at_ns.saturating_sub(mark.at_ns));
    let end_ns = lease_end_ns(court, seen.dead);
    let early_ns = end_ns.checked_sub(again.granted.at_ns);
    let because = match early_ns {
        None => {
            format!("{who} was not taken for the dead A: it got the lock when A's lease was over.")
        }
        Some(_) => format!("{who} got the dead A's lock, and had it alone."),
    };
    // Whoever knows that a process is dead may free its lock at once.
    let notes = early_ns.filter(|_| !court.claims.belongs_to_session());
    let notes = notes.map(|early_ns| {
        format!(
            "{who} got the lock {} ms before A's lease was over: either the lock knew that A was dead, or it took {who} for A",
            ms(early_ns)
        )
    });
    Verdict {
        measured: vec![format!(
            "{who} got the lock {} ms after the kill, {} ms after it asked",
            since(seen.died),
            since(again.asked)
        )],
        witness: vec![format!(
            "A died of signal 9 while it held two locks, and {who} has its process id; {OTHER} was kept out while {who} had the lock, and {} got the other one",
            seen.taken.who
        )],
        notes: notes.into_iter().collect(),
        limits: Some(LIMITS.into()),
        ..Verdict::bare(Outcome::Held, because)
    }
}
