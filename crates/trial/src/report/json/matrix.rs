//! The JSON report of `run-all`.

use serde_json::Value;

use super::{holds, retry, sale};
use crate::matrix::{Run, Summary};

/// Returns the report of one run as a JSON document.
pub fn report(run: &Run) -> Value {
    match run {
        Run::Sale(judged) => sale::report(judged),
        Run::Lock(judged) => holds::report(judged),
        Run::Retry(judged) => retry::report(judged),
    }
}

/// Returns the report of all runs as one JSON document, with one entry per verdict and the names of the trials that were run more than
/// once.
pub fn reports(runs: &[Run], repeated: &[String]) -> Value {
    let summaries = || runs.iter().flat_map(Run::summaries);
    serde_json::json!({
        "runs": runs.iter().flat_map(documents).collect::<Vec<_>>(),
        "repeated": repeated,
        "as_expected": summaries().filter(Summary::as_expected).count(),
        "total": summaries().count(),
    })
}

/// Returns one JSON document per verdict of a run.
fn documents(run: &Run) -> Vec<Value> {
    match run {
        Run::Retry(judged) => retry::reports(judged),
        _ => vec![report(run)],
    }
}
