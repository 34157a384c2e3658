//! The holder died, and another process got its lock: how long that took, and what the lock promises about it.

use super::{Court, evidence, stalled};
use crate::holds::facts::{Hold, Mark, Wait};
use crate::holds::{HOLDER, Scenario};
use crate::text::numbers::{decimal, ms};
use crate::verdict::{Lack, Next, Outcome, Verdict};

/// Returns the verdict on a run in which `next` got the lock of a holder that had died.
pub(super) fn recovered(
    court: &Court<'_>,
    died: Mark,
    hold: Option<&Hold>,
    next: &Hold,
) -> Verdict {
    let took_ns = next.granted.at_ns.saturating_sub(died.at_ns);
    let bound_ns = court.checks.recovery_bound_ns();
    let is_late = bound_ns.is_some_and(|bound_ns| took_ns > bound_ns);
    if is_late && court.checks.has_stalled(died, next.granted) {
        let because = format!(
            "{} got the lock {} ms after the kill, but the lab itself stalled meanwhile.",
            next.who,
            ms(took_ns)
        );
        return stalled(because);
    }
    let how = match hold {
        Some(_) => "while holding",
        None => "between two steps of taking the lock",
    };
    if is_late {
        return late(court, died, how, next);
    }
    if court.checks.recovered_in_doubt(took_ns) {
        return in_doubt(court, &format!("{} ms after the kill", ms(took_ns)));
    }
    // Before A's grant, nothing of A's can keep anybody out.
    let is_kept_out =
        |wait: &&Wait| wait.who != HOLDER && hold.is_none_or(|hold| wait.asked > hold.granted);
    let mut others = court.facts.waits.iter().filter(is_kept_out);
    let Some(refused) = others.find_map(|wait| wait.refused()) else {
        return Verdict::inconclusive(
            "B got the lock at its first try: nothing shows that A's hold had kept anybody out.",
            Lack::Contention,
            "somebody whom the dead holder's lock keeps out at first.",
        );
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
        measured: measured(court, died, hold, took_ns).into_iter().collect(),
        witness: vec![witness],
        limits: Some(limits(court, took_ns)),
        next: next_commands(court),
        ..Verdict::bare(
            Outcome::Held,
            format!("Recovered by itself, {} ms after the kill.", ms(took_ns)),
        )
    }
}

/// Returns the verdict on a run in which somebody got the lock later than promised, but not so late that this is certain. `when` says when,
/// such as "399.0 ms after the kill".
pub(super) fn in_doubt(court: &Court<'_>, when: &str) -> Verdict {
    Verdict::inconclusive(
        format!(
            "Recovered {when}; {}. That is too little to be sure.",
            promised(court)
        ),
        Lack::Lease,
        "a longer lease (--ttl): a lock that waits for its end is then certainly too late.",
    )
}

/// Returns the verdict on a run in which nobody got the lock of a holder that had died, although it may come free later. `None` if that took no
/// longer than it may.
pub(super) fn never(court: &Court<'_>, died: Mark) -> Option<Verdict> {
    let others = court.facts.waits.iter().filter(|wait| wait.who != HOLDER);
    let last = others.clone().max_by_key(|wait| wait.asked)?;
    let refused = last.refused()?;
    let lasted_ns = refused.at_ns.saturating_sub(died.at_ns);
    let bound_ns = court.checks.recovery_bound_ns()?;
    let after = court.facts.inspections.iter();
    let mut left = after.filter(|seen| seen.mark > refused && seen.ttl_left_ms.is_some());
    let seen = left.next_back().filter(|_| lasted_ns > bound_ns)?;
    let because = format!(
        "Nobody got the lock for {} ms after the kill; {}.",
        ms(lasted_ns),
        promised(court)
    );
    if court.checks.has_stalled(died, refused) {
        return Some(stalled(because));
    }
    let left = seen.ttl_left_ms.unwrap_or_default();
    Some(Verdict {
        why: Some(
            "The lease of a dead holder still runs, although nobody has renewed it since.".into(),
        ),
        evidence: vec![
            evidence(
                died,
                HOLDER,
                "killed",
                "A is killed (signal 9) while holding",
            ),
            evidence(
                refused,
                &last.who,
                "refused",
                format!("{} is still refused", last.who),
            ),
            evidence(
                seen.mark,
                "lab",
                "store",
                format!(
                    "the lab reads the store: key there, {} ms left",
                    decimal(left)
                ),
            ),
        ],
        ..Verdict::bare(Outcome::Broken, because)
    })
}

/// Returns words such as "100.0 ms were promised".
pub(super) fn promised(court: &Court<'_>) -> String {
    match court.claims.recovery_ms {
        Some(promised) => format!("{} ms were promised", decimal(promised as f64)),
        None => format!("its lease lasts {} ms", ms(court.ttl_ns())),
    }
}

/// Returns the verdict on a run in which somebody got the lock later than it was promised, or than the lease explains.
fn late(court: &Court<'_>, died: Mark, how: &str, next: &Hold) -> Verdict {
    let took_ns = next.granted.at_ns.saturating_sub(died.at_ns);
    let promise = promised(court);
    let because = format!("Recovered {} ms after the kill; {promise}.", ms(took_ns));
    let killed = format!("A is killed (signal 9) {how}");
    let granted = format!("{} is granted the lock", next.who);
    Verdict {
        why: Some(why_late(court, died, next)),
        evidence: vec![
            evidence(died, HOLDER, "killed", killed),
            evidence(next.granted, &next.who, "granted", granted),
        ],
        ..Verdict::bare(Outcome::Broken, because)
    }
}

/// Returns who was kept out by the dead holder's lock, and for how long.
pub(super) fn why_late(court: &Court<'_>, died: Mark, next: &Hold) -> String {
    let refused = |wait: &&Wait| {
        let is_meanwhile = |refused: Mark| died < refused && refused < next.granted;
        wait.who != HOLDER && wait.key == next.key && wait.refused().is_some_and(is_meanwhile)
    };
    let refused = court.facts.waits.iter().filter(refused);
    let in_vain = refused.clone().count();
    let only = refused.clone().all(|wait| wait.who == next.who);
    let since = if next.asked > died { next.asked } else { died };
    let waited = ms(next.granted.at_ns.saturating_sub(since.at_ns));
    let who = if only { "It" } else { "Whoever asked" };
    let refused = match in_vain {
        0 => String::new(),
        1 => format!(" {who} was refused once before."),
        more => format!(" {who} was refused {more} times before."),
    };
    format!(
        "{} waited {waited} ms for the lock of a dead holder.{refused}",
        next.who
    )
}

pub(super) fn limits(court: &Court<'_>, took_ns: u64) -> String {
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
pub(super) fn measured(
    court: &Court<'_>,
    died: Mark,
    hold: Option<&Hold>,
    took_ns: u64,
) -> Option<String> {
    let hold = hold?;
    if court.claims.untimed {
        return Some("there was no lease to wait for".into());
    }
    let since_ns = died.at_ns.saturating_sub(hold.granted.at_ns);
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
