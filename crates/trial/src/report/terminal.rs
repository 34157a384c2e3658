//! Terminal reports, one module per kind of trial.

pub mod check;
pub mod envelope;
pub mod gauntlet;
pub mod holds;
pub mod ladder;
pub mod matrix;
pub mod retry;
pub mod sale;
pub mod sales;
pub mod verdict;
