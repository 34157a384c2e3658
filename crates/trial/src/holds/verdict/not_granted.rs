//! Judges a failover in which A or B was not granted the lock. A lock that claims to survive a failover grants nothing that its replica does not
//! have, and rightly so.

use super::Court;
use super::lost_store::StoreFailure;
use crate::history::Change;
use crate::holds::facts::{Mark, Wait, WaitEnd};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>, failure: &StoreFailure<'_>) -> Verdict {
    let cut_off = court.facts.server_that(|change| change == Change::CutOff);
    let Some((cut_off, replica)) = cut_off.filter(|_| court.claims.survives) else {
        return court.unanswered();
    };
    if court.facts.first_of_lock(HOLDER, FIRST_LOCK).is_some() {
        return court.unanswered();
    }
    let Some(before) = court.facts.holds.iter().find(|hold| hold.granted < cut_off) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was shown: nobody was granted a lock while the replica listened, either.",
            Lack::Grant,
            "a lock that can be taken as long as its servers are in order; the notes say what happened.",
        );
    };
    let Some(answer) = answered(court, cut_off, failure.again) else {
        return court.unanswered();
    };
    let told = if answer.is_refusal {
        "refused"
    } else {
        "told of an error"
    };
    let since = |mark: Mark| ms(mark.at_ns.saturating_sub(failure.again.at_ns));
    let other = court.facts.first_of_lock(OTHER, FIRST_LOCK);
    let afterwards = match other {
        Some(other) => format!(
            "B was granted it {} ms after the {} was there",
            since(other.granted),
            failure.new
        ),
        None => format!("nobody was granted it by the {}, either", failure.new),
    };
    Verdict {
        measured: vec![format!(
            "A's answer took {} ms",
            ms(answer.at.at_ns.saturating_sub(answer.asked.at_ns))
        )],
        witness: vec![format!(
            "{} was granted {} while the {replica} listened; A was {told} while it was cut off; then the {} died of signal 9, and {afterwards}",
            before.who, before.key, failure.dead
        )],
        limits: Some("nobody can take this lock while its replica is away, and the trial did not kill a server that had acknowledged a grant".into()),
        ..Verdict::bare(
            Outcome::Held,
            format!("It granted nothing that its replica did not have: A was {told}, and there was no lock to lose."),
        )
    }
}

/// The answer to a request of A's that was no grant.
struct Answer {
    asked: Mark,
    at: Mark,
    is_refusal: bool,
}

/// Returns the answer to A's request of the lock while the replica was cut off, before a server served again: a refusal, or an error if
/// nobody was granted the lock meanwhile.
fn answered(court: &Court<'_>, cut_off: Mark, again: Mark) -> Option<Answer> {
    let is_meanwhile = |mark: Mark| cut_off < mark && mark < again;
    let mut holds = court.facts.holds.iter();
    let is_granted = holds.any(|hold| hold.key == FIRST_LOCK && is_meanwhile(hold.granted));
    let mut waits = court.facts.waits.iter();
    waits.find_map(|wait| {
        let own = wait.who == HOLDER && wait.key == FIRST_LOCK && wait.asked > cut_off;
        let (at, is_refusal) = match wait.refused() {
            Some(at) => (at, true),
            None => (
                told_of_an_error(court, wait).filter(|_| !is_granted)?,
                false,
            ),
        };
        (own && at < again).then_some(Answer {
            asked: wait.asked,
            at,
            is_refusal,
        })
    })
}

/// Returns when the process that waits was told of an error instead of a grant or a refusal.
fn told_of_an_error(court: &Court<'_>, wait: &Wait) -> Option<Mark> {
    let (at, end) = wait.answer?;
    let mut failures = court.facts.failures.iter();
    let is_told = failures.any(|failed| failed.who == wait.who && failed.mark == at);
    (end == WaitEnd::Unknown && is_told).then_some(at)
}
