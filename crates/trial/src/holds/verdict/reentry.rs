//! Judges `reentry`: A asked for a lock that it had, and released it once more than it had taken it, also when it had the lock again. Was it a
//! second hold, and whose lock was released?

use super::overlap::{self, overlap_evidence, two_holders};
use super::{Court, evidence};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER, THIRD};
use crate::text::numbers::in_words;
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

const WHY_SECOND: &str = "Two parts of A may now work side by side, each with a hold of its own: a lock that is not re-entrant refuses its holder like anybody else.";
const WHY_OVER_RELEASE: &str = "A had nothing left to release, and only its release can have freed the lock of another process.";
const WHY_OLD_RELEASE: &str = "A hold is over once it is released, and what its process is granted afterwards is another one: an owner that is the process, and not \
     the grant, cannot tell them apart.";
const WHY_FIRST_RELEASE: &str = "A had taken the lock twice and released it once: the lock must count, and last until the second.";
const WHY_REFUSED: &str =
    "A re-entrant lock grants what its holder has: whoever relies on that waits for itself.";
const LIMITS: &str = "one process with one thread; the lab cannot see whether threads count apart";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let within = court.checks.overlaps_within_lease();
    if let Some(overlap) = within.first() {
        return two_at_once(court, overlap).unwrap_or_else(|| overlap::broken(court, &within));
    }
    let Some(trial) = Twice::of(court) else {
        return court.unanswered();
    };
    match trial.second.refused() {
        Some(refused) if court.claims.reentrant && trial.had_it_until(court, refused) => {
            refused_its_holder(&trial, refused)
        }
        _ => trial.acquit(court).unwrap_or_else(nothing),
    }
}

/// What A did: its first hold, and its second request.
struct Twice<'a> {
    first: &'a Hold,
    second: &'a Wait,
}

impl<'a> Twice<'a> {
    fn of(court: &'a Court<'_>) -> Option<Self> {
        let own = |wait: &&Wait| wait.who == HOLDER && wait.key == FIRST_LOCK;
        Some(Self {
            first: court.facts.first_of_lock(HOLDER, FIRST_LOCK)?,
            second: court.facts.waits.iter().filter(own).nth(1)?,
        })
    }

    /// Returns whether A certainly had the lock from its second request until then.
    fn had_it_until(&self, court: &Court<'_>, until: Mark) -> bool {
        let from_ns = self.second.asked.at_ns;
        court
            .checks
            .certainly_held(self.first, from_ns, until.at_ns)
    }

    /// Returns the acquittal; `None` if one of the dangers did not arise.
    fn acquit(&self, court: &Court<'_>) -> Option<Verdict> {
        let other = court.facts.first_of_lock(OTHER, FIRST_LOCK)?;
        let over = over_releases(court);
        let seen = if court.claims.reentrant {
            self.counted(court, other)?
        } else {
            let refused = self.second.refused()?;
            self.had_it_until(court, refused).then_some(())?;
            "A was refused a second hold"
        };
        let beside: Vec<Mark> = self.in_vain(court, &over, |hold| hold.who == other.who);
        let own = |hold: &Hold| hold.who == HOLDER && hold.id != self.first.id;
        let earlier = self.in_vain(court, &over, own);
        let needed = if court.claims.reentrant {
            (1, 0)
        } else {
            (2, 1)
        };
        let all_in_vain = beside.len() + earlier.len() == over.len();
        let is_enough = beside.len() >= needed.0 && earlier.len() >= needed.1;
        (all_in_vain && is_enough).then_some(())?;
        let times = in_words(
            i64::try_from(beside.len()).unwrap_or(i64::MAX),
            "release too many",
            "releases too many",
        );
        let earlier = match earlier.len() {
            0 => ", and",
            _ => ", and one of its earlier hold while A had the lock again:",
        };
        Some(Verdict {
            witness: vec![format!(
                "{seen}; {times} came while B held the lock{earlier} C was refused after each"
            )],
            limits: Some(LIMITS.into()),
            ..Verdict::bare(
                Outcome::Held,
                if court.claims.reentrant {
                    "A had its lock until its last release, and one more changed nothing."
                } else {
                    "A was refused a second hold, and its extra releases changed nothing."
                },
            )
        })
    }

    /// Returns those of A's releases that changed nothing: C was refused after them, while such a hold certainly lasted.
    fn in_vain(
        &self,
        court: &Court<'_>,
        over: &[Mark],
        is_such: impl Fn(&Hold) -> bool,
    ) -> Vec<Mark> {
        let holds = court.facts.holds.iter();
        let holds: Vec<&Hold> = holds
            .filter(|hold| hold.key == FIRST_LOCK && is_such(hold))
            .collect();
        let is_in_vain = |mark: &&Mark| {
            let mut later = holds.iter().filter(|hold| hold.granted < **mark);
            later.any(|hold| kept_out(court, hold, **mark).is_some())
        };
        over.iter().filter(is_in_vain).copied().collect()
    }

