//! A lock trial together with its facts and verdict: the input of every report about it.

use super::check::Checks;
use super::facts::Facts;
use super::storm::Plan;
use super::{Scenario, Trial, expectation, shortest, verdict};
use crate::history::{Event, Header, History, What};
use crate::protocol::Claims;
use crate::strategy;
use crate::verdict::{Belief, Outcome, Verdict};

/// A lock trial with its facts and its verdict.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The trial that was run.
    pub trial: Trial,
    /// Its settings, as recorded.
    pub header: Header,
    /// The events of the run.
    pub events: Vec<Event>,
    /// The facts derived from the events.
    pub facts: Facts,
    /// The verdict.
    pub verdict: Verdict,
    /// The shortest beginning of a storm that convicts the lock, if it was convicted.
    pub shortest: Option<Box<Shortest>>,
}

/// The shortest beginning of a history that convicts a lock.
#[derive(Debug, Clone)]
pub struct Shortest {
    /// The number of its events.
    pub events: usize,
    /// The verdict on it alone.
    pub verdict: Verdict,
}

impl Judged {
    /// Judges a run of this trial.
    pub fn of(trial: &Trial, history: History) -> Self {
        let facts = Facts::of(&history.events);
        let verdict = verdict::judge(&history.header, &facts);
        let is_storm = trial.scenario == Scenario::Storm;
        let shortest = is_storm.then(|| shortest::conviction(&history.header, &history.events));
        Self {
            trial: trial.clone(),
            header: history.header,
            events: history.events,
            facts,
            verdict,
            shortest: shortest
                .flatten()
                .map(|(events, verdict)| Box::new(Shortest { events, verdict })),
        }
    }

    /// Returns the faults that had begun, or were to begin soon, when the shortest beginning convicts the lock: the plan from which a search
    /// for smaller ones starts.
    pub fn convicting_plan(&self) -> Option<Plan> {
        let last = self.shortest.as_ref()?.events.checked_sub(1)?;
        let convicted_ms = self.events.get(last)?.at_ns / 1_000_000;
        Some(
            self.trial
                .plan()?
                .until(convicted_ms + 2 * self.trial.ttl_ms),
        )
    }

    /// Returns the history of the run.
    pub fn history(&self) -> History {
        self.first_events(self.events.len())
    }

    /// Returns the shortest beginning that convicts the lock, as a history of its own.
    pub fn beginning(&self) -> Option<History> {
        let shortest = self.shortest.as_ref()?;
        Some(self.first_events(shortest.events))
    }

    fn first_events(&self, count: usize) -> History {
        History {
            header: self.header.clone(),
            events: self.events[..count].to_vec(),
        }
    }

    /// Returns the checks of its facts.
    pub fn checks(&self) -> Checks<'_> {
        Checks::of(&self.header, &self.facts)
    }

    /// Returns the verdict that the committed table expects.
    pub fn expected(&self) -> Option<Outcome> {
        expectation::expected(&self.trial)
    }

    /// Returns whether the verdict is the expected one.
    pub fn as_expected(&self) -> bool {
        self.expected() == Some(self.verdict.outcome)
    }

    /// Returns the command that repeats this run.
    pub fn reproduce(&self) -> String {
        self.trial.reproduce()
    }

    /// Returns whether two processes believed that they held a lock at the same time, and no harm was done because the resource
    /// refused one of them.
    pub fn is_refused_overlap(&self) -> bool {
        let claims = strategy::claims_of(&self.header);
        is_refused_overlap(claims, &self.verdict, &self.events)
    }
}

/// Returns whether two processes believed that they held a lock at the same time, and no harm was done because the resource
/// refused one of them. The matrix marks such runs, on the terminal and on the page.
pub fn is_refused_overlap(claims: Claims, verdict: &Verdict, events: &[Event]) -> bool {
    let is_refusal = |event: &Event| matches!(event.what, What::Register { refused: true, .. });
    verdict.outcome == Outcome::Held
        && claims.fencing
        && verdict.belief.code == Belief::Overlap
        && events.iter().any(is_refusal)
}
