//! A few processes took turns at one lock, some hundred times, and were started again in between: do its fences grow, and is every update
//! there?

use std::collections::HashMap;

use super::{Court, fences};
use crate::holds::facts::Hold;
use crate::holds::storm::process_of;
use crate::holds::turns::{PROCESSES, TURNS_MIN};
use crate::text::numbers::{ms, plural};
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(broken) = fences::judge(court) {
        return broken;
    }
    if let Some(verdict) = court.broken_within_lease().or_else(|| court.overrun()) {
        return verdict;
    }
    let turns = Turns::of(court);
    match turns.lacks() {
        Some((because, what, advice)) => Verdict::inconclusive(
            format!("Nothing broke, and nothing was shown: {because}."),
            what,
            advice,
        ),
        None => acquit(court, &turns),
    }
}

/// What happened, in figures.
struct Turns<'a> {
    done: Vec<&'a Hold>,
    /// How many processes had turns in more than one life.
    came_back: usize,
    lives: usize,
    waited: bool,
    /// A process that asked for a turn and was refused, or got no answer.
    left_behind: Option<&'a str>,
    longest_wait_ns: u64,
}

impl<'a> Turns<'a> {
    fn of(court: &Court<'a>) -> Self {
        let facts = court.facts;
        let done: Vec<&Hold> = facts
            .holds
            .iter()
            .filter(|hold| hold.released.is_some())
            .collect();
        let mut lives: HashMap<&str, Vec<u64>> = HashMap::new();
        for hold in &done {
            let (process, life) = process_of(&hold.who);
            lives.entry(process).or_default().push(life);
        }
        let lives: Vec<usize> = lives
            .into_values()
            .map(|mut lives| {
                lives.sort_unstable();
                lives.dedup();
                lives.len()
            })
            .collect();
        let waits = done
            .iter()
            .map(|hold| hold.granted.at_ns.saturating_sub(hold.asked.at_ns));
        let left_behind = facts.waits.iter().find(|wait| wait.granted().is_none());
        Self {
            came_back: lives.iter().filter(|lives| **lives > 1).count(),
            lives: lives.iter().sum(),
            waited: court.checks.met_taken().is_some(),
            left_behind: left_behind.map(|wait| wait.who.as_str()),
            longest_wait_ns: waits.max().unwrap_or_default(),
            done,
        }
    }

    /// Returns what is missing for an acquittal: the reason, a word for it, and what would be needed.
    fn lacks(&self) -> Option<(String, Lack, &'static str)> {
        if self.done.len() < TURNS_MIN {
            let because = format!("there were only {}", self.number());
            return Some((
                because,
                Lack::Turns,
                "more turns; the notes say what happened.",
            ));
        }
        if self.came_back < PROCESSES {
            let because = "not every process had turns in two lives".to_owned();
            return Some((because, Lack::Lives, "processes that come back."));
        }
        if let Some(who) = self.left_behind {
            let because = format!("{who} asked for a turn, and did not get it");
            return Some((because, Lack::Turns, "a grant for everybody who asks."));
        }
        if !self.waited {
            let because = "nobody ever found the lock taken".to_owned();
            return Some((because, Lack::Contention, "processes that meet."));
        }
        None
    }

    fn number(&self) -> String {
        plural(self.done.len(), "turn", "turns")
    }
}

fn acquit(court: &Court<'_>, turns: &Turns<'_>) -> Verdict {
    let fences = match (court.claims.fencing, turns.done.first(), turns.done.last()) {
        (true, Some(first), Some(last)) => {
            let fence = |hold: &Hold| hold.fence.clone().unwrap_or_default();
            format!(", fences {} to {}", fence(first), fence(last))
        }
        _ => String::new(),
    };
    let limits = if court.claims.fencing {
        "nobody died while it held the lock: crash and storm try that"
    } else {
        "this lock claims no fences. Nobody died while it held the lock: crash and storm try that"
    };
    Verdict {
        measured: vec![format!(
            "the longest wait for a turn: {} ms",
            ms(turns.longest_wait_ns)
        )],
        witness: vec![format!(
            "{} of {PROCESSES} processes in {}{fences}; somebody waited, and nobody was left behind",
            turns.number(),
            plural(turns.lives, "life", "lives"),
        )],
        limits: Some(limits.into()),
        ..Verdict::bare(
            Outcome::Held,
            "Every process got its turns, one at a time, and no update is missing.",
        )
    }
}
