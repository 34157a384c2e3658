//! What people and programs get to see: terminal text, JSON, a page and a trace.
//!
//! A report decides nothing: it shows what was [judged](crate::verdict).

pub mod html;
pub mod json;
pub mod terminal;
pub mod trace;
