//! The data that a page shows about a comparison of ways of waiting.

use serde::Serialize;

use crate::verdict::Outcome;

/// Several ways of waiting for one lock, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    /// The settings, in a sentence.
    pub caption: String,
    /// What the figures of this run show, one sentence each.
    pub conclusions: Vec<String>,
    /// The ways.
    pub rows: Vec<RetryRow>,
}

/// One way of waiting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetryRow {
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
