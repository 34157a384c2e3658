//! The lab: puts a lock on trial with real processes and returns a verdict with evidence.
//!
//! ```text
//! run ─ history ─ facts ─ check ─ verdict ─ story ─ report
//! ```
//!
//! There are two kinds of trial, of one shape. A *sale* ([`sale`]) lets many processes buy from one stock at once. A *lock
//! trial* ([`holds`]) lets a few processes, two to eight, take locks while the lab kills and pauses them, or makes the store
//! fail. A comparison ([`retry`]) is a sale in rounds, each with another way of waiting for the lock. A *gauntlet*
//! ([`gauntlet`]) puts one lock through the sale and all lock trials that apply to it.
//!
//! Each process is a [`subject`] that speaks the [`protocol`]: one JSON message per line. The lab owns the clock and stamps
//! every event of the [`history`]. Facts, checks and verdicts are pure functions of that history. A verdict rests on what the lab
//! reads itself. Of a subject's words, those that end its own hold (`valid_ms`, `lost`, `declined`) are believed; its fences, its
//! `released`, `already_lost`, `lost` and `declined`, and its `waited_ms` can convict it. The [`strategy`] list names what can be
//! tried; the deliberately broken ones are in [`strategy::exhibit`].

pub mod any_scenario;
pub mod gauntlet;
pub mod history;
pub mod holds;
pub mod matrix;
pub mod processes;
pub mod protocol;
pub mod report;
pub mod retry;
pub mod sale;
pub mod saved;
pub mod store;
mod story;
pub mod strategy;
pub mod subject;
pub mod text;
pub mod verdict;
