//! Reports of runs for people and programs: terminal text, JSON, an HTML page and a trace.
//!
//! A report makes no decisions; it shows the [verdict](crate::verdict).

pub mod fault;
pub mod html;
pub mod json;
pub mod terminal;
mod trace;
