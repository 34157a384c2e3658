//! JSON reports, one module per kind of trial.

pub mod check;
mod decision;
pub mod gauntlet;
pub mod holds;
pub mod ladder;
pub mod matrix;
pub mod retry;
pub mod sale;

/// Converts nanoseconds to milliseconds with three decimals.
fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}
