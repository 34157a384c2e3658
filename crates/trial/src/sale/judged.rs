//! A sale together with its facts and verdict: the input of every report about it.

use super::facts::Facts;
use super::{Sale, expectation, verdict};
use crate::history::{Event, Header, History};
use crate::verdict::{Outcome, Verdict};

/// A sale with its facts and its verdict.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The sale that was run.
    pub sale: Sale,
    /// Its settings, as recorded.
    pub header: Header,
    /// The events of the run.
    pub events: Vec<Event>,
    /// The facts derived from the events.
    pub facts: Facts,
    /// The verdict.
    pub verdict: Verdict,
}

impl Judged {
    /// Judges a run of this sale.
    pub fn of(sale: &Sale, history: History) -> Self {
        let facts = Facts::of(&history.events);
        let verdict = verdict::judge(&history.header, &facts);
        Self {
            sale: sale.clone(),
            header: history.header,
            events: history.events,
            facts,
            verdict,
        }
    }

    /// Returns the verdict that the committed table expects of this strategy.
    pub fn expected(&self) -> Option<Outcome> {
        expectation::expected(&self.sale)
    }

    /// Returns whether the verdict is the expected one.
    pub fn as_expected(&self) -> bool {
        self.expected() == Some(self.verdict.outcome)
    }

    /// Returns whether it is INCONCLUSIVE although another verdict is expected. Another run may show that.
    pub fn showed_nothing(&self) -> bool {
        self.verdict.outcome == Outcome::Inconclusive && !self.as_expected()
    }

    /// Returns the time from the start of the sale to the lab's last reading.
    pub fn duration_ns(&self) -> u64 {
        let last = self
            .facts
            .attempts
            .last()
            .map_or(0, |attempt| attempt.answered_ns);
        self.facts
            .final_reading
            .map_or(last, |reading| reading.at_ns)
    }

    /// Returns the command that repeats this run.
    pub fn reproduce(&self) -> String {
        self.sale.reproduce()
    }
}
