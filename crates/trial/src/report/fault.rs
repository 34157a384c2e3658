//! What happens in a trial of any kind, in a few words.

use crate::matrix::{Cell, Run};
use crate::sale::Sale;
use crate::story::scenarios;
use crate::text::numbers::count;

/// Describes what happens in this cell.
pub fn of_cell(cell: &Cell) -> String {
    match cell {
        Cell::Sale(sale) => of_sale(sale),
        Cell::Hold(trial) => scenarios::fault(trial).into(),
        Cell::Retry(_) => "several ways of waiting".into(),
    }
}

/// Describes what happened in this run.
pub fn of_run(run: &Run) -> String {
    match run {
        Run::Sale(judged) => of_sale(&judged.sale),
        Run::Hold(judged) => scenarios::fault(&judged.trial).into(),
        Run::Retry(_) => "several ways of waiting".into(),
    }
}

/// Describes a sale.
pub(crate) fn of_sale(sale: &Sale) -> String {
    let buyers = count(sale.concurrency as i64);
    if sale.wait_ms > 0 {
        format!("{buyers} buyers wait their turn")
    } else {
        format!("{buyers} buyers at once")
    }
}
