//! Nobody can take the lock any more: the verdict, in every scenario.

use super::vanish::vanished_before;
use super::{Court, evidence};
use crate::history::Change;
use crate::holds::Scenario;
use crate::holds::check::{Stuck, StuckBy};
use crate::holds::facts::{Cycle, FailedRequest, Hold, Mark};
use crate::text::numbers::{decimal, ms};
use crate::verdict::{Evidence, Next, Outcome, Verdict};

/// Returns a verdict if nobody could take a lock that nobody holds.
pub(super) fn judge(court: &Court<'_>) -> Option<Verdict> {
    let stuck = court.checks.stuck()?;
    Some(match &stuck.by {
        StuckBy::Death => after_death(court, &stuck),
        StuckBy::Cycle(cycle) => in_cycle(court, &stuck, cycle),
        StuckBy::FailedPurchase => after_purchase(court, &stuck),
        StuckBy::LostReply { who } => after_lost_reply(court, &stuck, who),
        StuckBy::Outage => after_outage(court, &stuck),
        StuckBy::Nobody { freed_by } => free(court, &stuck, freed_by.as_deref()),
    })
}

/// Returns words such as "6,000.0 ms (3 × TTL)".
fn duration(court: &Court<'_>, stuck: &Stuck) -> String {
    let times = stuck.lasted_ns / court.ttl_ns().max(1);
    format!("{} ms ({times} × TTL)", ms(stuck.lasted_ns))
}

fn verdict(
    because: String,
    proof: Vec<Evidence>,
    why: Option<String>,
    next: Option<Next>,
) -> Verdict {
    Verdict {
        evidence: proof,
        why,
        next: next.into_iter().collect(),
        ..Verdict::bare(Outcome::Stuck, because)
    }
}

/// Returns one piece of evidence for each process that was finally refused.
fn refused<'a>(
    stuck: &'a Stuck,
    what: &'a str,
    words: &'a str,
) -> impl Iterator<Item = Evidence> + 'a {
    let each = stuck.refused.iter();
    each.map(move |(who, mark)| evidence(*mark, who, what, format!("{who} {words}")))
}

fn after_death(court: &Court<'_>, stuck: &Stuck) -> Verdict {
    let killed = court.facts.faults.iter();
    let killed = killed.clone().find(|seen| seen.mark == stuck.since);
    let dead = killed.map_or("A", |seen| &seen.who);
    let mut halted = court.facts.halted.iter();
    let halted = halted.any(|halted| halted.who == dead);
    let hold = |hold: &Hold| hold.killed == Some(stuck.since);
    let when = if halted {
        "between its two steps"
    } else if court.facts.holds.iter().any(hold) {
        "while holding"
    } else {
        "before it was told whether it has the lock"
    };
    let sentence = format!("{dead} is killed (signal 9) {when}");
    let behind = clock_behind(court, stuck);
    let vanished = vanished_before(court, dead, stuck.since);
    let is_vanished = vanished.is_some();
    let mut proof: Vec<Evidence> = behind.iter().map(|(jumped, _)| jumped.clone()).collect();
    proof.extend(vanished);
    proof.push(evidence(stuck.since, dead, "killed", sentence));
    proof.extend(refused(stuck, "refused", "is still refused"));
    proof.extend(court.last_inspection(stuck));
    let next = match behind {
        Some(_) => None,
        None if court.claims.untimed => court.next("lease", "a row that says until when"),
        None => court.next("safe", "both in one step"),
    };
    let end = if is_vanished { "gone" } else { "dead" };
    let because = format!(
        "The holder is {end}, and {} later nobody can have its lock.",
        duration(court, stuck)
    );
    let why = behind
        .and_then(|(_, why)| why)
        .or_else(|| bound_to_a_connection(court).filter(|_| is_vanished))
        // A lock that is known to lack something else is not stuck because of that.
        .or_else(|| court.why_strategy().filter(|_| !is_vanished));
    let why = why.or_else(|| {
        let inspection = court.inspection_of(stuck)?;
        let stays = inspection.taken && inspection.ttl_left_ms.is_none();
        stays.then(|| format!("The store still has {dead}'s lock, and nothing there ends it."))
    });
    verdict(because, proof, why, next)
}

