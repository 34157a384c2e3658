//! The comparison of ways of waiting as a page: a table of costs, and each round as a run.

use serde::Serialize;

use super::{Page, PageRun};
use crate::history::{Event, Header};
use crate::protocol::Pauses;
use crate::retry::facts::split;
use crate::retry::{Judged, Round};
use crate::sale::facts::Attempt;
use crate::text::numbers::{count, plural};
use crate::verdict::{Outcome, Verdict};

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

/// A comparison, as it was recorded and judged.
#[derive(Clone, Copy)]
pub(super) struct Compared<'a> {
    pub(super) header: &'a Header,
    pub(super) events: &'a [Event],
    pub(super) rounds: &'a [Round],
    /// The verdict on all rounds together.
    pub(super) verdict: &'a Verdict,
    /// The verdict that the committed table expects of each round.
    pub(super) expected: Option<Outcome>,
}

impl<'a> Compared<'a> {
    pub(super) fn of(judged: &'a Judged) -> Self {
        Self {
            header: &judged.header,
            events: &judged.events,
            rounds: &judged.rounds,
            verdict: &judged.verdict,
            expected: judged.expected(),
        }
    }

    fn max_retries(self) -> u32 {
        self.rounds
            .first()
            .map_or(0, |round| round.retry.max_retries)
    }
}

impl ComparisonTable {
    /// Converts the costs of a comparison for a page.
    pub(super) fn of(compared: Compared<'_>) -> Self {
        let header = compared.header;
        let caption = format!(
            "{} with {}, stock {}, at most {}.",
            plural(header.concurrency, "process", "processes"),
            header.strategy,
            count(header.stock),
            plural(compared.max_retries() as usize, "retry", "retries"),
        );
        let stock = usize::try_from(header.stock).unwrap_or(0);
        let of = header.concurrency.min(stock);
        let rounds = compared.rounds.iter();
        Self {
            caption,
            conclusions: compared.verdict.found.clone(),
            rows: rounds
                .map(|round| row(round, of, compared.expected))
                .collect(),
        }
    }
}

impl<'a> Page<'a> {
    /// Returns the page of a comparison.
    pub fn of_comparison(judged: &'a Judged) -> Self {
        Self::of_compared(Compared::of(judged), judged.reproduce())
    }

    /// Returns the page of a comparison that this command repeats.
    pub(super) fn of_compared(compared: Compared<'a>, command: String) -> Self {
        let run = |(round, (_, events))| PageRun {
            command: command.clone(),
            ..run_of_round(compared, round, events)
        };
        let rounds = compared.rounds.iter().zip(split(compared.events));
        Self {
            title: "retry: what does each way of waiting cost?".into(),
            generated: compared.header.recorded.clone(),
            seed: compared.header.seed,
            verdict: Some(compared.verdict),
            runs: rounds.map(run).collect(),
            retry: Some(ComparisonTable::of(compared)),
            command,
        }
    }
}

fn run_of_round<'a>(compared: Compared<'a>, round: &'a Round, events: &'a [Event]) -> PageRun<'a> {
    let header = compared.header;
    let Round { retry, verdict, .. } = round;
    let short = Pauses::short(retry.pauses);
    PageRun {
        id: format!("{}.{short}", header.strategy),
        scenario: short.into(),
        about: retry.pauses.name(),
        settings: vec![
            ("stock", count(header.stock)),
            ("processes", count(header.concurrency as i64)),
            ("retries, at most", count(compared.max_retries().into())),
            ("store", header.store.clone()),
        ],
        ..PageRun::new(header, verdict, events)
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
