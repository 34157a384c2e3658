//! What `run-all` ran, as JSON.

use serde_json::Value;

use super::{holds, retry, sale};
use crate::matrix::{Run, Summary};

/// The report of a run as one JSON document.
pub fn report(run: &Run) -> Value {
    match run {
        Run::Race(judged) => sale::report(judged),
        Run::Hold(judged) => holds::report(judged),
        Run::Retry(judged, _) => retry::report(judged),
    }
}

/// Everything as one JSON document: an entry for each verdict.
pub fn reports<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> Value {
    let summaries = || runs.clone().flat_map(Run::summaries);
    serde_json::json!({
        "runs": runs.clone().flat_map(documents).collect::<Vec<_>>(),
        "as_expected": summaries().filter(Summary::as_expected).count(),
        "total": summaries().count(),
    })
}

/// A JSON document for each verdict of a run.
fn documents(run: &Run) -> Vec<Value> {
    match run {
        Run::Retry(judged, _) => retry::reports(judged),
        _ => vec![report(run)],
    }
}