/// Returns why a lock stays taken that its server frees at the end of a connection. `None` for other locks.
fn bound_to_a_connection(court: &Court<'_>) -> Option<String> {
    court.checks.ends_with_connection().then(|| {
        "The lock belongs to a connection, and nobody has told the server that its other end is gone: it keeps the lock until it notices, \
         which Linux leaves to TCP keepalive, by default after two hours."
            .into()
    })
}

/// Returns the jump of the server's clock as evidence, if it jumped back before the death, and what the store shows of it.
fn clock_behind(court: &Court<'_>, stuck: &Stuck) -> Option<(Evidence, Option<String>)> {
    let (mark, server) = court
        .facts
        .server_that(|change| change == Change::ClockBehind)?;
    let sentence = Change::ClockBehind.describe(server, false);
    let left_ms = court.inspection_of(stuck).and_then(|seen| seen.ttl_left_ms);
    let why = left_ms.map(|left_ms| {
        format!(
            "The server ends a lease by its time of day: since that jumped back, a lease of {} ms has {} ms left.",
            ms(court.ttl_ns()),
            decimal(left_ms)
        )
    });
    let is_before = mark < stuck.since;
    is_before.then(|| (evidence(mark, "lab", "server", sentence), why))
}

fn in_cycle(court: &Court<'_>, stuck: &Stuck, cycle: &Cycle) -> Verdict {
    let sentence = format!("wait cycle: {}", cycle.waits());
    let mut proof = vec![evidence(cycle.since, &cycle.who[0], "wait cycle", sentence)];
    let last = stuck.refused.iter().max_by_key(|(_, mark)| mark.at_ns);
    if let Some((who, mark)) = last {
        let others: Vec<&str> = stuck.refused.iter().map(|(who, _)| who.as_str()).collect();
        let sentence = format!("{} are still refused", others.join(" and "));
        proof.push(evidence(*mark, who, "refused", sentence));
    }
    proof.extend(court.last_inspection(stuck));
    let name = &court.header.strategy;
    let why = if court.claims.keep_alive {
        Some(format!(
            "{name} renews the leases while their holders wait: nothing ends the deadlock."
        ))
    } else if court.claims.untimed {
        Some(format!(
            "{name} has no lease, and nobody sees who waits for whom: nothing ends the deadlock."
        ))
    } else {
        court.why_strategy()
    };
    let because = format!(
        "Both wait for each other, and {} later neither has made progress.",
        duration(court, stuck)
    );
    let next = court.next_scenario(
        Scenario::DeadlockSorted,
        "both take the locks in the same order",
    );
    verdict(because, proof, why, next)
}

fn after_purchase(court: &Court<'_>, stuck: &Stuck) -> Verdict {
    let found = "A gets its turn and finds nothing left";
    let mut proof = vec![evidence(stuck.since, "A", "no_stock", found)];
    proof.extend(refused(stuck, "busy", "still finds the lock taken"));
    proof.extend(court.last_inspection(stuck));
    let because = format!(
        "Nobody died, and {} after a purchase without stock nobody can buy any more.",
        duration(court, stuck)
    );
    let next = court.next("safe", "releases the lock");
    verdict(because, proof, court.why_strategy(), next)
}

/// Returns the verdict on a run in which a reply was lost or replaced by an error, and what the store did then stays done.
fn after_lost_reply(court: &Court<'_>, stuck: &Stuck, who: &str) -> Verdict {
    let met = court.facts.faults.iter().rev();
    let mut met =
        met.filter(|seen| seen.who == who && seen.mark <= stuck.since && seen.fault.spoils_reply());
    let error = met.next().and_then(|seen| seen.fault.error());
    let what = match error {
        Some(error) => format!("the store had answered with {error}"),
        None => "the store's reply was lost".into(),
    };
    let sentence = format!("{who} is told of an error; {what}");
    let mut proof = vec![evidence(stuck.since, who, "failed", sentence)];
    proof.extend(refused(stuck, "refused", "is still refused"));
    proof.extend(court.last_inspection(stuck));
    let what = match error {
        Some(error) => format!("The store answered {who} with {error}"),
        None => format!("A reply to {who} was lost"),
    };
    let because = format!(
        "{what}, and {} later nobody can have the lock.",
        duration(court, stuck)
    );
    let inspection = court.facts.inspections.last();
    let stays = inspection.is_some_and(|seen| seen.taken && seen.ttl_left_ms.is_none());
    let why = stays.then(|| {
        let what = match error {
            Some(_) => format!("The store has kept what an earlier command of {who}'s did"),
            None => format!("The store has carried {who}'s request out"),
        };
        format!("{what}, {who} does not know it, and nothing there ends it.")
    });
    let next = if court.claims.untimed {
        court.next("lease", "a row that says until when")
    } else {
        court.next("safe", "takes the lock and its expiry in one step")
    };
    verdict(because, proof, why, next)
}

