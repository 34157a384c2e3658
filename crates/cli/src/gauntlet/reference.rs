//! Runs the reference locks beside the lock on trial, in the scenarios that convicted it.

use std::time::Instant;

use fencepost_trial::gauntlet::{Gauntlet, Row};

use super::stems;
use crate::batch::{Batch, Finished};
use crate::screen::Screen;

/// Runs the reference locks that explain these rows, and repeats those that show nothing. Their files have names of their own:
/// `reference-pause.jsonl`.
pub(super) fn run(
    on_trial: &Batch<'_>,
    gauntlet: &Gauntlet,
    rows: &[Row<'_>],
    screen: &mut Screen,
    started: Instant,
) -> Finished {
    let cells = gauntlet.reference_cells(rows);
    let stems: Vec<String> = stems(&cells, gauntlet.runs)
        .into_iter()
        .map(|stem| format!("reference-{stem}"))
        .collect();
    let batch = Batch {
        cells: &cells,
        stems: &stems,
        contender: None,
        what: "trials of reference locks",
        ..*on_trial
    };
    batch.run(screen, started)
}
