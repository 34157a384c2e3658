//! Judges `order`: three processes waited for A, each of which had asked well after the one before it. Were they served in that order?

use super::{Court, evidence};
use crate::holds::HOLDER;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

/// How much later than the one before it a process must have asked. By then, that one had its place in line.
const GAP_NS: u64 = 300_000_000;
/// How long a process may take to be refused when it does not wait. One that is slower, or whose store is, may have got its place late.
const PROMPT_NS: u64 = 150_000_000;
/// How many processes must have waited in a round.
const WAITERS: usize = 3;
/// In how many rounds the order must have been seen, and in how many it must have been wrong to convict. Once may be the machine.
const ROUNDS_MIN: usize = 2;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if !court.claims.fair {
        return Verdict::inconclusive(
            "Not tried: the lock does not claim to serve waiters in order.",
            Lack::Claim,
            "a lock that claims fair.",
        );
    }
    if let Some(broken) = court.broken_within_lease() {
        return broken;
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let rounds = rounds(court);
    let wrong: Vec<&Round<'_>> = rounds
        .iter()
        .filter(|round| round.overtaking().is_some())
        .collect();
    if wrong.len() >= ROUNDS_MIN {
        return broken(&rounds, &wrong);
    }
    if rounds.len() < ROUNDS_MIN {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: three processes were not seen to wait one after the other.",
            Lack::Line,
            "processes that are answered at once, and that ask well after each other: a machine that is less busy.",
        );
    }
    if !wrong.is_empty() {
        return Verdict::inconclusive(
            "One process was served before another one that had asked earlier, but only once: that may be the machine.",
            Lack::Calm,
            "a machine that is less busy. Run it again.",
        );
    }
    acquit(&rounds)
}

/// A hold of A's, and those that waited for it, in the order in which they asked.
struct Round<'a> {
    waits: Vec<(&'a Wait, Mark)>,
}

impl Round<'_> {
    /// Returns a process that was served before another one which had asked earlier, after that one.
    fn overtaking(&self) -> Option<[&(&Wait, Mark); 2]> {
        let pairs = self.waits.windows(2).filter_map(|two| match two {
            [earlier, later] if later.1 < earlier.1 => Some([earlier, later]),
            _ => None,
        });
        pairs.into_iter().next()
    }

    /// Returns the shortest time between two requests.
    fn gap_ns(&self) -> u64 {
        let asked = self.waits.iter().map(|(wait, _)| wait.asked.at_ns);
        let gaps = asked.clone().zip(asked.skip(1));
        gaps.map(|(earlier, later)| later.saturating_sub(earlier))
            .min()
            .unwrap_or(0)
    }
}

/// Returns the rounds that show an order: everybody asked while A held the lock, well after each other, was awake, and was served, and the lab did
/// not stall.
fn rounds<'a>(court: &'a Court<'_>) -> Vec<Round<'a>> {
    let own = court.facts.holds.iter().filter(|hold| hold.who == HOLDER);
    own.filter_map(|hold| round(court, hold)).collect()
}

fn round<'a>(court: &'a Court<'_>, hold: &Hold) -> Option<Round<'a>> {
    let release = hold.release?;
    let others = court.facts.waits.iter().filter(|wait| {
        let is_meanwhile = hold.granted < wait.asked && wait.asked < release;
        wait.who != hold.who && wait.key == hold.key && is_meanwhile
    });
    let (tries, waits): (Vec<&Wait>, Vec<&Wait>) = others.partition(|wait| wait.wait_ms == 0);
    let waits: Option<Vec<(&Wait, Mark)>> = waits
        .into_iter()
        .map(|wait| Some((wait, wait.granted()?)))
        .collect();
    let round = Round { waits: waits? };
    let last = round.waits.iter().map(|(_, granted)| *granted).max()?;
    let is_prompt = |wait: &&Wait| {
        let refused = wait.refused();
        refused.is_some_and(|at| at.at_ns.saturating_sub(wait.asked.at_ns) < PROMPT_NS)
    };
    let shows = round.waits.len() >= WAITERS
        && tries.len() >= round.waits.len()
        && tries.iter().all(is_prompt)
        && round.gap_ns() >= GAP_NS
        && !court.checks.has_stalled(hold.asked, last);
    shows.then_some(round)
}

fn broken(rounds: &[Round<'_>], wrong: &[&Round<'_>]) -> Verdict {
    let first = wrong.first().and_then(|round| round.overtaking());
    let times = in_words(wrong.len() as i64, "round", "rounds");
    let served = |(wait, granted): &(&Wait, Mark), words: &str| -> Evidence {
        let sentence = format!("{} is granted the lock{words}", wait.who);
        evidence(*granted, &wait.who, "granted", sentence)
    };
    let why = first.map(|[earlier, later]| {
        format!(
            "{} had asked {} ms before {}, and both waited for A.",
            earlier.0.who,
            ms(later.0.asked.at_ns.saturating_sub(earlier.0.asked.at_ns)),
            later.0.who
        )
    });
    Verdict {
        evidence: first
            .into_iter()
            .flat_map(|[earlier, later]| [served(later, ""), served(earlier, ", after that")])
            .collect(),
        why,
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "Waiters were not served in the order in which they had asked, in {times} of {}, and the lock claims to be fair.",
                rounds.len()
            ),
        )
    }
}

fn acquit(rounds: &[Round<'_>]) -> Verdict {
    let times = in_words(rounds.len() as i64, "time", "times");
    let gap_ns = rounds.iter().map(Round::gap_ns).min().unwrap_or(0);
    Verdict {
        witness: vec![format!(
            "{times}, three processes waited for A, and each had asked {} ms or more after the one before it",
            ms(gap_ns)
        )],
        limits: Some("nobody died or gave up while it waited, and no wait was long".into()),
        ..Verdict::bare(
            Outcome::Held,
            "Whoever waited was served in the order in which it had asked.",
        )
    }
}