    /// Returns what was seen of a lock that counted A's holds; `None` if it was not seen to.
    fn counted(&self, court: &Court<'_>, other: &Hold) -> Option<&'static str> {
        self.second.granted()?;
        let again = court.facts.holds.iter();
        let again = again.filter(|hold| hold.who == HOLDER && hold.key == FIRST_LOCK);
        let (released, _) = again.skip(1).find_map(|hold| hold.released)?;
        kept_out(court, self.first, released)?;
        let is_last = self.first.release.is_some_and(|last| last < other.granted);
        is_last.then_some(
            "C was refused after A's first release of two, and B got the lock after the second",
        )
    }
}

/// Returns when A had answered each release that was one too many.
fn over_releases(court: &Court<'_>) -> Vec<Mark> {
    let faults = court.facts.faults.iter();
    let own = faults.filter(|seen| seen.who == HOLDER && seen.fault == Fault::OverReleased);
    own.map(|seen| seen.mark).collect()
}

/// Returns when C was refused after this event, while this hold certainly lasted.
fn kept_out(court: &Court<'_>, hold: &Hold, from: Mark) -> Option<Mark> {
    let mut tries = court.facts.waits.iter();
    tries.find_map(|wait| {
        let refused = wait
            .refused()
            .filter(|_| wait.who == THIRD && wait.asked > from)?;
        let lasted = court.checks.certainly_held(hold, from.at_ns, refused.at_ns);
        lasted.then_some(refused)
    })
}

fn nothing() -> Verdict {
    Verdict::inconclusive(
        "Nothing broke, and nothing was tested: nobody was seen to be kept out while A asked again and released too often.",
        Lack::Contention,
        "a holder that answers both, somebody who has the lock by then, and somebody who tries to get it.",
    )
}

/// Returns the verdict on two holders that A's second request, its first release or its last one explains; `None` if none of them does.
fn two_at_once(court: &Court<'_>, overlap: &Overlap<'_>) -> Option<Verdict> {
    let (first, second) = (overlap.first, overlap.second);
    let between = |mark: &Mark| first.granted < *mark && *mark < second.granted;
    if first.who == second.who {
        let because = format!(
            "{} got the lock a second time while it had it, and the lock does not claim to be re-entrant.",
            first.who
        );
        return Some(broken(overlap, Vec::new(), because, WHY_SECOND));
    }
    if first.who != HOLDER
        && let Some(over) = over_releases(court).into_iter().find(between)
    {
        let sentence = "A answers a release that is one too many";
        let proof = vec![evidence(over, HOLDER, "released again", sentence)];
        let because = format!(
            "{} got the lock while {} held it: A had released it once too often.",
            second.who, first.who
        );
        return Some(broken(overlap, proof, because, WHY_OVER_RELEASE));
    }
    if !court.claims.reentrant
        && let Some(over) = over_releases(court).into_iter().find(between)
    {
        let sentence = "A answers a release of its earlier hold";
        let proof = vec![evidence(over, HOLDER, "released again", sentence)];
        let because = format!(
            "{} got the lock while {HOLDER} had it again: {HOLDER} had released its earlier hold once more.",
            second.who
        );
        return Some(broken(overlap, proof, because, WHY_OLD_RELEASE));
    }
    let mut own = court.facts.holds.iter();
    let released = own.find_map(|hold| {
        let (mark, _) = hold.released.filter(|_| hold.who == first.who)?;
        (hold.id != first.id && between(&mark)).then_some(mark)
    });
    let released = released.filter(|_| court.claims.reentrant)?;
    let proof = vec![evidence(
        released,
        &first.who,
        "released",
        "A releases one of its two holds",
    )];
    let because = format!(
        "{} got the lock after A's first release of two.",
        second.who
    );
    Some(broken(overlap, proof, because, WHY_FIRST_RELEASE))
}

fn broken(
    overlap: &Overlap<'_>,
    proof: Vec<Evidence>,
    because: String,
    why: &'static str,
) -> Verdict {
    let mut verdict = Verdict {
        evidence: proof
            .into_iter()
            .chain(overlap_evidence(Some(overlap)))
            .collect(),
        why: Some(why.into()),
        ..Verdict::bare(Outcome::Broken, because)
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

/// Returns the verdict on a lock that claims to be re-entrant, and refused its holder.
fn refused_its_holder(trial: &Twice<'_>, refused: Mark) -> Verdict {
    let granted = format!("A is granted {}", trial.first.key);
    Verdict {
        evidence: vec![
            evidence(trial.first.granted, HOLDER, "granted", granted),
            evidence(refused, HOLDER, "refused", "A, which has it, is refused"),
        ],
        why: Some(WHY_REFUSED.into()),
        ..Verdict::bare(
            Outcome::Broken,
            "The lock claims to be re-entrant, and refused the process that had it.",
        )
    }
}
