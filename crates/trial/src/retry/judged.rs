//! A comparison that was judged: what every report of it is made of.

use super::Comparison;
use super::facts::{Figures, split};
use super::verdict::{combine, without_rounds};
use crate::history::{Header, History};
use crate::protocol::Retry;
use crate::sale;
use crate::sale::facts::Facts;
use crate::verdict::Verdict;

/// One way of waiting and what came of it.
#[derive(Debug, Clone)]
pub struct Round {
    /// The way.
    pub retry: Retry,
    /// When it began.
    pub started_ns: u64,
    /// What happened.
    pub facts: Facts,
    /// What it cost.
    pub figures: Figures,
    /// What was decided about this round alone.
    pub verdict: Verdict,
}

/// A comparison that was judged: what its reports are made of.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What was compared.
    pub comparison: Comparison,
    /// What was set.
    pub header: Header,
    /// How many events it rests on.
    pub events: usize,
    /// Every way of waiting, in the order in which they were tried.
    pub rounds: Vec<Round>,
    /// What was decided about all of them.
    pub verdict: Verdict,
}

/// Judges a comparison: a pure function of its history. `None` if the history is of another scenario.
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

/// The verdict over a comparison, however little of it there is.
pub fn verdict(history: &History) -> Verdict {
    judge(history).map_or_else(without_rounds, |judged| judged.verdict)
}
