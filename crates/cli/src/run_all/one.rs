//! Runs one trial of the `run-all` matrix and writes its files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fencepost_rig::Interrupt;
use fencepost_trial::matrix::{Cell, Run};
use fencepost_trial::processes::Stopped;
use fencepost_trial::report::json::matrix;

use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::oversell::run_sale;
use crate::results::{OutputFile, open_history, seal};
use crate::{holds, retry};

/// Why a trial was not finished.
pub(super) enum Trouble {
    Run(Stopped),
    Files(CommandError),
}

/// Runs a trial and writes its files as soon as it is over. Removes the history of a trial that was not finished.
pub(super) fn one(
    cell: &Cell,
    folder: Option<&Path>,
    interrupt: Interrupt,
) -> Result<Run, Trouble> {
    let Some(folder) = folder else {
        return carry_out(cell, None, interrupt);
    };
    let path = folder.join(cell.file_stem());
    let report =
        OutputFile::open("--output", &path.with_extension("json")).map_err(Trouble::Files)?;
    let at = path.with_extension("jsonl");
    let mut history = open_history("--output", &at).map_err(Trouble::Files)?;
    let unfinished = Unfinished(Some(at.clone()));
    let shared = history.try_clone().map_err(|error| {
        Trouble::Run(Stopped::History {
            error,
            progress: "no process was asked anything yet".into(),
            events: 0,
        })
    })?;
    let run = carry_out(cell, Some(shared), interrupt)?;
    let events = run.events().len();
    seal("--output", &at, &mut history, run.verdict(), events).map_err(Trouble::Files)?;
    unfinished.keep();
    report.fill(&matrix::report(&run)).map_err(Trouble::Files)?;
    Ok(run)
}

fn carry_out(cell: &Cell, file: Option<File>, interrupt: Interrupt) -> Result<Run, Trouble> {
    match cell {
        Cell::Sale(sale) => Contender::ours(sale.strategy)
            .and_then(|ours| run_sale(sale, &ours, file, &mut (), interrupt))
            .map(Run::Sale),
        Cell::Hold(trial) => holds::run_without_output(trial, file, interrupt).map(Run::Hold),
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
