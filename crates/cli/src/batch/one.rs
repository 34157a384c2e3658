//! Runs one trial of a batch and writes its files.

use std::fs::{self, File};
use std::path::PathBuf;

use fencepost_trial::matrix::{Cell, Run};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::report::json::matrix;

use super::Batch;
use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::results::{HistoryFile, OutputFile};
use crate::{holds, oversell, retry};

/// Why a trial was not finished.
pub(super) enum TrialFailure {
    Run(NoVerdict),
    Files(CommandError),
}

/// Runs a trial and writes its files as soon as it is over. Removes the history of a trial that was not finished, unless the error message
/// refers to it.
pub(super) fn one(batch: &Batch<'_>, at: usize) -> Result<Run, TrialFailure> {
    let Some(folder) = batch.folder else {
        return carry_out(batch, at, None).or_else(|failure| unready(batch, at, failure));
    };
    let named = |ending: &str| folder.join(format!("{}.{ending}", batch.stems[at]));
    let report = OutputFile::open("--output", &named("json")).map_err(TrialFailure::Files)?;
    let path = named("jsonl");
    let history = HistoryFile::open("--output", &path).map_err(TrialFailure::Files)?;
    let unfinished = Unfinished(Some(path));
    let recording = history.handle().map_err(|error| {
        TrialFailure::Run(NoVerdict::History {
            error,
            progress: "no process was asked anything yet".into(),
            events: 0,
        })
    })?;
    let run = match carry_out(batch, at, Some(recording)) {
        Ok(run) => run,
        Err(failure) if has_history(&failure) => {
            unfinished.keep();
            return Err(failure);
        }
        Err(failure) => {
            let run = unready(batch, at, failure)?;
            history
                .replace(&run.history())
                .map_err(TrialFailure::Files)?;
            run
        }
    };
    // It is readable without the verdict, too.
    unfinished.keep();
    let sealed = history.seal(run.verdict(), run.events().len());
    sealed.map_err(TrialFailure::Files)?;
    if let Run::Lock(judged) = &run {
        history
            .save_beginning(judged)
            .map_err(TrialFailure::Files)?;
    }
    report
        .fill_alone(&matrix::report(&run))
        .map_err(TrialFailure::Files)?;
    Ok(run)
}

/// Returns the result of a trial whose program did not get ready, if that concerns only this trial.
fn unready(batch: &Batch<'_>, at: usize, failure: TrialFailure) -> Result<Run, TrialFailure> {
    let run = match &failure {
        TrialFailure::Run(no_verdict) if batch.tolerant => batch.cells[at].unready(no_verdict),
        _ => None,
    };
    run.ok_or(failure)
}

/// Returns whether the error message of a failure says how much the history shows. What an interrupted trial recorded is not kept.
fn has_history(failure: &TrialFailure) -> bool {
    match failure {
        TrialFailure::Run(
            NoVerdict::StoreLost { events, .. }
            | NoVerdict::NotRestarted { events, .. }
            | NoVerdict::History { events, .. },
        ) => *events > 0,
        TrialFailure::Run(_) | TrialFailure::Files(_) => false,
    }
}

fn carry_out(batch: &Batch<'_>, at: usize, file: Option<File>) -> Result<Run, TrialFailure> {
    let (cell, interrupt) = (&batch.cells[at], batch.interrupt);
    let ours;
    let contender = match batch.contender {
        Some(contender) => contender,
        None => {
            ours = Contender::ours(cell.strategy()).map_err(TrialFailure::Run)?;
            &ours
        }
    };
    match cell {
        Cell::Sale(sale) => {
            oversell::run_and_judge(sale, contender, file, &mut (), interrupt).map(Run::Sale)
        }
        Cell::Lock(trial) => {
            holds::run_and_judge(trial, contender, file, &mut (), interrupt).map(Run::Lock)
        }
        Cell::Retry(comparison) => {
            retry::run_and_judge(comparison, file, &mut (), interrupt).map(Run::Retry)
        }
    }
    .map_err(TrialFailure::Run)
}

/// A file that is removed on drop unless it is kept.
struct Unfinished(Option<PathBuf>);

impl Unfinished {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
