//! Judges `leader-deaths`: the leader of the servers died several times while A held its lock, and after C had died with another one. Was A's lock
//! kept, and when did C's come free?

use super::kept_alive::{LostHold, evidence_of, losses, only_told};
use super::{Court, evidence, stalled};
use crate::history::Change;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER, SECOND_LOCK, THIRD};
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Lack, Outcome, Verdict};

/// How often the leader must die during one hold.
const DEATHS_MIN: usize = 2;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(broken) = court.broken_within_lease() {
        return broken;
    }
    let Some(holder) = court.facts.first_of_lock(HOLDER, FIRST_LOCK) else {
        return court.unanswered();
    };
    let deaths = deaths_during(court, holder);
    let Some(last) = deaths.last().filter(|_| deaths.len() >= DEATHS_MIN) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: the leader did not die several times while A held the lock.",
            Lack::Leaders,
            "leaders that are seen to die, one after the other, and to be followed by another one within A's lease.",
        );
    };
    let losses = losses(court);
    if lasts(court) && !losses.is_empty() {
        let excuse = only_told(&losses).or_else(|| lost_too_soon(court, &losses));
        return excuse.unwrap_or_else(|| not_kept(court, *last, &losses));
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let Some(refused) = refused_after(court, holder, *last) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: nobody was refused A's lock after the last election.",
            Lack::Contention,
            "somebody whom A's lock keeps out when the last leader is elected.",
        );
    };
    let (Some(orphan), Some(next)) = (orphan(court), next_of_orphan(court)) else {
        return court.unanswered();
    };
    acquit(court, &deaths, refused, (orphan, next))
}

/// Returns whether the lock claims to last while its process lives. A session may end while no server leads.
fn lasts(court: &Court<'_>) -> bool {
    court.claims.keep_alive || court.claims.untimed && !court.claims.belongs_to_session()
}

/// Returns when the others had elected a leader, for each leader that died while A certainly held its lock.
fn deaths_during(court: &Court<'_>, holder: &Hold) -> Vec<Mark> {
    let mut elected = Vec::new();
    let mut died: Option<Mark> = None;
    for changed in &court.facts.servers {
        match (changed.change, died) {
            (Change::Killed, _) => died = Some(changed.mark),
            (Change::Elected, Some(from)) => {
                let until_ns = changed.mark.at_ns;
                if court.checks.certainly_held(holder, from.at_ns, until_ns) {
                    elected.push(changed.mark);
                }
                died = None;
            }
            _ => {}
        }
    }
    elected
}

/// Returns an inconclusive verdict if it is not certain that A could have renewed its lock when everybody had been served for a lease, or if the lab
/// stalled in that time.
fn lost_too_soon(court: &Court<'_>, losses: &[LostHold<'_>]) -> Option<Verdict> {
    let first = losses.first()?;
    let last = court.facts.servers.last()?.mark;
    let served_ns = first.at.at_ns.saturating_sub(last.at_ns);
    if served_ns < court.ttl_ns() {
        return Some(Verdict::inconclusive(
            format!(
                "A lost its lock {} ms after the last server was back: that is less than a lease, and may be the machine.",
                ms(served_ns)
            ),
            Lack::Calm,
            "a machine that is less busy, or a longer --ttl.",
        ));
    }
    // Starting and stopping servers keeps the lab busy.
    let mut waits = court.facts.waits.iter();
    let from = waits.find(|wait| wait.asked > last)?.asked;
    court
        .checks
        .has_stalled(from, first.at)
        .then(|| stalled("A lost its lock, but the lab itself stalled meanwhile."))
}

fn not_kept(court: &Court<'_>, elected: Mark, losses: &[LostHold<'_>]) -> Verdict {
    let lost_ns = losses.first().map_or(0, |loss| loss.at.at_ns);
    let sentence = "the others elect a leader";
    let who = elected_server(court, elected);
    Verdict {
        evidence: [evidence(
            elected,
            "lab",
            "elected",
            format!("{sentence}: the {who}"),
        )]
        .into_iter()
        .chain(evidence_of(losses))
        .collect(),
        why: Some(format!(
            "The last leader had been elected {} ms before, which is longer than a lease of {} ms, and every lease began anew with it. A lock \
             that is renewed is kept.",
            ms(lost_ns.saturating_sub(elected.at_ns)),
            ms(court.ttl_ns())
        )),
        ..Verdict::bare(
            Outcome::Broken,
            "A lost a lock that it claims to renew, although there had been a leader for longer than a lease.",
        )
    }
}

fn elected_server<'a>(court: &'a Court<'_>, elected: Mark) -> &'a str {
    let mut all = court.facts.servers.iter();
    all.find(|changed| changed.mark == elected)
        .map_or("leader", |changed| changed.server.as_str())
}

/// Returns when B was first refused A's lock that it had asked for after this, while A certainly held it.
fn refused_after(court: &Court<'_>, holder: &Hold, elected: Mark) -> Option<Mark> {
    let is_late = |wait: &&Wait| wait.key == holder.key && wait.asked > elected;
    let mut late = court.facts.waits.iter().filter(is_late);
    late.find_map(|wait| {
        let refused = wait.refused().filter(|_| wait.who == OTHER)?;
        let is_held = court
            .checks
            .certainly_held(holder, wait.asked.at_ns, refused.at_ns);
        is_held.then_some(refused)
    })
}

/// Returns the hold with which its process died.
fn orphan<'a>(court: &'a Court<'_>) -> Option<&'a Hold> {
    let hold = court.facts.first_of_lock(THIRD, SECOND_LOCK)?;
    hold.killed.map(|_| hold)
}

/// Returns who got the lock of the dead one.
fn next_of_orphan<'a>(court: &'a Court<'_>) -> Option<&'a Hold> {
    court.facts.first_of_lock(OTHER, SECOND_LOCK)
}

fn acquit(
    court: &Court<'_>,
    deaths: &[Mark],
    refused: Mark,
    (orphan, next): (&Hold, &Hold),
) -> Verdict {
    let last_ns = deaths.last().map_or(0, |mark| mark.at_ns);
    let died_ns = orphan.killed.map_or(0, |mark| mark.at_ns);
    let times = in_words(deaths.len() as i64, "time", "times");
    let since_election_ns = next.granted.at_ns.saturating_sub(last_ns);
    let lease = ms(court.ttl_ns());
    let free = format!(
        "the dead process's lock was free {} ms after its death, and {} ms after the last election",
        ms(next.granted.at_ns.saturating_sub(died_ns)),
        ms(since_election_ns)
    );
    let (measured, limits) = if court.claims.untimed {
        (free, "a session may end while no server leads".into())
    } else {
        (
            format!("{free}; a lease lasts {lease} ms"),
            "each new leader begins every lease anew, so a dead holder keeps its lock until a lease after the last election".into(),
        )
    };
    Verdict {
        measured: vec![measured],
        witness: vec![format!(
            "the leader died {times} while A held the lock, and the others elected another one each time; {} ms after the last election B \
             was refused A's lock",
            ms(refused.at_ns.saturating_sub(last_ns))
        )],
        limits: Some(limits),
        ..Verdict::bare(
            Outcome::Held,
            "Nobody got A's lock while leaders died, and the lock of a process that had died came free.",
        )
    }
}
