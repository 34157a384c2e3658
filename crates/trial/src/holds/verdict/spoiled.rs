//! What the trials share in which replies of the store to A's requests for the lock are lost, or errors come in their place: which requests
//! that were, whom they met, and whether the lock came free again.

use super::Court;
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};

/// Returns the requests of A for the lock that got no reply of the store, or an error in its place.
pub(super) fn requests<'a>(court: &'a Court<'_>) -> Vec<&'a Wait> {
    let waits = court.facts.waits.iter();
    let own = waits.filter(|wait| wait.who == HOLDER && wait.key == FIRST_LOCK);
    own.filter(|wait| during(court, wait).is_some()).collect()
}

/// Returns the first fault of this kind between a request and its answer.
pub(super) fn during(court: &Court<'_>, wait: &Wait) -> Option<(Mark, Fault)> {
    let (answered, _) = wait.answer?;
    let mut faults = court.facts.faults.iter();
    let spoiled = faults.find(|seen| {
        let is_meanwhile = wait.asked < seen.mark && seen.mark < answered;
        seen.fault.spoils_reply() && seen.who == wait.who && is_meanwhile
    });
    spoiled.map(|seen| (seen.mark, seen.fault))
}

/// Returns whether B certainly held the lock from this request to its answer.
pub(super) fn meets_holder(court: &Court<'_>, wait: &Wait) -> bool {
    let Some((answered, _)) = wait.answer else {
        return false;
    };
    let holds = court.facts.holds.iter();
    let mut others = holds.filter(|hold| hold.who == OTHER && hold.key == wait.key);
    others.any(|hold| {
        let checks = &court.checks;
        checks.certainly_held(hold, wait.asked.at_ns, answered.at_ns)
    })
}

/// Returns how long after this request was answered B had the lock, or zero if B had it then.
pub(super) fn next_grant(court: &Court<'_>, wait: &Wait) -> Option<u64> {
    let (answered, _) = wait.answer?;
    let holds = court.facts.holds.iter();
    let mut others = holds.filter(|hold| hold.who == OTHER && hold.key == wait.key);
    let has_it =
        |hold: &&Hold| hold.granted < answered && hold.unquestioned_until_ns() > answered.at_ns;
    if others.clone().any(|hold| has_it(&hold)) {
        return Some(0);
    }
    let next = others.find(|hold| hold.granted > answered)?;
    Some(next.granted.at_ns.saturating_sub(answered.at_ns))
}

/// Returns the fault if the second holder was granted the lock by such a request.
pub(super) fn taken_for_a_grant<'a>(
    court: &Court<'_>,
    overlap: &'a Overlap<'a>,
) -> Option<(&'a Overlap<'a>, (Mark, Fault))> {
    let second = overlap.second;
    let own = |wait: &&Wait| wait.who == second.who && wait.granted() == Some(second.granted);
    let wait = court.facts.waits.iter().find(own)?;
    Some((overlap, during(court, wait)?))
}

/// Returns words such as "3 × error, 1 × refusal".
pub(super) fn answers(waits: &[&Wait]) -> String {
    let count = |is: fn(&Wait) -> bool| waits.iter().filter(|wait| is(wait)).count();
    let granted = count(|wait| wait.granted().is_some());
    let failed = count(|wait| matches!(wait.answer, Some((_, WaitEnd::Unknown))));
    let refused = count(|wait| wait.refused().is_some());
    let said = [(failed, "error"), (refused, "refusal"), (granted, "grant")];
    let said = said.into_iter().filter(|(times, _)| *times > 0);
    let said: Vec<String> = said
        .map(|(times, what)| format!("{times} × {what}"))
        .collect();
    said.join(", ")
}
