//! What happens in a trial of any kind, in a few words.

use crate::matrix::{Cell, Run};
use crate::story::scenarios;
use crate::text::numbers::count;

/// Describes what happens in this cell.
pub fn of_cell(cell: &Cell) -> String {
    match cell {
        Cell::Sale(sale) => of_sale(sale.concurrency, sale.wait_ms),
        Cell::Lock(trial) => scenarios::fault(trial.scenario, &trial.store).into(),
        Cell::Retry(_) => "several ways of waiting".into(),
    }
}

/// Describes what happened in this run.
pub fn of_run(run: &Run) -> String {
    match run {
        Run::Sale(judged) => of_sale(judged.sale.concurrency, judged.sale.wait_ms),
        Run::Lock(judged) => scenarios::fault(judged.trial.scenario, &judged.trial.store).into(),
        Run::Retry(_) => "several ways of waiting".into(),
    }
}

/// Describes a sale to so many processes, each of which waits for the lock for so long.
pub(crate) fn of_sale(processes: usize, wait_ms: u64) -> String {
    let buyers = count(processes as i64);
    if wait_ms > 0 {
        format!("{buyers} buyers wait their turn")
    } else {
        format!("{buyers} buyers at once")
    }
}
