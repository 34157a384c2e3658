//! Parsers for the values of flags, and the error for a value that is refused.

use std::fmt;

mod durations;
mod numbers;

pub(crate) use durations::duration;
pub(crate) use numbers::{
    CONCURRENCY, OutOfRange, STOCK, at_once, budget, concurrency, delay, jobs, port, random_seed,
    retries, runs, seed, stock, storm_names, storm_processes, ttl, wait, work,
};

/// A value that a flag does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    pub(crate) what: String,
    pub(crate) advice: String,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadValue {}

/// The name that is most similar to `text`, or `None` if no name is similar.
pub(crate) fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let like = names.iter().map(|name| (strsim::jaro(text, name), *name));
    like.filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
