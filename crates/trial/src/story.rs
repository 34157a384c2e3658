//! The story of a run: what happened, in words. The one narrator of the lab.
//!
//! `phrases` says what an event is called; terminal, page and trace take their words from there. `lanes` sets the phrases
//! under each other, one column for each process; `beats` picks the few that tell most. A story judges nothing: it is told
//! from the history, and quotes the evidence of the verdict.

mod beats;
mod lanes;
mod phrases;
mod words;

pub use beats::{Beat, Mark, beats};
pub use lanes::{Entry, SETTLED_NS, lanes};
pub use phrases::label;
pub use words::words;
