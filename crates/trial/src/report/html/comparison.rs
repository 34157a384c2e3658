//! The comparison of ways of waiting as a page: a table of costs, and each round as a run.

use super::{Page, PageRun, Retry, RetryRow, Turn};
use crate::history::{Event, History};
use crate::protocol::Pauses;
use crate::retry::facts::split;
use crate::retry::{Judged, Round};
use crate::sale::facts::Attempt;
use crate::text::numbers::{count, plural};
use crate::verdict::Outcome;

/// Converts the costs of a comparison for a page.
pub fn retry_of(judged: &Judged) -> Retry {
    let comparison = &judged.comparison;
    let caption = format!(
        "{} with {}, stock {}, at most {}.",
        plural(comparison.concurrency, "process", "processes"),
        comparison.strategy.name,
        count(comparison.stock.into()),
        plural(comparison.max_retries as usize, "retry", "retries"),
    );
    let of = comparison.concurrency.min(comparison.stock as usize);
    Retry {
        caption,
        conclusions: judged.verdict.found.clone(),
        rows: judged
            .rounds
            .iter()
            .map(|round| row(round, of, comparison.expected()))
            .collect(),
    }
}

/// Returns the page of a comparison. `history` is its record.
pub fn page_of_comparison<'a>(judged: &'a Judged, history: &'a History) -> Page<'a> {
    let comparison = &judged.comparison;
    let run = |(round, events): (&'a Round, &'a [Event])| {
        let Round { retry, verdict, .. } = round;
        let short = Pauses::short(retry.pauses);
        PageRun {
            id: format!("{}.{short}", judged.header.strategy),
            scenario: short.into(),
            about: retry.pauses.name(),
            command: comparison.reproduce(),
            settings: vec![
                ("stock", count(comparison.stock.into())),
                ("processes", count(comparison.concurrency as i64)),
                ("retries, at most", count(comparison.max_retries.into())),
                ("store", judged.header.store.clone()),
            ],
            ..PageRun::new(&judged.header, verdict, events)
        }
    };
    let recorded = split(&history.events);
    let recorded = recorded.into_iter().map(|(_, events)| events);
    let rounds = judged.rounds.iter().zip(recorded);
    Page {
        title: "retry: what does each way of waiting cost?".into(),
        command: comparison.reproduce(),
        generated: judged.header.recorded.clone(),
        seed: comparison.seed,
        verdict: Some(&judged.verdict),
        runs: rounds.map(run).collect(),
        retry: Some(retry_of(judged)),
    }
}

fn row(round: &Round, of: usize, expected: Option<Outcome>) -> RetryRow {
    let figures = &round.figures;
    let name = round.retry.pauses.name();
    let (name, about) = match name.split_once(' ') {
        Some((first, rest)) if !rest.starts_with('+') && round.retry.pauses != Pauses::Line => {
            (first.to_owned(), rest.to_owned())
        }
        _ => (name, String::new()),
    };
    RetryRow {
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
