//! Deliberately broken ways of buying. Each file says what is wrong and where it is seen.

pub mod blind_delete;
pub mod decrement;
pub mod early_unlock;
pub mod get_then_delete;
pub mod late_expiry;
pub mod late_watch;
pub mod mutex;
pub mod naive;
pub mod none;
pub mod reentrant;

use crate::facts::Facts;
use crate::verdict::Outcome;

/// Where a flaw that a plain race does not meet can be met.
fn not_met(outcome: Outcome, scenario: &str) -> String {
    match outcome {
        Outcome::Held => format!("flaw not met: see {scenario}"),
        _ => String::new(),
    }
}

/// How many orders read the same number first.
fn same_reading(facts: &Facts) -> usize {
    let read: Vec<i64> = facts
        .orders()
        .filter_map(|order| order.purchase()?.before)
        .collect();
    let times = |units: &i64| read.iter().filter(|other| *other == units).count();
    read.iter().map(times).max().unwrap_or(0)
}
