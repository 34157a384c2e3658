//! The holder was killed: did somebody else get its lock?

use super::{Court, evidence, inconclusive, stalled};
use crate::history::Fault;
use crate::holds::Scenario;
use crate::holds::facts::{Hold, Mark};
use crate::text::numbers::{decimal, ms};
use crate::verdict::{Next, Outcome, Verdict};

const HOLDER: &str = "A";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let Some(died) = court.facts.fault_of(HOLDER, Fault::Killed) else {
        return inconclusive(
            "Nothing broke, and nothing was tested: A was not killed while it held the lock.",
            "kill",
            "a holder that is seen to die of the lab's signal.",
        );
    };
    let held = court.facts.first_of(HOLDER);
    let halted = court.facts.reached.iter().any(|(_, who, ..)| who == HOLDER);
    let holds_on = |held: &Hold| {
        // The lease began no earlier than it was requested.
        let is_running = died.at_ns < held.asked.at_ns.saturating_add(court.ttl_ns());
        let has_no_end = court.claims.keep_alive || court.claims.untimed;
        held.killed.is_some() && (is_running || has_no_end)
    };
    if !halted && !held.is_some_and(holds_on) {
        return inconclusive(
            "Nothing broke, and nothing was tested: A held nothing any more when it was killed.",
            "hold",
            "a lease that outlives the kill: a longer --ttl.",
        );
    }
    match court.findings.recovery() {
        Some((_, next)) => recovered(court, died, held, next),
        None if court
            .facts
            .inspections
            .iter()
            .any(|inspection| !inspection.taken || inspection.ttl_left_ms.is_some()) =>
        {
            inconclusive(
                "B did not get the lock, although the store says that time frees it.",
                "calm",
                "a machine that is less busy, or a longer --ttl.",
            )
        }
        None => court.unanswered(),
    }
}

fn recovered(court: &Court<'_>, died: Mark, held: Option<&Hold>, next: &Hold) -> Verdict {
    let took_ns = next.granted.at_ns.saturating_sub(died.at_ns);
    let is_late = took_ns > court.findings.recovery_bound_ns();
    if is_late && court.findings.has_stalled(died, next.granted) {
        let because = format!(
            "{} got the lock {} ms after the kill, but the lab itself stood still meanwhile.",
            next.who,
            ms(took_ns)
        );
        return stalled(because);
    }
    if is_late {
        let promise = match court.claims.recovery_ms {
            Some(promised) => format!("{} ms were promised", decimal(promised as f64)),
            None => format!("its lease lasts {} ms", ms(court.ttl_ns())),
        };
        let because = format!("Recovered {} ms after the kill; {promise}.", ms(took_ns));
        return Verdict {
            why: Some(why_late(court, died, next)),
            evidence: vec![
                evidence(
                    died,
                    HOLDER,
                    "killed",
                    "A is killed (signal 9) while holding",
                ),
                evidence(
                    next.granted,
                    &next.who,
                    "granted",
                    format!("{} is granted the lock", next.who),
                ),
            ],
            ..Verdict::bare(Outcome::Broken, because)
        };
    }
    let mut others = court.facts.waits.iter().filter(|wait| wait.who != HOLDER);
    let Some(refused) = others.find_map(|wait| wait.refused()) else {
        return inconclusive(
            "B got the lock at its first try: nothing shows that A's hold had kept anybody out.",
            "contention",
            "somebody whom the dead holder's lock keeps out at first.",
        );
    };
    let how = match held {
        Some(_) => "while holding",
        None => "between two steps of taking the lock",
    };
    let witness = match refused.at_ns.checked_sub(died.at_ns) {
        Some(after) => {
            let after = ms(after);
            format!("A died of signal 9 {how}; B was refused {after} ms later")
        }
        None => format!(
            "B was refused while A held it; A died of signal 9 {} ms later",
            ms(died.at_ns - refused.at_ns)
        ),
    };
    Verdict {
        measured: measured(court, died, held, took_ns).into_iter().collect(),
        witness: vec![witness],
        limits: Some(limits(court, took_ns)),
        next: next_commands(court),
        ..Verdict::bare(
            Outcome::Held,
            format!("Recovered by itself, {} ms after the kill.", ms(took_ns)),
        )
    }
}

/// Returns who was kept out by the dead holder's lock, and for how long.
fn why_late(court: &Court<'_>, died: Mark, next: &Hold) -> String {
    let in_vain = court.facts.waits.iter().filter(|wait| wait.who != HOLDER);
    let in_vain = in_vain.filter_map(|wait| wait.refused());
    let in_vain = in_vain.filter(|mark| mark.at_ns > died.at_ns).count();
    let since = if next.asked > died { next.asked } else { died };
    let waited = ms(next.granted.at_ns.saturating_sub(since.at_ns));
    let refused = match in_vain {
        0 => String::new(),
        1 => " Somebody was refused once before.".to_owned(),
        more => format!(" Others were refused {more} times before."),
    };
    format!(
        "{} waited {waited} ms for the lock of a dead holder.{refused}",
        next.who
    )
}

fn limits(court: &Court<'_>, took_ns: u64) -> String {
    if court.claims.untimed {
        return "the store saw the connection close. A machine that vanishes without a word keeps its \
            locks until TCP gives up."
            .into();
    }
    let seconds = decimal(took_ns as f64 / 1e9);
    format!(
        "nobody could work for {seconds} s. A shorter TTL recovers sooner and is overrun sooner."
    )
}

/// Compares the recovery with the rest of the lease.
fn measured(court: &Court<'_>, died: Mark, held: Option<&Hold>, took_ns: u64) -> Option<String> {
    let held = held?;
    if court.claims.untimed {
        return Some("there was no lease to wait for".into());
    }
    let since_ns = died.at_ns.saturating_sub(held.granted.at_ns);
    let left_ns = if court.claims.keep_alive {
        // The lease may have been renewed just before.
        court.ttl_ns()
    } else {
        court.ttl_ns().saturating_sub(since_ns)
    };
    let came = match took_ns.checked_sub(left_ns) {
        Some(on_top) => format!("{} ms or more came on top", ms(on_top)),
        None => format!("it was free {} ms before that", ms(left_ns - took_ns)),
    };
    Some(format!(
        "{} ms at most were left of the lease at the kill; {came}",
        ms(left_ns)
    ))
}

fn next_commands(court: &Court<'_>) -> Vec<Next> {
    let naive = court.next("naive", "");
    let edge = court.next_scenario(Scenario::TtlEdge, "");
    naive.into_iter().chain(edge).collect()
}
