//! The comparison of ways of waiting as a page: a table of costs, and each round as a run.

use serde::Serialize;

use super::{Page, PageRun};
use crate::history::Event;
use crate::protocol::Pauses;
use crate::retry::facts::split;
use crate::retry::{Judged, Round};
use crate::sale::facts::Attempt;
use crate::text::numbers::{count, plural};
use crate::verdict::Outcome;

/// Several ways of waiting for one lock, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonTable {
    /// The settings, in a sentence.
    pub caption: String,
    /// What the figures of this run show, one sentence each.
    pub conclusions: Vec<String>,
    /// The ways.
    pub rows: Vec<ComparisonRow>,
}

/// One way of waiting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Its name.
    pub name: String,
    /// Its settings, in a few words.
    pub about: String,
    /// The verdict on it.
    pub outcome: Outcome,
    /// The verdict that the committed table expects.
    pub expected: Option<Outcome>,
    /// The time until every process had an answer.
    pub duration_ms: f64,
    /// The number of processes that bought something.
    pub successes: usize,
    /// The highest possible number of successes.
    pub of: usize,
    /// The number of processes that never had the lock.
    pub not_served: usize,
    /// Tries after the first, on average.
    pub avg_retries: f64,
    /// The standard deviation of the finishing times.
    pub sigma_ms: f64,
    /// Requests to acquire and release the lock.
    pub lock_ops: u64,
    /// The share of the time, 0 to 1, in which the lock was free although a process wanted it.
    pub idle: Option<f64>,
    /// The times of each process.
    pub turns: Vec<Turn>,
}

/// The times of one process, in milliseconds since the start of its round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    /// When it was asked.
    pub asked_ms: f64,
    /// When it had the lock, as far as it can tell: start and end.
    pub held_ms: Option<(f64, f64)>,
    /// When it had its answer.
    pub answered_ms: f64,
}

impl ComparisonTable {
    /// Converts the costs of a comparison for a page.
    pub(super) fn of(judged: &Judged) -> Self {
        let comparison = &judged.comparison;
        let caption = format!(
            "{} with {}, stock {}, at most {}.",
            plural(comparison.concurrency, "process", "processes"),
            comparison.strategy.name,
            count(comparison.stock.into()),
            plural(comparison.max_retries as usize, "retry", "retries"),
        );
        let of = comparison.concurrency.min(comparison.stock as usize);
        Self {
            caption,
            conclusions: judged.verdict.found.clone(),
            rows: judged
                .rounds
                .iter()
                .map(|round| row(round, of, judged.expected()))
                .collect(),
        }
    }
}

impl<'a> Page<'a> {
    /// Returns the page of a comparison.
    pub fn of_comparison(judged: &'a Judged) -> Self {
        let comparison = &judged.comparison;
        let run = |(round, (_, events))| run_of_round(judged, round, events);
        let rounds = judged.rounds.iter().zip(split(&judged.events));
        Self {
            title: "retry: what does each way of waiting cost?".into(),
            command: judged.reproduce(),
            generated: judged.header.recorded.clone(),
            seed: comparison.seed,
            verdict: Some(&judged.verdict),
            runs: rounds.map(run).collect(),
            retry: Some(ComparisonTable::of(judged)),
        }
    }
}

fn run_of_round<'a>(judged: &'a Judged, round: &'a Round, events: &'a [Event]) -> PageRun<'a> {
    let comparison = &judged.comparison;
    let Round { retry, verdict, .. } = round;
    let short = Pauses::short(retry.pauses);
    PageRun {
        id: format!("{}.{short}", judged.header.strategy),
        scenario: short.into(),
        about: retry.pauses.name(),
        command: judged.reproduce(),
        settings: vec![
            ("stock", count(comparison.stock.into())),
            ("processes", count(comparison.concurrency as i64)),
            ("retries, at most", count(comparison.max_retries.into())),
            ("store", judged.header.store.clone()),
        ],
        ..PageRun::new(&judged.header, verdict, events)
    }
}

fn row(round: &Round, of: usize, expected: Option<Outcome>) -> ComparisonRow {
    let figures = &round.figures;
    let name = round.retry.pauses.name();
    let (name, about) = match name.split_once(' ') {
        Some((first, rest)) if !rest.starts_with('+') && round.retry.pauses != Pauses::Line => {
            (first.to_owned(), rest.to_owned())
        }
        _ => (name, String::new()),
    };
    ComparisonRow {
        name,
        about,
        outcome: round.verdict.outcome,
        expected,
        duration_ms: ms(figures.duration_ns as f64),
        successes: figures.successes,
        of,
        not_served: figures.gave_up,
        avg_retries: figures.average_retries,
        sigma_ms: ms(figures.sigma_ns),
        lock_ops: figures.lock_ops,
        idle: Some(figures.idle),
        turns: turns(round),
    }
}

fn turns(round: &Round) -> Vec<Turn> {
    let since = |ns: u64| ms(ns.saturating_sub(round.started_ns) as f64);
    let turn = |attempt: &Attempt| {
        let answered_ms = since(attempt.answered_ns);
        let effort = attempt.purchase().and_then(|purchase| purchase.effort);
        let held = effort.and_then(|effort| effort.held_ms_ago);
        let held =
            held.map(|(from, to)| ((answered_ms - from).max(0.0), (answered_ms - to).max(0.0)));
        Turn {
            asked_ms: since(attempt.asked_ns),
            held_ms: held,
            answered_ms,
        }
    };
    round.facts.attempts.iter().map(turn).collect()
}

/// Converts nanoseconds to milliseconds with three decimals.
fn ms(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}
