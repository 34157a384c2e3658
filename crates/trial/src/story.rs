//! The story of a run in words, shared by the terminal, the HTML page and the trace.
//!
//! `phrases` defines the wording of each event. `lanes` arranges the phrases in one column per process, and `beats`
//! selects the most important ones. `scenarios` has the words for what each scenario is about. A story judges nothing: it
//! is derived from the history and quotes the evidence of the verdict.

mod beats;
mod lanes;
mod phrases;
pub(crate) mod scenarios;
#[cfg(test)]
mod words;

pub(crate) use beats::{Beat, beats};
pub(crate) use lanes::{Entry, SETTLED_NS, lanes};
pub(crate) use phrases::label;
