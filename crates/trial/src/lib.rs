//! The lab: puts a lock on trial with real processes and returns a verdict with evidence.
//!
//! ```text
//! scenario ─ subjects (real processes) ─ history ─ checks ─ verdict ─ report
//! ```
//!
//! A *sale trial* ([`sale`]) lets many processes buy from one stock at once, and [`retry`] lets them wait for the lock in
//! several ways. Each process is a [`subject`] that speaks the
//! [`protocol`]: one JSON message per line. The lab owns the clock and stamps every event of the [`history`]; the
//! [`facts`] and [`check`]s are pure functions of that history, and the [`verdict`] rests on acknowledged orders and on the stock that the
//! lab reads itself, never on what a subject says about itself. The [`strategy`] list names what can be tried; the
//! deliberately broken ones live in [`exhibit`].

pub mod check;
pub mod exhibit;
pub mod expectation;
pub mod facts;
pub mod ground;
pub mod history;
pub mod holds;
pub mod latch;
pub mod matrix;
pub mod protocol;
pub mod report;
pub mod retry;
pub mod sale;
mod start;
pub mod stock;
pub mod stopped;
#[cfg(test)]
mod story;
pub mod strategy;
pub mod subject;
mod subjects;
#[cfg(test)]
mod tale;
pub mod verdict;
