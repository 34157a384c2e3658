//! What happens in a trial, in a few words: the fault that it injects.

use crate::holds::{Scenario, Trial};
use crate::matrix::{Cell, Run};
use crate::sale::Sale;
use crate::text::numbers::count;

/// Describes what happens in this cell.
pub fn of_cell(cell: &Cell) -> String {
    match cell {
        Cell::Sale(sale) => of_sale(sale),
        Cell::Hold(trial) => of_trial(trial).into(),
        Cell::Retry(_) => "several ways of waiting".into(),
    }
}

/// Describes what happened in this run.
pub fn of_run(run: &Run) -> String {
    match run {
        Run::Sale(judged) => of_sale(&judged.sale),
        Run::Hold(judged) => of_trial(&judged.trial).into(),
        Run::Retry(_) => "several ways of waiting".into(),
    }
}

/// Describes what happens in a lock trial.
pub(crate) fn of_trial(trial: &Trial) -> &'static str {
    match trial.scenario {
        Scenario::Crash => "the holder is killed",
        Scenario::TtlEdge => "work beyond the lease",
        Scenario::Deadlock => "two locks, opposite order",
        Scenario::Sorted => "two locks, same order",
        Scenario::StaleRelease => "a late release",
        Scenario::ShortStock => "nothing left to sell",
        Scenario::Pause => "paused between read and write",
        Scenario::Failover if !trial.store.keeps_stock() => {
            "the leader dies, the others elect a new one"
        }
        Scenario::Failover => "a replica takes over without the lock",
        Scenario::RestartEmpty if !trial.store.keeps_stock() => {
            "one of three servers comes back empty"
        }
        Scenario::RestartEmpty => "the server comes back empty",
        Scenario::LostWakeup => "given back just before somebody waits",
        Scenario::Cut => "cut off from the store",
        Scenario::SlowReplies => "a grant learned late",
        Scenario::LostReply => "replies lost while acquiring",
        Scenario::Storm => "kills and pauses at random",
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
