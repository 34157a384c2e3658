//! Ways of waiting, compared on a page.

use serde::Serialize;

use crate::verdict::Outcome;

/// Several ways of waiting for one lock, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    /// What was set, in a sentence.
    pub caption: String,
    /// What this run's figures show, a sentence each.
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
    /// What was decided about it.
    pub outcome: Outcome,
    /// What the committed table expects.
    pub expected: Option<Outcome>,
    /// Until everybody had an answer.
    pub duration_ms: f64,
    /// Who got something.
    pub successes: usize,
    /// The most that could.
    pub of: usize,
    /// Who never had the lock.
    pub not_served: usize,
    /// Tries after the first, on average.
    pub avg_retries: f64,
    /// The spread of the finishing times.
    pub sigma_ms: f64,
    /// Requests to take the lock and to give it back.
    pub lock_ops: u64,
    /// The share of time in which the lock lay free although somebody wanted it, 0 to 1.
    pub idle: Option<f64>,
    /// What each process went through.
    pub turns: Vec<Turn>,
}

/// One process: asked, had the lock for a while, answered. In milliseconds since the start of its round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    /// When it was asked.
    pub asked_ms: f64,
    /// When it had the lock, as far as it can tell: from and to.
    pub held_ms: Option<(f64, f64)>,
    /// When it had its answer.
    pub answered_ms: f64,
}
