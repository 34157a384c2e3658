//! The JSON report of `check`: a saved history and its new verdict.

use serde_json::{Value, json};

use super::VerdictEntry;
use crate::saved::Rejudged;

/// Returns what was recorded and what the current checks say, as one JSON document.
pub fn report(rejudged: &Rejudged, file: &str) -> Value {
    let saved = &rejudged.saved;
    let header = &saved.history.header;
    json!({
        "scenario": header.scenario,
        "strategy": header.strategy,
        "timestamp": header.recorded,
        "schema": "fencepost/check/2",
        "version": header.version,
        "store": header.store,
        "seed": header.seed,
        "file": file,
        "events": saved.history.events.len(),
        "complete": saved.seal.is_some(),
        "cut_line": saved.cut_line,
        "recorded": saved.seal.as_ref().map(|seal| seal.verdict),
        "stands": rejudged.stands(),
        "verdict": VerdictEntry::of(&rejudged.verdict, None, rejudged.reproduce()),
    })
}
