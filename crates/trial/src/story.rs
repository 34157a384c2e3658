//! The story of a run in words, shared by the terminal, the HTML page and the trace.
//!
//! `phrases` defines the wording of each event. `lanes` arranges the phrases in one column per process, and `beats`
//! selects the most important ones. A story judges nothing: it is derived from the history and quotes the evidence of the
//! verdict.

mod beats;
mod lanes;
mod phrases;
mod words;

pub use beats::{Beat, Mark, beats};
pub use lanes::{Entry, SETTLED_NS, lanes};
pub use phrases::label;
pub use words::words;
