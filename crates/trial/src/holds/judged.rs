//! A lock trial that was judged: what every report of it is made of.

use super::check::Findings;
use super::facts::Facts;
use super::{Trial, expectation, verdict};
use crate::history::{Event, Header, History, What};
use crate::protocol::Claims;
use crate::verdict::{Outcome, Verdict};

/// A lock trial that was judged.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What was tried.
    pub trial: Trial,
    /// What was set.
    pub header: Header,
    /// What happened.
    pub events: Vec<Event>,
    /// What that says.
    pub facts: Facts,
    /// What was decided.
    pub verdict: Verdict,
}

impl Judged {
    /// Judges a run of this trial.
    pub fn of(trial: &Trial, history: History) -> Self {
        let facts = Facts::of(&history.events);
        let verdict = verdict::judge(&history.header, &facts);
        Self {
            trial: trial.clone(),
            header: history.header,
            events: history.events,
            facts,
            verdict,
        }
    }

    /// What the checks found.
    pub fn findings(&self) -> Findings<'_> {
        Findings::of(&self.header, &self.facts)
    }

    /// What the committed table expects.
    pub fn expected(&self) -> Option<Outcome> {
        expectation::expected(&self.trial)
    }

    /// Whether the table expected this verdict.
    pub fn as_expected(&self) -> bool {
        self.expected() == Some(self.verdict.outcome)
    }

    /// Whether two believed to hold a lock at once, and it was harmless because the resource refused one of them.
    pub fn is_refused_overlap(&self) -> bool {
        is_refused_overlap(self.trial.strategy.claims, &self.verdict, &self.events)
    }
}

/// Whether two believed to hold a lock at once, and it was harmless because the resource refused one of them: what the matrix marks,
/// on the terminal and on the page.
pub fn is_refused_overlap(claims: Claims, verdict: &Verdict, events: &[Event]) -> bool {
    let is_refusal = |event: &Event| matches!(event.what, What::Register { refused: true, .. });
    verdict.outcome == Outcome::Held
        && claims.fencing
        && verdict.belief.code == "overlap"
        && events.iter().any(is_refusal)
}
