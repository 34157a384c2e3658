//! A comparison together with its rounds and verdict: the input of every report about it.

use super::Comparison;
use super::facts::{Figures, split};
use super::verdict::{combine, without_rounds};
use crate::history::{Header, History};
use crate::protocol::Retry;
use crate::sale;
use crate::sale::facts::Facts;
use crate::verdict::Verdict;

/// One round of a comparison.
#[derive(Debug, Clone)]
pub struct Round {
    /// The way of waiting.
    pub retry: Retry,
    /// When the round began.
    pub started_ns: u64,
    /// The facts of the round.
    pub facts: Facts,
    /// The cost.
    pub figures: Figures,
    /// The verdict on this round alone.
    pub verdict: Verdict,
}

/// A comparison with its rounds and its verdict.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The comparison that was run.
    pub comparison: Comparison,
    /// Its settings, as recorded.
    pub header: Header,
    /// The number of events.
    pub events: usize,
    /// The rounds, in the order in which they were run.
    pub rounds: Vec<Round>,
    /// The verdict on all rounds together.
    pub verdict: Verdict,
}

/// Judges a comparison. This is a pure function of its history. Returns `None` if the history belongs to another scenario.
pub fn judge(history: &History) -> Option<Judged> {
    let comparison = Comparison::of(history)?;
    let rounds: Vec<Round> = split(&history.events)
        .into_iter()
        .map(|(retry, events)| {
            let facts = Facts::of(events);
            let started_ns = events.first().map_or(0, |event| event.at_ns);
            Round {
                retry,
                started_ns,
                figures: Figures::of(&facts, started_ns),
                verdict: sale::verdict::judge(&history.header, &facts),
                facts,
            }
        })
        .collect();
    let verdict = combine(&comparison, &rounds);
    Some(Judged {
        comparison,
        header: history.header.clone(),
        events: history.events.len(),
        rounds,
        verdict,
    })
}

/// Returns the verdict on a comparison, even if the history is incomplete.
pub fn verdict(history: &History) -> Verdict {
    judge(history).map_or_else(without_rounds, |judged| judged.verdict)
}
