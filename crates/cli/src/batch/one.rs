//! Runs one trial of a batch and writes its files.

use std::fs::{self, File};
use std::path::PathBuf;

use fencepost_trial::matrix::{Cell, Run};
use fencepost_trial::processes::Stopped;
use fencepost_trial::report::json::matrix;

use super::Batch;
use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::oversell::run_sale;
use crate::results::{OutputFile, open_history, save_beginning, seal};
use crate::{holds, retry};

/// Why a trial was not finished.
pub(super) enum Trouble {
    Run(Stopped),
    Files(CommandError),
}

/// Runs a trial and writes its files as soon as it is over. Removes the history of a trial that was not finished.
pub(super) fn one(batch: &Batch<'_>, at: usize) -> Result<Run, Trouble> {
    let Some(folder) = batch.folder else {
        return carry_out(batch, at, None);
    };
    let named = |ending: &str| folder.join(format!("{}.{ending}", batch.stems[at]));
    let report = OutputFile::open("--output", &named("json")).map_err(Trouble::Files)?;
    let path = named("jsonl");
    let mut history = open_history("--output", &path).map_err(Trouble::Files)?;
    let unfinished = Unfinished(Some(path.clone()));
    let shared = history.try_clone().map_err(|error| {
        Trouble::Run(Stopped::History {
            error,
            progress: "no process was asked anything yet".into(),
            events: 0,
        })
    })?;
    let run = carry_out(batch, at, Some(shared))?;
    let events = run.events().len();
    seal("--output", &path, &mut history, run.verdict(), events).map_err(Trouble::Files)?;
    unfinished.keep();
    if let Run::Hold(judged) = &run {
        save_beginning("--output", &path, judged).map_err(Trouble::Files)?;
    }
    report.fill(&matrix::report(&run)).map_err(Trouble::Files)?;
    Ok(run)
}

fn carry_out(batch: &Batch<'_>, at: usize, file: Option<File>) -> Result<Run, Trouble> {
    let (cell, interrupt) = (&batch.cells[at], batch.interrupt);
    let ours;
    let contender = match batch.contender {
        Some(contender) => contender,
        None => {
            ours = Contender::ours(cell.strategy()).map_err(Trouble::Run)?;
            &ours
        }
    };
    match cell {
        Cell::Sale(sale) => run_sale(sale, contender, file, &mut (), interrupt).map(Run::Sale),
        Cell::Hold(trial) => {
            holds::run_without_output(trial, contender, file, interrupt).map(Run::Hold)
        }
        Cell::Retry(comparison) => {
            retry::run_without_output(comparison, file, interrupt).map(Run::Retry)
        }
    }
    .map_err(Trouble::Run)
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
