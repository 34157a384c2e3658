//! Terminal reports, one module per kind of trial.

pub mod check;
pub mod gauntlet;
pub mod grounds;
pub mod holds;
pub mod ladder;
pub mod matrix;
pub mod retry;
pub mod sale;
pub mod table;
