//! A comparison of ways of waiting on a page.

use super::{Page, PageRun, Retry, RetryRow, Turn};
use crate::facts::{Attempt, Facts};
use crate::history::{Event, Header, History};
use crate::report::numbers::{count, plural};
use crate::retry::{Judged, Round, figures, split};
use crate::sale;
use crate::verdict::{self, Verdict};

/// The rounds of a comparison, each as a sale of its own whose clock and numbers begin with it.
#[derive(Debug)]
pub struct Rounds<'a> {
    judged: &'a Judged,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    name: &'static str,
    about: String,
    header: Header,
    events: Vec<Event>,
    verdict: Verdict,
}

impl<'a> Rounds<'a> {
    /// Takes a comparison apart.
    pub fn of(judged: &'a Judged, history: &History) -> Self {
        let parts = split(&history.events).into_iter().map(|(retry, events)| {
            let events = rebased(events);
            let header = Header {
                scenario: sale::SCENARIO.into(),
                ..history.header.clone()
            };
            let verdict = verdict::judge(&header, &Facts::of(&events));
            Part {
                name: retry.pauses.short(),
                about: retry.pauses.name(),
                header,
                events,
                verdict,
            }
        });
        Self {
            judged,
            parts: parts.collect(),
        }
    }

    /// A page about the comparison and each of its rounds.
    pub fn page(&self) -> Page<'_> {
        let comparison = &self.judged.comparison;
        Page {
            title: format!(
                "retry: {}, stock {}",
                plural(comparison.concurrency, "process", "processes"),
                count(comparison.stock.into())
            ),
            command: comparison.reproduce(),
            generated: self.judged.header.recorded.clone(),
            seed: comparison.seed,
            runs: self.parts.iter().map(|part| self.run(part)).collect(),
            retry: Some(section(self.judged)),
        }
    }

    fn run<'b>(&'b self, part: &'b Part) -> PageRun<'b> {
        let comparison = &self.judged.comparison;
        PageRun {
            id: format!("{}.retry-{}", part.header.strategy, part.name),
            scenario: part.name.into(),
            about: part.about.clone(),
            command: comparison.reproduce(),
            expected: comparison.expected(),
            settings: vec![
                ("stock", count(comparison.stock.into())),
                ("processes", count(comparison.concurrency as i64)),
                ("delay", format!("{} µs", count(comparison.delay_us as i64))),
                ("waits", part.about.clone()),
                ("store", part.header.store.clone()),
            ],
            ..PageRun::new(&part.header, &part.verdict, &part.events)
        }
    }
}

fn rebased(events: &[Event]) -> Vec<Event> {
    let started_ns = events.first().map_or(0, |event| event.at_ns);
    let numbered = events.iter().zip(1..).map(|(event, n)| Event {
        n,
        at_ns: event.at_ns.saturating_sub(started_ns),
        ..event.clone()
    });
    numbered.collect()
}

/// The comparison itself.
pub(super) fn section(judged: &Judged) -> Retry {
    let comparison = &judged.comparison;
    Retry {
        caption: format!(
            "{} want one lock ({}), stock {}; TTL {} ms, at most {}.",
            plural(comparison.concurrency, "process", "processes"),
            comparison.strategy.name,
            count(comparison.stock.into()),
            count(comparison.ttl_ms as i64),
            plural(comparison.max_retries as usize, "retry", "retries"),
        ),
        conclusions: std::iter::once(&judged.verdict.because)
            .chain(&judged.verdict.found)
            .cloned()
            .collect(),
        rows: judged.rounds.iter().map(|r| row(judged, r)).collect(),
    }
}

fn row(judged: &Judged, round: &Round) -> RetryRow {
    let comparison = &judged.comparison;
    let Round { figures, facts, .. } = round;
    let turns = facts.attempts.iter();
    RetryRow {
        name: round.retry.pauses.short().into(),
        about: round.retry.pauses.name(),
        duration_ms: figures.duration_ns as f64 / 1e6,
        successes: figures.successes,
        of: comparison.concurrency.min(comparison.stock as usize),
        not_served: figures.gave_up,
        avg_retries: figures.average_retries,
        sigma_ms: figures.sigma_ns / 1e6,
        lock_ops: figures.lock_ops,
        idle: Some(figures.idle),
        turns: turns
            .map(|turn| self::turn(turn, round.started_ns))
            .collect(),
    }
}

fn turn(attempt: &Attempt, started_ns: u64) -> Turn {
    let since = |ns: u64| ns.saturating_sub(started_ns) as f64 / 1e6;
    let held = figures::hold(attempt);
    Turn {
        asked_ms: since(attempt.asked_ns),
        held_ms: held.map(|(from, to)| (since(from), since(to))),
        answered_ms: since(attempt.answered_ns),
    }
}
