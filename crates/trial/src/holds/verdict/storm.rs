//! Several processes took turns at several locks in a storm of kills and pauses: did the lock keep what every lock promises, and what
//! this one claims?
//!
//! What a lock does not claim is not judged. A plain lease may be overrun by a pause, and what its holder does afterwards accuses nobody.

use std::collections::BTreeSet;

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_holders};
use super::{Court, fences, inconclusive, late_write};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::Hold;
use crate::text::numbers::{in_words, plural};
use crate::verdict::{Outcome, Verdict};

/// How many rounds a storm must have at least to show anything.
const ROUNDS_MIN: usize = 10;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(broken) = fences::judge(court) {
        return broken;
    }
    if court.claims.fencing && court.is_damaged() {
        let mut broken = late_write::broken(court, &court.guilty_overlaps());
        broken.next.clear();
        return broken;
    }
    if let Some(overlap) = court.findings.overlaps_not_kept().first() {
        return not_kept(court, overlap);
    }
    let weather = Weather::of(court);
    match weather.lacks() {
        Some((because, what, advice)) => inconclusive(
            format!("Nothing broke, and nothing was shown: {because}."),
            what,
            advice,
        ),
        None => held(court, &weather),
    }
}

/// Returns the verdict on a run in which a lock that its holder should have kept was given to another process.
fn not_kept(court: &Court<'_>, overlap: &Overlap<'_>) -> Verdict {
    let cause = Cause::of(court, overlap);
    let mut verdict = Verdict {
        evidence: overlap_evidence(Some(overlap)).into_iter().collect(),
        why: cause.why(),
        ..Verdict::bare(Outcome::Broken, format!("{}.", cause.headline()))
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

/// What happened in a storm, in figures.
struct Weather {
    rounds: usize,
    /// How many requests found the lock taken by somebody else.
    contended: usize,
    kills: usize,
    kills_of_holders: usize,
    pauses: usize,
    pauses_beyond_lease: usize,
    pauses_of_holders: usize,
    /// A lock that somebody held, and that nobody took when the last fault was over.
    not_taken_again: Option<String>,
}

impl Weather {
    fn of(court: &Court<'_>) -> Self {
        let facts = court.facts;
        let kills = facts.faults.iter();
        let kills = kills.filter(|(.., fault)| *fault == Fault::Killed);
        let died_holding = |mark| facts.holds.iter().any(|held| held.killed == Some(mark));
        let pauses: Vec<_> = court.findings.pauses().collect();
        let is_beyond =
            |from_ns: u64, until_ns: u64| until_ns.saturating_sub(from_ns) > court.ttl_ns();
        let beyond = pauses
            .iter()
            .filter(|(_, from_ns, until_ns)| is_beyond(*from_ns, *until_ns));
        let holds_at = |who: &str, ns: u64| {
            let own = |held: &Hold| {
                held.who == who && held.granted.at_ns < ns && ns < held.unquestioned_until_ns()
            };
            facts.holds.iter().any(own)
        };
        Self {
            rounds: facts
                .holds
                .iter()
                .filter(|held| held.released.is_some())
                .count(),
            contended: facts
                .waits
                .iter()
                .filter(|wait| wait.refused().is_some())
                .count()
                + usize::from(court.findings.met_taken().is_some()),
            kills: kills.clone().count(),
            kills_of_holders: kills.filter(|(mark, ..)| died_holding(*mark)).count(),
            pauses: pauses.len(),
            pauses_beyond_lease: beyond.clone().count(),
            pauses_of_holders: beyond.filter(|(who, ns, _)| holds_at(who, *ns)).count(),
            not_taken_again: not_taken_again(court),
        }
    }

    /// Returns what is missing for an acquittal: the reason, a word for it, and what would be needed.
    fn lacks(&self) -> Option<(String, &'static str, &'static str)> {
        if self.rounds < ROUNDS_MIN {
            let because = match self.rounds {
                0 => "no round was finished".to_owned(),
                rounds => format!(
                    "only {} finished",
                    in_words(rounds as i64, "round was", "rounds were")
                ),
            };
            return Some((because, "rounds", "more rounds: a longer --for."));
        }
        if self.contended == 0 {
            let because = "nobody ever found a lock taken".to_owned();
            return Some((because, "contention", "processes that meet: fewer --names."));
        }
        if self.kills_of_holders + self.pauses_of_holders == 0 {
            let because = "no kill and no pause beyond the lease hit a holder".to_owned();
            return Some((because, "fault", "more faults: a longer --for."));
        }
        let key = self.not_taken_again.as_ref()?;
        let because = format!("nobody took {key} when the storm was over");
        Some((because, "aftermath", "a last round for every lock."))
    }

    /// Returns words such as "412 rounds; 9 kills, 3 of them of a holder; 14 pauses, 8 of them beyond the lease, 5 of these of a holder".
    fn in_words(&self) -> String {
        format!(
            "{}; {}, {} of a holder; {}, {} beyond the lease, {} of these of a holder",
            plural(self.rounds, "round", "rounds"),
            plural(self.kills, "kill", "kills"),
            self.kills_of_holders,
            plural(self.pauses, "pause", "pauses"),
            self.pauses_beyond_lease,
            self.pauses_of_holders,
        )
    }
}

fn not_taken_again(court: &Court<'_>) -> Option<String> {
    let (holds, faults) = (&court.facts.holds, &court.facts.faults);
    let last_fault = faults.iter().map(|(mark, ..)| *mark).max();
    let is_after = |held: &&Hold| Some(held.asked) > last_fault;
    let again: BTreeSet<&str> = holds
        .iter()
        .filter(is_after)
        .map(|held| &*held.key)
        .collect();
    let keys: BTreeSet<&str> = holds.iter().map(|held| &*held.key).collect();
    keys.difference(&again).next().map(|key| (*key).to_owned())
}

fn limits(court: &Court<'_>) -> &'static str {
    if court.claims.fencing {
        "random instants: another seed tries others. Every resource must check the fence, on reads too"
    } else {
        "random instants: another seed tries others. What a holder does after its lease is not judged without fences"
    }
}

fn held(court: &Court<'_>, weather: &Weather) -> Verdict {
    let overlaps = court.findings.overlaps();
    let mut verdict = Verdict {
        witness: vec![weather.in_words()],
        limits: Some(limits(court).into()),
        ..Verdict::bare(
            Outcome::Held,
            "Every lock had one holder within its lease, and could be taken when the storm was over.",
        )
    };
    verdict.belief.text = overlaps.first().map(|first| {
        let times = plural(overlaps.len(), "time", "times");
        let harmless = if court.claims.fencing {
            "harmless, because the resource asked for the fence"
        } else if court.claims.keep_alive {
            "after a pause, or only once, which may be the machine"
        } else {
            "after the end of a lease, which this lock does not cover"
        };
        format!(
            "two holders at once {times}, first {} and {}: {harmless}",
            first.first.who, first.second.who
        )
    });
    verdict
}