/// Returns the verdict on a run in which servers were out of action and came back, and nobody can take the lock.
fn after_outage(court: &Court<'_>, stuck: &Stuck) -> Verdict {
    let mut servers = court.facts.servers.iter();
    let back = servers.find(|changed| changed.mark == stuck.since);
    let back = back.map(|changed| {
        let sentence = changed.change.describe(&changed.server, false);
        evidence(changed.mark, "lab", "server", sentence)
    });
    let mut proof: Vec<Evidence> = back.into_iter().collect();
    proof.extend(refused(stuck, "refused", "is still refused"));
    proof.extend(court.last_inspection(stuck));
    let because = format!(
        "The servers are back, nobody has the lock, and {} later nobody can have it.",
        duration(court, stuck)
    );
    let stays = court.inspection_of(stuck);
    let stays = stays.is_some_and(|seen| seen.taken && seen.ttl_left_ms.is_none());
    let why = if stays {
        Some("The store still has a lock that nobody knows of, and nothing there ends it.".into())
    } else {
        court
            .facts
            .failures
            .first()
            .map(|FailedRequest { who, message, .. }| {
                format!(
                    "{who} was told of an error while the servers were out of action: {message}"
                )
            })
    };
    let next = court.next("safe", "takes the lock and its expiry in one step");
    verdict(because, proof, why, next)
}

/// Returns the verdict on a run in which nobody holds the lock, but the waiter does not get it.
fn free(court: &Court<'_>, stuck: &Stuck, freed_by: Option<&str>) -> Verdict {
    let waiter = stuck.refused.first().map_or("B", |(who, _)| who);
    let mut halted = court.facts.halted.iter();
    let halted = halted.find(|halted| halted.who == waiter);
    let looked_at = halted.map(|halted| halted.mark);
    let looked = looked_at.map(|mark| {
        let sentence = format!("{waiter} has looked up who is ahead of it, and does not watch yet");
        evidence(mark, waiter, "looks", sentence)
    });
    let is_free = match freed_by {
        Some(who) => {
            let sentence = format!("{who}'s release is done: nobody has the lock");
            evidence(stuck.since, who, "released", sentence)
        }
        None => {
            let sentence = format!("{waiter} asks for a lock that nobody has");
            evidence(stuck.since, waiter, "asked", sentence)
        }
    };
    let proof = looked.into_iter().chain([is_free]).chain(refused(
        stuck,
        "refused",
        "still waits, and gives up",
    ));
    let because = format!(
        "Nobody has the lock, and {} later {waiter} still waits for it.",
        duration(court, stuck)
    );
    let why = court.why_strategy().filter(|_| looked_at.is_some());
    let why = why.or_else(|| Some(left_behind(waiter, freed_by, looked_at)));
    let next = court.next("safe", "looks once more when it watches");
    verdict(because, proof.collect(), why, next)
}

fn left_behind(waiter: &str, freed_by: Option<&str>, looked_at: Option<Mark>) -> String {
    match (freed_by, looked_at) {
        (Some(_), Some(_)) => {
            format!("The release came between {waiter}'s look and its watch, and nothing wakes it.")
        }
        (Some(who), None) => {
            format!("{who} was told that its release is done, and {waiter} did not get the lock.")
        }
        (None, _) => format!("No process was ever granted this lock, and {waiter} did not get it."),
    }
}
