//! A comparison together with its rounds and verdict: the input of every report about it.

use super::facts::{Figures, split};
use super::{Comparison, verdict};
use crate::history::{Event, Header, History};
use crate::protocol::{Pauses, PurchaseOutcome, Retry};
use crate::sale;
use crate::sale::facts::Facts;
use crate::verdict::{Next, Outcome, Verdict};

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
    /// The events of the run.
    pub events: Vec<Event>,
    /// The rounds, in the order in which they were run.
    pub rounds: Vec<Round>,
    /// The verdict on all rounds together.
    pub verdict: Verdict,
}

impl Round {
    /// Returns the rounds of a history with these settings and events, each with its verdict.
    pub fn all_in(header: &Header, events: &[Event]) -> Vec<Self> {
        let round = |(retry, events): (Retry, &[Event])| {
            let facts = Facts::of(events);
            let started_ns = events.first().map_or(0, |event| event.at_ns);
            Self {
                retry,
                started_ns,
                figures: Figures::of(&facts, started_ns),
                verdict: sale::verdict::judge(header, &facts),
                facts,
            }
        };
        split(events).into_iter().map(round).collect()
    }

    /// Returns how many processes gave up because they had no retry left.
    pub(super) fn out_of_retries(&self) -> usize {
        if self.retry.pauses == Pauses::Line {
            return 0;
        }
        let spent = self.facts.attempts.iter().filter(|attempt| {
            let purchase = attempt.purchase();
            let effort = purchase.and_then(|purchase| purchase.effort);
            let busy = attempt.outcome() == Some(PurchaseOutcome::Busy);
            busy && effort.is_some_and(|effort| effort.retries >= self.retry.max_retries)
        });
        spent.count()
    }

    /// Returns how many processes gave up because their time was over.
    pub(super) fn out_of_time(&self) -> usize {
        self.figures.gave_up - self.out_of_retries()
    }
}

impl Judged {
    /// Judges a run of this comparison.
    pub fn of(comparison: &Comparison, history: History) -> Self {
        let rounds = Round::all_in(&history.header, &history.events);
        let mut verdict = verdict::judge(&history.header, &rounds);
        verdict.next = with_more_patience(comparison, &rounds)
            .into_iter()
            .collect();
        Self {
            comparison: comparison.clone(),
            header: history.header,
            events: history.events,
            rounds,
            verdict,
        }
    }

    /// Returns the verdict that the committed table expects of each round.
    pub fn expected(&self) -> Option<Outcome> {
        self.comparison.expected()
    }

    /// Returns the command that repeats this run.
    pub fn reproduce(&self) -> String {
        self.comparison.reproduce()
    }
}

/// Suggests the same comparison with enough time for everybody, if somebody's time was over before it had the lock.
fn with_more_patience(comparison: &Comparison, rounds: &[Round]) -> Option<Next> {
    let is_cut_short = rounds.iter().any(|round| round.out_of_time() > 0);
    let patient = Comparison {
        budget_ms: Comparison::PATIENT_MS,
        ..comparison.clone()
    };
    (is_cut_short && comparison.budget_ms < patient.budget_ms).then(|| Next {
        command: patient.reproduce(),
        remark: "shows how long the slowest way takes",
    })
}
