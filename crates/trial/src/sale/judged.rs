//! A sale that was judged: what every report of it is made of.

use super::facts::Facts;
use super::{Sale, expectation, verdict};
use crate::history::{Event, Header, History};
use crate::verdict::{Outcome, Verdict};

/// A run that was judged: what every report is made of.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What was tried.
    pub sale: Sale,
    /// What was set.
    pub header: Header,
    /// What was recorded.
    pub events: Vec<Event>,
    /// What happened.
    pub facts: Facts,
    /// What was decided.
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

    /// What the committed table expects of this strategy.
    pub fn expected(&self) -> Option<Outcome> {
        expectation::expected(&self.sale)
    }

    /// Whether the table expected this verdict.
    pub fn as_expected(&self) -> bool {
        self.expected() == Some(self.verdict.outcome)
    }

    /// From the start of the race to the lab's last reading.
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

    /// The command that runs this again.
    pub fn reproduce(&self) -> String {
        self.sale.reproduce()
    }
}
