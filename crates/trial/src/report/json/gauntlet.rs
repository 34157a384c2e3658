//! The JSON reports of `gauntlet` and of `gauntlet --ladder`.

use serde_json::{Value, json};

use super::matrix;
use crate::gauntlet::ladder::{Rung, command};
use crate::gauntlet::{Gauntlet, GauntletPlan, Label, Row, Untried};
use crate::matrix::Cell;
use crate::report::fault;

/// Returns the report of a gauntlet as one JSON document: one entry per scenario with the report of its worst run, and the names of the
/// trials that were run more than once.
pub fn report(
    gauntlet: &Gauntlet,
    rows: &[Row<'_>],
    untried: &[Untried],
    repeated: &[String],
) -> Value {
    let mut report = on_one_lock(gauntlet, rows, untried);
    report["repeated"] = json!(repeated);
    report
}

fn on_one_lock(gauntlet: &Gauntlet, rows: &[Row<'_>], untried: &[Untried]) -> Value {
    let verdict = gauntlet.verdict(rows, untried);
    json!({
        "schema": "fencepost/gauntlet/2",
        "version": env!("CARGO_PKG_VERSION"),
        "lock": gauntlet.strategy.name,
        "claims": gauntlet.strategy.claims,
        "kind": gauntlet.kind,
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

/// Returns what a gauntlet would try, and what not, as one JSON document.
pub fn report_of_list(gauntlet: &Gauntlet, plan: &GauntletPlan) -> Value {
    let tried = |cell: &Cell| json!({ "scenario": cell.scenario(), "fault": fault::of_cell(cell) });
    json!({
        "schema": "fencepost/scenarios/1",
        "version": env!("CARGO_PKG_VERSION"),
        "lock": gauntlet.strategy.name,
        "store": gauntlet.store.name(),
        "scenarios": plan.cells.iter().map(tried).collect::<Vec<_>>(),
        "not_tried": plan.untried.iter().map(left_out).collect::<Vec<_>>(),
    })
}

fn left_out(one: &Untried) -> Value {
    json!({ "scenario": one.scenario, "why": one.why })
}

/// Returns the report of a ladder as one JSON document: the report of each lock's gauntlet, the lock on trial last, and the names of the
/// trials that were run more than once.
pub fn report_of_ladder(rungs: &[Rung<'_>], repeated: &[String]) -> Value {
    let on_trial = rungs.last();
    let verdict = on_trial.map(|rung| rung.gauntlet.verdict(&rung.rows, rung.untried));
    let each = |rung: &Rung<'_>| on_one_lock(rung.gauntlet, &rung.rows, rung.untried);
    json!({
        "schema": "fencepost/ladder/2",
        "version": env!("CARGO_PKG_VERSION"),
        "lock": on_trial.map(|rung| rung.gauntlet.strategy.name),
        "reproduce": on_trial.map(|rung| command(rung.gauntlet)),
        "outcome": verdict.as_ref().map(|verdict| verdict.outcome),
        "exit_code": verdict.as_ref().map(|verdict| verdict.outcome.exit_code()),
        "rungs": rungs.iter().map(each).collect::<Vec<_>>(),
        "repeated": repeated,
    })
}

fn label(label: &Label) -> Value {
    json!({
        "name": label.name,
        "because": label.because,
        "reference": label.reference,
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
        "label": row.label.map(label),
        "reproduce": row.reproduce(),
        "worst": matrix::report(row.worst),
    })
}
