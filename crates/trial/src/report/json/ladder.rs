//! The JSON report of `gauntlet --ladder`.

use serde_json::{Value, json};

use super::gauntlet;
use crate::gauntlet::ladder::{Rung, command};

/// Returns the report of a ladder as one JSON document: the report of each lock's gauntlet, the lock on trial last.
pub fn report(rungs: &[Rung<'_>]) -> Value {
    let on_trial = rungs.last();
    let verdict = on_trial.map(|rung| rung.gauntlet.verdict(&rung.rows, rung.untried));
    let each = |rung: &Rung<'_>| gauntlet::report(rung.gauntlet, &rung.rows, rung.untried);
    json!({
        "schema": "fencepost/ladder/1",
        "version": env!("CARGO_PKG_VERSION"),
        "lock": on_trial.map(|rung| rung.gauntlet.strategy.name),
        "reproduce": on_trial.map(|rung| command(rung.gauntlet)),
        "outcome": verdict.as_ref().map(|verdict| verdict.outcome),
        "exit_code": verdict.as_ref().map(|verdict| verdict.outcome.exit_code()),
        "rungs": rungs.iter().map(each).collect::<Vec<_>>(),
    })
}
