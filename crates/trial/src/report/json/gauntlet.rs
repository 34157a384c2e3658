//! The JSON report of `gauntlet`.

use serde_json::{Value, json};

use super::matrix;
use crate::gauntlet::{Gauntlet, Row, Untried};
use crate::report::fault;

/// Returns the report of a gauntlet as one JSON document: one entry per scenario with the report of its worst run.
pub fn report(gauntlet: &Gauntlet, rows: &[Row<'_>], untried: &[Untried]) -> Value {
    let verdict = gauntlet.verdict(rows, untried);
    let left_out = |one: &Untried| json!({ "scenario": one.scenario, "why": one.why });
    json!({
        "schema": "fencepost/gauntlet/1",
        "version": env!("CARGO_PKG_VERSION"),
        "lock": gauntlet.strategy.name,
        "claims": gauntlet.strategy.claims,
        "store": gauntlet.store.name(),
        "ttl_ms": gauntlet.lease_ms(),
        "seed": gauntlet.seed,
        "reproduce": gauntlet.command(),
        "outcome": verdict.outcome,
        "because": verdict.because,
        "exit_code": verdict.outcome.exit_code(),
        "scenarios": rows.iter().map(entry).collect::<Vec<_>>(),
        "not_tried": untried.iter().map(left_out).collect::<Vec<_>>(),
    })
}

fn entry(row: &Row<'_>) -> Value {
    json!({
        "scenario": row.worst.scenario(),
        "fault": fault::of_run(row.worst),
        "outcome": row.outcome(),
        "times": row.times,
        "runs": row.of,
        "judged_by": row.judged_by(),
        "reproduce": row.reproduce(),
        "worst": matrix::report(row.worst),
    })
}
