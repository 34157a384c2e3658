//! Servers were out of action for longer than a lease, and came back with everything that they had: was there ever a second holder, and
//! could the lock be taken afterwards? `server-stall` and `majority-down` share these answers.

use super::{Court, evidence, overwritten, stalled};
use crate::holds::HOLDER;
use crate::holds::check::{Outage, nanoseconds};
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};
use crate::protocol::{Action, ReleaseResult};
use crate::text::capital;
use crate::text::numbers::ms;
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

impl Court<'_> {
    /// Returns the outage that lasted longer than a lease while A held the lock.
    pub(super) fn long_outage(&self) -> Option<(&Outage<'_>, &Hold)> {
        let outages = self.checks.outages().iter();
        let mut long =
            outages.filter(|outage| outage.is_silent && outage.lasted_ns() > self.ttl_ns());
        long.find_map(|outage| Some((outage, self.held_since(outage)?)))
    }

    /// Returns A's hold at the beginning of an outage.
    pub(super) fn held_since(&self, outage: &Outage<'_>) -> Option<&Hold> {
        let mut holds = self.facts.holds.iter();
        holds.find(|hold| {
            let ends = [hold.release, hold.killed].into_iter().flatten();
            let is_held = ends.min().is_none_or(|end| end > outage.from);
            hold.who == HOLDER && hold.granted < outage.from && is_held
        })
    }

    /// Returns the requests that were made while servers were out of action.
    pub(super) fn asked_during(&self, outage: &Outage<'_>) -> Vec<&Wait> {
        let waits = self.facts.waits.iter();
        waits.filter(|wait| outage.contains(wait.asked)).collect()
    }

    /// Returns whether somebody else was refused before an outage because A held the lock.
    pub(super) fn was_contended_before(&self, outage: &Outage<'_>, hold: &Hold) -> bool {
        self.facts.waits.iter().any(|wait| {
            let refused = wait.refused();
            wait.key == hold.key
                && wait.who != hold.who
                && wait.asked > hold.granted
                && refused.is_some_and(|refused| refused < outage.from)
        })
    }
}

/// Returns the verdict on a lock that two processes had within a lease, or that claims to prevent a late write and did not.
pub(super) fn two_holders(court: &Court<'_>) -> Option<Verdict> {
    if let Some(broken) = court.broken_within_lease() {
        return Some(broken);
    }
    // Whoever renews its lease knows by its own clock that it could not.
    let why = why_late(court).filter(|_| court.claims.keep_alive)?;
    let mut broken = overwritten::broken(court, &court.checks.overlaps());
    broken.why = Some(why);
    Some(broken)
}

/// Returns why a late write was possible after an outage that was longer than the lease; `None` if there was none.
fn why_late(court: &Court<'_>) -> Option<String> {
    let lost = court.lost()?;
    let outages = court.checks.outages().iter();
    let outage = outages
        .rev()
        .find(|outage| outage.until < lost.write.mark)?;
    let hold = court.facts.hold_of(lost.write)?;
    let was_out = hold.granted < outage.from && outage.lasted_ns() > court.ttl_ns();
    was_out.then(|| {
        format!(
            "{} answered nobody for {} ms, longer than the lease, and {} is never asked again whether it still holds.",
            capital(&named(outage)),
            ms(outage.lasted_ns()),
            hold.who
        )
    })
}

/// Returns words such as "the server", or "the first server and the second server".
pub(super) fn named(outage: &Outage<'_>) -> String {
    let servers = outage.servers.iter().map(|server| format!("the {server}"));
    servers.collect::<Vec<_>>().join(" and ")
}

/// How the last request went, which was made when the servers were back.
pub(super) enum Afterwards<'a> {
    /// The lock was granted, this long after nobody had it any more.
    Taken { next: &'a Hold, took_ns: u64 },
    /// Something else, which decides the verdict.
    Decided(Box<Verdict>),
}

/// Returns how the last request went.
pub(super) fn afterwards<'a>(court: &'a Court<'_>) -> Afterwards<'a> {
    let Some((wait, since_ns)) = court.checks.wait_after_outages() else {
        return Afterwards::Decided(Box::new(court.unanswered()));
    };
    let Some((answered, WaitEnd::Granted)) = wait.answer else {
        return Afterwards::Decided(Box::new(not_taken(court, wait)));
    };
    let mut holds = court.facts.holds.iter();
    let Some(next) = holds.find(|hold| hold.granted == answered) else {
        return Afterwards::Decided(Box::new(court.unanswered()));
    };
    let took_ns = answered.at_ns.saturating_sub(since_ns);
    let bound_ns = court.checks.bound_after_outage_ns();
    if bound_ns.is_none_or(|bound_ns| took_ns <= bound_ns) {
        return Afterwards::Taken { next, took_ns };
    }
    Afterwards::Decided(Box::new(late(court, wait, answered, took_ns)))
}

