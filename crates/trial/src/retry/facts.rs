//! The cost of a way of waiting, computed from the facts of its round. Pure functions without a clock or a store.

use crate::history::{Event, What};
use crate::protocol::{Effort, PurchaseOutcome, Retry};
use crate::sale::facts::{Attempt, Facts};

/// The figures of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The time from the start of the round until every process had an answer.
    pub duration_ns: u64,
    /// Acknowledged orders.
    pub successes: usize,
    /// The average number of tries after the first.
    pub average_retries: f64,
    /// The standard deviation of the finishing times. A lower value means that all processes waited about equally long.
    pub sigma_ns: f64,
    /// Requests to acquire or release the lock.
    pub lock_ops: u64,
    /// The share of the duration, 0 to 1, in which the lock was free although a process wanted it. This is an estimate: the
    /// processes report when they held the lock relative to their answers, which is not exact.
    pub idle: f64,
    /// The number of processes that gave up without having had the lock.
    pub gave_up: usize,
}

impl Figures {
    /// Computes the figures of a round that began at `started_ns`.
    pub fn of(facts: &Facts, started_ns: u64) -> Self {
        let attempts = &facts.attempts;
        let finished: Vec<f64> = attempts
            .iter()
            .map(|attempt| attempt.answered_ns.saturating_sub(started_ns) as f64)
            .collect();
        let last_ns = attempts.iter().map(|attempt| attempt.answered_ns).max();
        let duration_ns = last_ns.unwrap_or(started_ns).saturating_sub(started_ns);
        let efforts = || attempts.iter().filter_map(effort);
        let retries: u64 = efforts().map(|effort| u64::from(effort.retries)).sum();
        let free_ns = free_though_wanted_ns(attempts);
        Self {
            duration_ns,
            successes: facts.orders().count(),
            average_retries: ratio(retries, efforts().count() as u64),
            sigma_ns: standard_deviation(&finished),
            lock_ops: efforts().map(|effort| u64::from(effort.lock_ops)).sum(),
            idle: ratio(free_ns, duration_ns),
            gave_up: facts.count(PurchaseOutcome::Busy),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

fn effort(attempt: &Attempt) -> Option<Effort> {
    attempt.purchase()?.effort
}

/// Returns the standard deviation of a population, not of a sample: the values cover all processes.
fn standard_deviation(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    (variance / count).sqrt()
}

/// Returns for how long at least one process wanted the lock while none held it.
///
/// A process wants the lock from the moment it is asked until it holds the lock or, if it never does, until it answers.
fn free_though_wanted_ns(attempts: &[Attempt]) -> u64 {
    let held: Vec<(u64, u64)> = attempts.iter().filter_map(hold).collect();
    let wanted = attempts.iter().map(|attempt| {
        let until = hold(attempt).map_or(attempt.answered_ns, |(from, _)| from);
        (attempt.asked_ns, until)
    });
    let wanted: Vec<(u64, u64)> = wanted.collect();
    // Nothing changes between two consecutive moments.
    let mut moments: Vec<u64> = held
        .iter()
        .chain(&wanted)
        .flat_map(|s| [s.0, s.1])
        .collect();
    moments.sort_unstable();
    moments.dedup();
    let covered = |spans: &[(u64, u64)], from: u64| spans.iter().any(|s| s.0 <= from && from < s.1);
    moments
        .windows(2)
        .filter(|pair| covered(&wanted, pair[0]) && !covered(&held, pair[0]))
        .map(|pair| pair[1] - pair[0])
        .sum()
}

/// Returns the hold of an attempt on the lab's clock. The process reports times relative to its answer, so the result can be
/// late by the travel time of the answer. It never lies outside the time between request and answer.
pub(crate) fn hold(attempt: &Attempt) -> Option<(u64, u64)> {
    let (from_ms, to_ms) = effort(attempt)?.held_ms_ago?;
    let at = |ms_ago: f64| {
        let ago_ns = (ms_ago.max(0.0) * 1e6) as u64;
        attempt
            .answered_ns
            .saturating_sub(ago_ns)
            .max(attempt.asked_ns)
    };
    let (from, to) = (at(from_ms), at(to_ms));
    (from < to).then_some((from, to))
}

/// Returns the events of each round, without the one that begins it.
pub(crate) fn split(events: &[Event]) -> Vec<(Retry, &[Event])> {
    let begins = |event: &Event| match event.what {
        What::Round { retry } => Some(retry),
        _ => None,
    };
    let mut rounds = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(retry) = begins(event) {
            let rest = &events[index + 1..];
            let length = rest.iter().position(|event| begins(event).is_some());
            rounds.push((retry, &rest[..length.unwrap_or(rest.len())]));
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Purchase;
    use crate::sale::facts::Answer;

    const MS: u64 = 1_000_000;

    /// Creates an attempt that is asked and answered at these times in milliseconds, with its hold in milliseconds before the
    /// answer.
    fn attempt(asked: u64, answered: u64, retries: u32, held: Option<(f64, f64)>) -> Attempt {
        let outcome = if held.is_some() {
            PurchaseOutcome::Sold
        } else {
            PurchaseOutcome::Busy
        };
        Attempt {
            who: "proc_0".into(),
            quantity: 1,
            asked_ns: asked * MS,
            answered_ns: answered * MS,
            event: 1,
            answer: Answer::Said(Purchase {
                outcome,
                before: None,
                after: None,
                contended: retries > 0,
                waited_ms: 0.0,
                fence: None,
                effort: Some(Effort {
                    retries,
                    lock_ops: retries + 1 + u32::from(held.is_some()),
                    held_ms_ago: held,
                }),
            }),
        }
    }

    fn figures(attempts: Vec<Attempt>, started_ms: u64) -> Figures {
        let mut facts = Facts::default();
        facts.attempts = attempts;
        Figures::of(&facts, started_ms * MS)
    }

    #[test]
    fn figures_are_counted_by_hand() {
        let attempts = vec![
            attempt(1_000, 1_010, 0, Some((10.0, 0.0))),
            attempt(1_000, 1_110, 1, Some((10.0, 0.0))),
            attempt(1_000, 1_090, 3, None),
        ];
        let figures = figures(attempts, 1_000);
        assert_eq!(figures.duration_ns, 110 * MS);
        assert_eq!((figures.successes, figures.gave_up), (2, 1));
        assert_eq!(figures.average_retries, 4.0 / 3.0);
        assert_eq!(figures.lock_ops, 2 + 3 + 4);
        // 10, 110 and 90 ms: mean 70, deviations −60, 40, 20.
        let sigma = (5_600.0_f64 / 3.0).sqrt();
        assert!((figures.sigma_ns / MS as f64 - sigma).abs() < 1e-9);
        // Held from 0 to 10 and from 100 to 110, and wanted all the time until 100.
        assert!(
            (figures.idle - 90.0 / 110.0).abs() < 1e-9,
            "{}",
            figures.idle
        );
    }

    #[test]
    fn a_lock_that_nobody_wants_is_not_idle() {
        // The second is asked 50 ms after the first was done.
        let attempts = vec![
            attempt(0, 10, 0, Some((10.0, 0.0))),
            attempt(60, 70, 0, Some((10.0, 0.0))),
        ];
        assert_eq!(figures(attempts, 0).idle, 0.0);
    }

    #[test]
    fn holds_that_follow_each_other_leave_no_gap() {
        let attempts = vec![
            attempt(0, 10, 0, Some((10.0, 0.0))),
            attempt(0, 20, 0, Some((10.0, 0.0))),
            attempt(0, 30, 0, Some((12.0, 0.0))),
        ];
        assert_eq!(figures(attempts, 0).idle, 0.0);
    }

    #[test]
    fn a_hold_is_never_believed_beyond_question_and_answer() {
        let hold_of = |held| hold(&attempt(100, 110, 0, Some(held)));
        assert_eq!(hold_of((500.0, 0.0)), Some((100 * MS, 110 * MS)));
        assert_eq!(hold_of((4.0, -9.0)), Some((106 * MS, 110 * MS)));
        assert_eq!(hold_of((0.0, 4.0)), None, "from after to");
    }

    #[test]
    fn nothing_divides_by_zero() {
        let figures = figures(Vec::new(), 0);
        assert_eq!(
            (figures.average_retries, figures.idle, figures.sigma_ns),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(figures.duration_ns, 0);
    }
}
