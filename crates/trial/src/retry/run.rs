//! Runs a comparison: one sale per way of waiting, recorded in a single history.

use std::fs::File;
use std::process::Command;

use fencepost_rig::Interrupt;

use super::Comparison;
use crate::history::{History, Recorder};
use crate::processes::NoVerdict;
use crate::protocol::Pauses;
use crate::sale;
use crate::sale::facts::Attempt;

/// Observes a run while it happens. By default, every method does nothing.
pub trait RetryWatch {
    /// Called when a round begins.
    fn round(&mut self, pauses: Pauses) {
        let _ = pauses;
    }

    /// Called when `answered` of `of` attempts of the round are answered.
    fn answered(&mut self, answered: usize, of: usize) {
        let _ = (answered, of);
    }
}

/// Observes nothing.
impl RetryWatch for () {}

/// Runs a comparison, one round after the other, and records it in a single history.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call this function from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no
/// process and no temporary file is left when it returns.
///
/// # Errors
/// Returns a [`NoVerdict`] that says why there is nothing to judge.
pub fn run(
    comparison: &Comparison,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    watch: &mut dyn RetryWatch,
    interrupt: Interrupt,
) -> Result<History, NoVerdict> {
    let recorder = Recorder::start(comparison.header(), file);
    let mut recorder = recorder.map_err(|error| NoVerdict::History {
        error,
        progress: "no round had begun".into(),
        events: 0,
    })?;
    for pauses in comparison.ways() {
        watch.round(pauses);
        let mut counter = Counter {
            watch,
            answered: 0,
            of: comparison.concurrency,
        };
        let sale = comparison.sale(pauses);
        sale::record(&sale, &mut recorder, subject, &mut counter, interrupt)
            .map_err(|no_verdict| in_round(no_verdict, pauses, recorder.len()))?;
    }
    Ok(recorder.finish())
}

struct Counter<'a> {
    watch: &'a mut dyn RetryWatch,
    answered: usize,
    of: usize,
}

impl sale::SaleWatch for Counter<'_> {
    fn starting(&mut self, _: usize, _: usize) {
        self.watch.answered(0, self.of);
    }

    fn answered(&mut self, _: &Attempt, _: i64) {
        self.answered += 1;
        self.watch.answered(self.answered, self.of);
    }

    fn waiting(&mut self, answered: usize, of: usize) {
        self.watch.answered(answered, of);
    }
}

/// Adds to the error which round it was.
fn in_round(mut no_verdict: NoVerdict, pauses: Pauses, recorded: usize) -> NoVerdict {
    if let NoVerdict::Interrupted {
        progress, events, ..
    }
    | NoVerdict::History {
        progress, events, ..
    } = &mut no_verdict
    {
        *progress = format!("{}: {progress}", pauses.short());
        *events = recorded;
    }
    no_verdict
}