/// Returns the verdict if nobody took the lock in the end. A lock that nobody could take is judged with those of the other scenarios.
fn not_taken(court: &Court<'_>, wait: &Wait) -> Verdict {
    if wait.refused().is_some() {
        return Verdict::inconclusive(
            format!(
                "{} did not get the lock when the servers were back.",
                wait.who
            ),
            Lack::Calm,
            "a machine that is less busy, or a longer --ttl.",
        );
    }
    court.unanswered()
}

/// Returns the verdict on a lock that nobody had, and that came too late all the same. The lab's clock alone accuses no lock that promises no time.
fn late(court: &Court<'_>, wait: &Wait, answered: Mark, took_ns: u64) -> Verdict {
    let who = &wait.who;
    if court.checks.has_stalled(wait.asked, answered) {
        return stalled(format!(
            "{who} got the lock {} ms after nobody had it, but the lab itself stalled meanwhile.",
            ms(took_ns)
        ));
    }
    let Some(promised_ms) = court.claims.recovery_ms else {
        return Verdict::inconclusive(
            format!(
                "{who} got the lock only {} ms after the servers were back and nobody had it: too late for a lock that \
                 nobody has, unless the machine stalled.",
                ms(took_ns)
            ),
            Lack::Calm,
            "a machine that is less busy. If it happens again, the lock does not notice that its servers are back.",
        );
    };
    let promise = if nanoseconds(promised_ms) > court.ttl_ns() {
        format!("{promised_ms} ms were promised")
    } else {
        format!("its lease lasts {} ms", ms(court.ttl_ns()))
    };
    Verdict {
        evidence: court
            .checks
            .outages()
            .last()
            .map(back)
            .into_iter()
            .chain([evidence(
                answered,
                who,
                "granted",
                format!("{who} is granted the lock"),
            )])
            .collect(),
        why: Some(format!(
            "The servers answered again, nobody had the lock, and {who} still waited for it."
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{who} got the lock only {} ms after the servers were back and nobody had it; {promise}.",
                ms(took_ns)
            ),
        )
    }
}

fn back(outage: &Outage<'_>) -> Evidence {
    let sentence = format!("{} can be reached again", named(outage));
    evidence(outage.until, "lab", "server", sentence)
}

/// Returns an inconclusive verdict: the servers were not seen to be out of action for long enough while A held the lock.
pub(super) fn not_witnessed() -> Verdict {
    Verdict::inconclusive(
        "Nothing broke, and nothing was tested: the servers were not seen to be out of action for longer than A's lease.",
        Lack::Outage,
        "servers that are seen to answer nobody for longer than the TTL while A holds the lock.",
    )
}

/// Returns an inconclusive verdict if A wrote after an outage that its lease had not survived, and nobody had come before it.
pub(super) fn not_overtaken(
    court: &Court<'_>,
    outage: &Outage<'_>,
    hold: &Hold,
) -> Option<Verdict> {
    if !court.claims.keep_alive || court.claims.fencing {
        return None;
    }
    let mut ops = court.facts.ops.iter();
    let write = ops.find(|op| {
        let is_own = op.who == hold.who && op.hold == hold.id;
        is_own && op.action == Action::Write && op.mark > outage.until
    })?;
    let is_kept = matches!(hold.released, Some((_, ReleaseResult::Released)));
    let mut others = court.facts.holds.iter();
    let is_overtaken = others.any(|other| {
        let is_other = other.key == hold.key && other.who != hold.who;
        is_other && other.granted > outage.from && other.granted < write.mark
    });
    (!is_kept && !is_overtaken).then(|| {
        Verdict::inconclusive(
            "A wrote when its lease may have been over, and nobody had the lock before that.",
            Lack::Overrun,
            "somebody who gets the lock before A is asked to write. Run it again.",
        )
    })
}

/// Returns an inconclusive verdict: nobody wanted A's lock.
pub(super) fn not_contended() -> Verdict {
    Verdict::inconclusive(
        "Nothing broke, and nothing was tested: nobody was refused because A held the lock, or nobody asked during the outage.",
        Lack::Contention,
        "somebody whom A's lock keeps out, and somebody who asks while the servers are out of action.",
    )
}

/// Returns what became of A's lock, in words: "B got the lock 3.1 ms after that", or that A kept it.
pub(super) fn what_became(court: &Court<'_>, outage: &Outage<'_>, hold: &Hold) -> String {
    let mut holds = court.facts.holds.iter();
    let is_next = |other: &&Hold| {
        other.key == hold.key && other.who != hold.who && other.granted > outage.from
    };
    let release = hold.release.map_or(u64::MAX, |release| release.at_ns);
    match holds.find(is_next) {
        Some(next) if next.granted.at_ns < release => {
            let when = match next.granted.at_ns.checked_sub(outage.until.at_ns) {
                Some(after_ns) => format!("{} ms after that", ms(after_ns)),
                None => "before that".into(),
            };
            format!(
                "A's lease was over by then, and {} got the lock {when}",
                next.who
            )
        }
        Some(_) => "nobody else got the lock before A's release".into(),
        None => "nobody else got the lock".into(),
    }
}
